// Package numeral reads and writes numbers as Lua 5.1 does. Reading is linear in the text, and paid for: a numeral may be as
// long as a string.
package numeral

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// MaxExact is up to where a double holds every integer: 2^53.
const MaxExact = 1 << 53

// IsExact reports whether f is an integer that is printed as one.
func IsExact(f float64) bool {
	return f == math.Trunc(f) && math.Abs(f) <= MaxExact
}

// Format writes f as Lua does ("%.14g"), except that integers up to 2^53
// keep all their digits.
func Format(f float64) string {
	switch {
	case f == 0 && math.Signbit(f):
		return "-0"
	case IsExact(f):
		return strconv.FormatInt(int64(f), 10)
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', 14, 64)
}

// digitsPerInstruction is how many digits are read for one instruction.
const digitsPerInstruction = 8

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// IsHexDigit reports whether c is a hexadecimal digit.
func IsHexDigit(c byte) bool { return IsDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// trim returns s without space around it.
func (m reader) trim(s string) string {
	s = s[m.count(s, isSpace):]
	end := len(s)
	for end > 0 && isSpace(s[end-1]) {
		if end--; end%paidAtOnce == 0 && !m.Pay(paidAtOnce/digitsPerInstruction) {
			break
		}
	}
	return s[:end]
}

// reader reads at a meter.
type reader struct{ *vm.Meter }

// IsDigit reports whether c is one of 0 to 9.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// paidAtOnce is how many digits are looked at before they are paid for.
const paidAtOnce = 4 << 10

// count returns how many bytes at the beginning of s are of a kind, for an instruction
// for some digits. It ends early when the call is to end.
func (m reader) count(s string, is func(c byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		if n++; n%paidAtOnce == 0 && !m.Pay(paidAtOnce/digitsPerInstruction) {
			return n
		}
	}
	m.Pay(n % paidAtOnce / digitsPerInstruction)
	return n
}

// Parse reads a number as Lua's tonumber and lexer do: decimal, or
// hexadecimal integers after "0x", with space around it. It charges for the text.
func Parse(meter *vm.Meter, s string) (float64, bool) {
	m := reader{meter}
	digits, negative := strings.CutPrefix(m.trim(s), "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	var f float64
	if len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' {
		if m.count(digits[2:], IsHexDigit) < len(digits)-2 {
			return 0, false
		}
		f = m.parseHex(digits[2:])
	} else {
		if !m.isDecimal(digits) {
			return 0, false
		}
		f = m.parseDecimal(digits)
	}
	if negative {
		f = -f
	}
	return f, true
}

// isDecimal reports whether s is digits with an optional point and exponent.
func (m reader) isDecimal(s string) bool {
	whole := m.count(s, IsDigit)
	s = s[whole:]
	fraction := 0
	if s != "" && s[0] == '.' {
		fraction = m.count(s[1:], IsDigit)
		s = s[1+fraction:]
	}
	if whole+fraction == 0 || s == "" {
		return whole+fraction > 0
	}
	if s[0]|0x20 != 'e' {
		return false
	}
	if s = s[1:]; s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && m.count(s, IsDigit) == len(s)
}

// A double is decided by the first 767 digits of a numeral and by whether any other
// follows: what is longer than longNumeral is cut before it is read. strconv.ParseFloat
// loses what is before the point and beyond 800 digits.
const (
	decidingDigits = 780
	longNumeral    = 800
)

// parseDecimal reads what isDecimal has found to be one. What is out of range is
// infinite, as in C.
func (m reader) parseDecimal(s string) float64 {
	if len(s) > longNumeral {
		s = m.shorten(s)
	}
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// shorten returns a short numeral of the same double.
func (m reader) shorten(s string) string {
	short := make([]byte, 0, decidingDigits+32)
	scale, fraction, more := 0, false, false
	at := 0
	for ; at < len(s) && s[at]|0x20 != 'e'; at++ {
		if at%paidAtOnce == paidAtOnce-1 && !m.Pay(paidAtOnce/digitsPerInstruction) {
			return "0" // the call is over
		}
		c := s[at]
		if c == '.' {
			fraction = true
			continue
		}
		kept := len(short) < decidingDigits && (c != '0' || len(short) > 0)
		if kept {
			short = append(short, c)
		}
		counts := kept || len(short) == 0 // in front, zeros count behind the point alone
		switch {
		case counts && fraction:
			scale--
		case !counts:
			more = more || c != '0'
			if !fraction {
				scale++
			}
		}
	}
	if more {
		short, scale = append(short, '1'), scale-1
	}
	if len(short) == 0 {
		return "0"
	}
	if at < len(s) {
		scale += Exponent(m.Meter, s[at+1:])
	}
	return string(strconv.AppendInt(append(short, 'e'), int64(scale), 10))
}

// Decimal reads a decimal numeral. More digits than a double has take longer.
func Decimal(meter *vm.Meter, digits string) float64 {
	const quick = 24
	if len(digits) > quick {
		meter.Pay(min(len(digits), longNumeral))
	}
	if digits[0] == '-' {
		return -reader{meter}.parseDecimal(digits[1:])
	}
	return reader{meter}.parseDecimal(digits)
}

// Exponent reads the digits of an exponent; beyond what any double has it is exact no
// more.
func Exponent(meter *vm.Meter, s string) int {
	m := reader{meter}
	const beyond = 1 << 40
	digits, negative := strings.CutPrefix(s, "-")
	digits = strings.TrimPrefix(digits, "+")
	digits = digits[m.count(digits, func(c byte) bool { return c == '0' }):]
	n := 0
	for i := 0; i < len(digits) && n < beyond; i++ {
		n = 10*n + int(digits[i]-'0')
	}
	if negative {
		return -n
	}
	return n
}

// parseHex reads the digits of a hexadecimal integer. It rounds once.
func (m reader) parseHex(digits string) float64 {
	const deciding = 64
	digits = digits[m.count(digits, func(c byte) bool { return c == '0' }):]
	exponent, more := 0, ""
	if rest := len(digits) - deciding; rest > 0 {
		exponent = 4 * rest
		if m.count(digits[deciding:], func(c byte) bool { return c == '0' }) < rest {
			more, exponent = "1", exponent-4
		}
		digits = digits[:deciding]
	}
	f, _ := strconv.ParseFloat("0x0"+digits+more+"p"+strconv.Itoa(exponent), 64)
	return f
}

// DigitOf returns the value of c as a digit in bases up to 36, or -1.
func DigitOf(c byte) int {
	switch {
	case IsDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'Z':
		return int(c-'A') + 10
	}
	return -1
}

// ParseInteger reads an integer in a base from 2 to 36. It charges for the text.
func ParseInteger(meter *vm.Meter, s string, base int) (float64, bool) {
	m := reader{meter}
	s = m.trim(s)
	m.Pay(len(s) % paidAtOnce / digitsPerInstruction)
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	if base == 16 && len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' {
		digits = digits[2:]
	}
	if digits == "" {
		return 0, false
	}
	var f float64
	exact, fits := uint64(0), true // which rounds once
	for i := range len(digits) {
		d := DigitOf(digits[i])
		if d < 0 || d >= base || i%paidAtOnce == paidAtOnce-1 && !m.Pay(paidAtOnce/digitsPerInstruction) {
			return 0, false
		}
		f = f*float64(base) + float64(d)
		high, low := bits.Mul64(exact, uint64(base))
		sum, carry := bits.Add64(low, uint64(d), 0)
		exact, fits = sum, fits && high == 0 && carry == 0
	}
	if fits {
		f = float64(exact)
	}
	if negative {
		f = -f
	}
	return f, true
}
