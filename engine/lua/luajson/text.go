package luajson

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Numbers and strings of JSON.

func (d *Decoder) digits() bool {
	start := d.at
	for more := true; more; {
		in, at := d.in, d.at
		end := min(at+lookBytes, len(in))
		for at < end && numeral.IsDigit(in[at]) {
			at++
		}
		d.at = at
		more = at == end && end < len(in) && d.pay() == nil
	}
	return d.at > start
}

// digitValues are the numbers of one digit, which need no memory.
var digitValues = func() (values [10]vm.LValue) {
	for i := range values {
		values[i] = vm.LNumber(i)
	}
	return values
}()

// exactDigits are so many that they surely fit a double.
const exactDigits = 15

func (d *Decoder) number() (vm.LValue, error) {
	digits, integer, err := d.digitsOfNumber()
	if err != nil {
		return nil, err
	}
	if integer && len(digits) == 1 {
		return digitValues[digits[0]-'0'], nil
	}
	if integer && len(digits) <= exactDigits {
		n, err := strconv.ParseInt(digits, 10, 64)
		return vm.LNumber(n), err
	}
	return vm.LNumber(numeral.Decimal(d.meter, digits)), nil
}

// digitsOfNumber checks the number at d.at and returns its text.
func (d *Decoder) digitsOfNumber() (text string, integer bool, err error) {
	start := d.at
	if d.peek() == '-' {
		d.at++
	}
	if d.peek() == '0' {
		d.at++
	} else if !d.digits() {
		return "", false, d.errorf("malformed number")
	}
	if c := d.peek(); c != '.' && c|0x20 != 'e' && d.in[start] != '-' && d.at-start <= exactDigits {
		return d.in[start:d.at], true, nil
	}
	integer = true
	magnitude := d.at - start // of its first digit, or more
	if d.peek() == '.' {
		integer = false
		if d.at++; !d.digits() {
			return "", false, d.errorf("malformed number")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		integer = false
		d.at++
		begin := d.at
		if c := d.peek(); c == '+' || c == '-' {
			d.at++
		}
		if !d.digits() {
			return "", false, d.errorf("malformed number")
		}
		magnitude += numeral.Exponent(d.meter, d.in[begin:d.at])
	}
	text = d.in[start:d.at]
	const surelyFits = 308
	if magnitude > surelyFits && math.IsInf(numeral.Decimal(d.meter, text), 0) {
		return "", false, d.errorf("number out of range")
	}
	d.rough = d.rough || !isPlainNumber(text, integer)
	return text, integer, nil
}

// text decodes a string in quotes.
func (d *Decoder) text() (string, error) {
	start := d.at + 1
	end := plainUpTo(d.in, start)
	if end < len(d.in) && d.in[end] == '"' {
		d.at = end + 1
		return d.in[start:end], nil
	}
	escapes, err := d.skipText()
	if err != nil {
		return "", err
	}
	if end = d.at - 1; escapes {
		return d.escaped(start, end)
	}
	return d.in[start:end], nil
}

// skipText steps over a string in quotes, and reports whether it has escapes.
func (d *Decoder) skipText() (escapes bool, err error) {
	d.at++
	for {
		d.at = plainUpTo(d.in, d.at)
		if err := d.look(); err != nil {
			return escapes, err
		}
		if d.at >= len(d.in) {
			return escapes, d.errorf("unexpected end of JSON")
		}
		switch c := d.in[d.at]; {
		case c == '"':
			d.at++
			return escapes, nil
		case c == '\\':
			escapes, d.rough = true, true
			if _, err := d.escape(); err != nil {
				return escapes, err
			}
		case !plainText[c]:
			return escapes, d.errorf("control character in a string")
		}
	}
}

// plainUpTo returns where the first byte in s, from start on, is that does not stand
// for itself. It goes no further than a piece.
func plainUpTo(s string, start int) int {
	if len(s)-start > hostapi.PieceBytes {
		s = s[:start+hostapi.PieceBytes]
	}
	const (
		ones, highs   = 0x0101010101010101, 0x8080808080808080
		spaces        = ones * ' '
		quotes        = ones * '"'
		backslashes   = ones * '\\'
		bytesAtATime  = 8
		bitsOfOneByte = 8
	)
	at := start
	for ; at+bytesAtATime <= len(s); at += bytesAtATime {
		text := s[at : at+bytesAtATime]
		eight := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		quote, backslash := eight^quotes, eight^backslashes
		// The highest bit of a byte is set where it is less than a space, or zero in one of
		// the others; what a carry sets besides is further on.
		special := ((eight-spaces)&^eight | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
		if special != 0 {
			return at + bits.TrailingZeros64(special)/bitsOfOneByte
		}
	}
	for at < len(s) && plainText[s[at]] {
		at++
	}
	return at
}

// plainText says which bytes of a string stand for themselves.
var plainText = func() (plain [256]bool) {
	for c := range plain {
		plain[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return plain
}()

// escaped decodes the string between start and end, which was checked and has escapes. It
// is charged as what is read a second time.
func (d *Decoder) escaped(start, end int) (string, error) {
	defer func(at int) { d.at, d.paid = at, at }(d.at)
	d.meter.Made(end - start)
	out := make([]byte, 0, end-start)
	for d.at, d.paid = start, start; d.at < end; {
		plain := plainUpTo(d.in[:end], d.at)
		out = append(out, d.in[d.at:plain]...)
		d.at = plain
		if err := d.look(); err != nil {
			return "", err
		}
		if d.at < end && d.in[d.at] == '\\' {
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return string(values.StringOf(out)), nil
}

// escape decodes the escape at d.at. Half of a surrogate pair becomes U+FFFD.
func (d *Decoder) escape() (rune, error) {
	d.at++
	c := d.peek()
	if c == 'u' {
		r, ok := d.hex()
		if !ok {
			return 0, d.errorf("malformed \\u escape")
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if !strings.HasPrefix(d.in[d.at:], `\u`) {
			return utf8.RuneError, nil
		}
		back := d.at
		d.at++
		low, ok := d.hex()
		if !ok {
			return 0, d.errorf("malformed \\u escape")
		}
		pair := utf16.DecodeRune(r, low)
		if pair == utf8.RuneError {
			d.at = back
		}
		return pair, nil
	}
	at := strings.IndexByte(`"\/bfnrt`, c)
	if at < 0 || c == 0 {
		return 0, d.errorf("unknown escape in a string")
	}
	d.at++
	return rune("\"\\/\b\f\n\r\t"[at]), nil
}

// hex decodes the four digits after the 'u' at d.at.
func (d *Decoder) hex() (rune, bool) {
	if d.at+5 > len(d.in) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(d.in[d.at+1 : d.at+5]) {
		if !numeral.IsHexDigit(c) {
			return 0, false
		}
		r = r<<4 | rune(numeral.DigitOf(c))
	}
	d.at += 5
	return r, true
}
