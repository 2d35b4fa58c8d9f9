package lua

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// maxExactInteger is up to where a double holds every integer: 2^53.
const maxExactInteger = 1 << 53

// isExactInteger reports whether f is an integer that is printed as one.
func isExactInteger(f float64) bool {
	return f == math.Trunc(f) && math.Abs(f) <= maxExactInteger
}

// formatNumber writes f as Lua does ("%.14g"), except that integers up to 2^53
// keep all their digits.
func formatNumber(f float64) string {
	switch {
	case f == 0 && math.Signbit(f):
		return "-0"
	case isExactInteger(f):
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

const luaSpace = " \t\n\v\f\r"

// parseNumber reads a number as Lua's tonumber and lexer do: decimal, or
// hexadecimal integers after "0x", with space around it.
func parseNumber(s string) (float64, bool) {
	s = strings.Trim(s, luaSpace)
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	var f float64
	if len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' {
		for _, c := range []byte(digits[2:]) {
			if d := digitOf(c); d < 0 || d > 15 {
				return 0, false
			}
		}
		f, _ = strconv.ParseFloat(digits+"p0", 64) // rounds once
	} else {
		if !isDecimal(digits) {
			return 0, false
		}
		f, _ = strconv.ParseFloat(digits, 64) // out of range is infinite, as in C
	}
	if negative {
		f = -f
	}
	return f, true
}

// isDecimal reports whether s is digits with an optional point and exponent.
func isDecimal(s string) bool {
	mantissa := s
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		exponent := s[at+1:]
		mantissa = s[:at]
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if !allDigits(exponent) || exponent == "" {
			return false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return allDigits(whole) && allDigits(fraction) && whole+fraction != ""
}

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// digitOf returns the value of c as a digit in bases up to 36, or -1.
func digitOf(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'Z':
		return int(c-'A') + 10
	}
	return -1
}

// parseInteger reads an integer in a base from 2 to 36.
func parseInteger(s string, base int) (float64, bool) {
	s = strings.Trim(s, luaSpace)
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
		d := digitOf(digits[i])
		if d < 0 || d >= base {
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
