package lua

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"
)

// Bounds of JSON on its way in and out.
const (
	maxDepth = 32
	maxNodes = 16_384
)

// decoder reads JSON (RFC 8259, strictly: UTF-8, one value, nothing after it)
// into Lua values. Text without escapes is not copied: strings keep the whole
// input alive. If a name occurs twice in an object, the last one counts. Objects
// become lazy ones.
type decoder struct {
	call  *call // that it is for
	nodes int   // values that may still be made

	in      string
	at      int
	deepest int  // level of what was read
	rough   bool // what was read is not as the encoder would write it
}

// value decodes one JSON text.
func (d *decoder) value(text []byte) (glua.LValue, error) {
	return d.valueOf(string(text))
}

// valueOf is value for a text that nobody changes: what comes of it refers to it.
func (d *decoder) valueOf(text string) (glua.LValue, error) {
	if err := d.begin(text); err != nil {
		return nil, err
	}
	v, err := d.any(0)
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

// object decodes a JSON object.
func (d *decoder) object(text []byte) (*glua.LTable, error) {
	if err := d.begin(string(text)); err != nil {
		return nil, err
	}
	if d.peek() != '{' {
		return nil, errors.New("is not a JSON object")
	}
	t, err := d.lazy(0)
	if err != nil {
		return nil, err
	}
	return t, d.end()
}

func (d *decoder) begin(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	if len(text) > math.MaxInt32 {
		return errors.New("is larger than 2 GiB")
	}
	d.in, d.at = text, 0
	d.space()
	return nil
}

func (d *decoder) end() error {
	d.space()
	if d.at < len(d.in) {
		return d.errorf("unexpected text after the JSON value")
	}
	return nil
}

func (d *decoder) errorf(format string, args ...any) error {
	return fmt.Errorf("%s at byte %d", fmt.Sprintf(format, args...), d.at+1)
}

// space steps over white space, of which there mostly is none.
func (d *decoder) space() {
	if d.at < len(d.in) && d.in[d.at] <= ' ' {
		d.spaces()
	}
}

func (d *decoder) spaces() {
	for d.at < len(d.in) {
		switch d.in[d.at] {
		case ' ', '\t', '\n', '\r':
			d.rough = true
			d.at++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	if d.at < len(d.in) {
		return d.in[d.at]
	}
	return 0
}

// count takes one value from those that may still be made.
func (d *decoder) count() error {
	if d.nodes--; d.nodes < 0 {
		return d.errorf("more than %d values", maxNodes)
	}
	return nil
}

func (d *decoder) any(depth int) (glua.LValue, error) {
	if err := d.count(); err != nil {
		return nil, err
	}
	switch c := d.peek(); {
	case c == '"':
		s, err := d.text()
		return glua.LString(s), err
	case c == '{':
		return d.lazy(depth)
	case c == '[':
		return d.array(depth)
	case c == '-' || isDigit(c):
		return d.number()
	}
	return d.word()
}

// word decodes true, false or null.
func (d *decoder) word() (glua.LValue, error) {
	switch d.peek() {
	case 't':
		return glua.LTrue, d.literal("true")
	case 'f':
		return glua.LFalse, d.literal("false")
	case 'n':
		return sandbox().null, d.literal("null")
	}
	if d.at >= len(d.in) {
		return nil, d.errorf("unexpected end of JSON")
	}
	return nil, d.errorf("unexpected character")
}

func (d *decoder) literal(word string) error {
	if !strings.HasPrefix(d.in[d.at:], word) {
		return d.errorf("unexpected character")
	}
	d.at += len(word)
	return nil
}

func (d *decoder) enter(depth int) error {
	if depth >= maxDepth {
		return d.errorf("nested deeper than %d", maxDepth)
	}
	d.deepest = max(d.deepest, depth)
	d.at++
	d.space()
	return nil
}

// next steps over what follows a member or an element: it reports whether there
// is another.
func (d *decoder) next(closer byte) (bool, error) {
	d.space()
	if d.at < len(d.in) {
		switch d.in[d.at] {
		case ',':
			d.at++
			d.space()
			return true, nil
		case closer:
			d.at++
			return false, nil
		}
	}
	return false, d.errorf("expected ',' or '%c'", closer)
}

// name decodes the name of a member, up to its value.
func (d *decoder) name() (string, error) {
	if d.peek() != '"' {
		return "", d.errorf("expected a name in quotes")
	}
	start := d.at + 1
	if end := plainUpTo(d.in, start); end+1 < len(d.in) && d.in[end] == '"' && d.in[end+1] == ':' {
		d.at = end + 2
		d.space()
		return d.in[start:end], nil
	}
	name, err := d.text()
	if err != nil {
		return "", err
	}
	d.space()
	if d.at >= len(d.in) || d.in[d.at] != ':' {
		return "", d.errorf("expected ':'")
	}
	d.at++
	d.space()
	return name, nil
}

func (d *decoder) array(depth int) (*glua.LTable, error) {
	if err := d.enter(depth); err != nil {
		return nil, err
	}
	if d.peek() == ']' {
		d.at++
		t := d.call.l.CreateTable(0, 0)
		t.Metatable = sandbox().arrayMeta
		meterOf(d.call.l).made(tableBytes)
		return t, nil
	}
	t := d.call.l.CreateTable(4, 0) // gopher-lua would begin with 32
	t.Metatable = sandbox().arrayMeta
	for n, more := 1, true; more; n++ {
		v, err := d.any(depth + 1)
		if err != nil {
			return nil, err
		}
		t.RawSetInt(n, v)
		if more, err = d.next(']'); err != nil {
			return nil, err
		}
	}
	meterOf(d.call.l).made(tableBytes + footprintOf(t).since(footprint{}))
	return t, nil
}

func (d *decoder) digits() bool {
	in, at := d.in, d.at
	for at < len(in) && isDigit(in[at]) {
		at++
	}
	some := at > d.at
	d.at = at
	return some
}

// digitValues are the numbers of one digit, which need no memory.
var digitValues = func() (values [10]glua.LValue) {
	for i := range values {
		values[i] = glua.LNumber(i)
	}
	return values
}()

// exactDigits are so many that they surely fit a double.
const exactDigits = 15

func (d *decoder) number() (glua.LValue, error) {
	digits, integer, err := d.digitsOfNumber()
	if err != nil {
		return nil, err
	}
	if integer && len(digits) == 1 {
		return digitValues[digits[0]-'0'], nil
	}
	if integer && len(digits) <= exactDigits {
		n, err := strconv.ParseInt(digits, 10, 64)
		return glua.LNumber(n), err
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return nil, d.errorf("number out of range")
	}
	return glua.LNumber(f), nil
}

// digitsOfNumber checks the number at d.at and returns its text.
func (d *decoder) digitsOfNumber() (text string, integer bool, err error) {
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
	exponent := false
	if d.peek() == '.' {
		integer = false
		if d.at++; !d.digits() {
			return "", false, d.errorf("malformed number")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		integer, exponent = false, true
		d.at++
		if c := d.peek(); c == '+' || c == '-' {
			d.at++
		}
		if !d.digits() {
			return "", false, d.errorf("malformed number")
		}
	}
	text = d.in[start:d.at]
	const surelyFits = 300 // digits, without an exponent
	if exponent || len(text) > surelyFits {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "", false, d.errorf("number out of range")
		}
	}
	d.rough = d.rough || !isPlainNumber(text, integer)
	return text, integer, nil
}

// text decodes a string in quotes.
func (d *decoder) text() (string, error) {
	in, start := d.in, d.at+1
	at := plainUpTo(in, start)
	d.at = at
	switch {
	case at >= len(in):
		return "", d.errorf("unexpected end of JSON")
	case in[at] == '"':
		d.at++
		return in[start:at], nil
	case in[at] == '\\':
		d.rough = true
		return d.escaped(start)
	}
	return "", d.errorf("control character in a string")
}

// plainUpTo returns where the first byte in s, from start on, is that does not stand
// for itself.
func plainUpTo(s string, start int) int {
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

// escaped goes on with a string that began at start and has an escape at d.at.
func (d *decoder) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(d.at-start)+16), d.in[start:d.at]...)
	for d.at < len(d.in) {
		switch c := d.in[d.at]; {
		case c == '"':
			d.at++
			return string(out), nil
		case c == '\\':
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return "", d.errorf("control character in a string")
		default:
			out = append(out, c)
			d.at++
		}
	}
	return "", d.errorf("unexpected end of JSON")
}

// escape decodes the escape at d.at. Half of a surrogate pair becomes U+FFFD.
func (d *decoder) escape() (rune, error) {
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
func (d *decoder) hex() (rune, bool) {
	if d.at+5 > len(d.in) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(d.in[d.at+1 : d.at+5]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	d.at += 5
	return r, true
}
