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
	call  *call  // that it is for
	meter *meter // of the call
	nodes int    // values that may still be made
	rate  int    // bytes that are read for one instruction

	in      string
	at      int
	paid    int  // up to where what was read is paid for
	deepest int  // level of what was read
	rough   bool // what was read is not as the encoder would write it
}

// Reading is charged, and yields the call's turn if it is asked for. When the call is to
// end it stops with an error that says nothing: the meter knows why.

// newDecoder returns a decoder for a text.
func newDecoder(c *call) decoder {
	return decoder{call: c, meter: meterOf(c.l), nodes: maxNodes, rate: jsonBytesPerInstruction}
}

// value decodes a JSON text that nobody changes: what comes of it refers to it.
func (d *decoder) value(text string) (glua.LValue, error) {
	if err := d.begin(text); err != nil {
		return nil, err
	}
	v, err := d.any(0)
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

// object is value for an object.
func (d *decoder) object(text string) (*glua.LTable, error) {
	if err := d.begin(text); err != nil {
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
	if len(text) > math.MaxInt32 {
		return errors.New("is larger than 2 GiB")
	}
	for rest := text; ; {
		to := wholeRunes(rest, pieceBytes)
		if !utf8.ValidString(rest[:to]) {
			return errors.New("is not valid UTF-8")
		}
		if rest = rest[to:]; rest == "" {
			break
		}
		if !d.meter.pay(to / bytesPerInstruction) {
			return errInterrupted
		}
	}
	d.in, d.at, d.paid = text, 0, 0
	d.space()
	return nil
}

// wholeRunes returns where the first piece of so many bytes of s ends, which splits no
// character.
func wholeRunes(s string, bytes int) int {
	to := min(bytes, len(s))
	for back := 1; back < utf8.UTFMax && to < len(s) && !utf8.RuneStart(s[to]); back++ {
		to--
	}
	return to
}

func (d *decoder) end() error {
	d.space()
	if d.at < len(d.in) {
		return d.errorf("unexpected text after the JSON value")
	}
	return d.pay()
}

// pay pays for what was read.
func (d *decoder) pay() error {
	n := (d.at - d.paid) / d.rate
	d.paid = d.at
	if !d.meter.pay(n) {
		return errInterrupted
	}
	return nil
}

// look pays when there is enough to pay for.
func (d *decoder) look() error {
	if d.at-d.paid < paidAtOnce {
		return nil
	}
	return d.pay()
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
			if d.at++; d.look() != nil {
				return
			}
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
	if d.nodes--; d.nodes >= 0 && d.at-d.paid < paidAtOnce {
		return nil
	}
	return d.counted()
}

// counted is for a value that is one too many, or before which there is something to pay.
func (d *decoder) counted() error {
	if d.nodes < 0 {
		return d.errorf("more than %d values", maxNodes)
	}
	return d.pay()
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
	err := d.elements(t, depth)
	d.meter.made(tableBytes + footprintOf(t).since(footprint{}))
	return t, err
}

// elements adds elements to t, of which there is one at least.
func (d *decoder) elements(t *glua.LTable, depth int) error {
	for n, more := 1, true; more; n++ {
		v, err := d.any(depth + 1)
		if err != nil {
			return err
		}
		t.RawSetInt(n, v)
		if more, err = d.next(']'); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) digits() bool {
	start := d.at
	for more := true; more; {
		in, at := d.in, d.at
		end := min(at+paidAtOnce, len(in))
		for at < end && isDigit(in[at]) {
			at++
		}
		d.at = at
		more = at == end && end < len(in) && d.pay() == nil
	}
	return d.at > start
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
	return glua.LNumber(d.float(digits)), nil
}

// float reads a number that digitsOfNumber has found to be one. Many digits take longer.
func (d *decoder) float(digits string) float64 {
	m := d.meter
	if len(digits) > exactDigits {
		m.pay(min(len(digits), longNumeral))
	}
	if digits[0] == '-' {
		return -m.parseDecimal(digits[1:])
	}
	return m.parseDecimal(digits)
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
		magnitude += d.meter.exponent(d.in[begin:d.at])
	}
	text = d.in[start:d.at]
	const surelyFits = 308
	if magnitude > surelyFits && math.IsInf(d.float(text), 0) {
		return "", false, d.errorf("number out of range")
	}
	d.rough = d.rough || !isPlainNumber(text, integer)
	return text, integer, nil
}

// text decodes a string in quotes.
func (d *decoder) text() (string, error) {
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
func (d *decoder) skipText() (escapes bool, err error) {
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
	if len(s)-start > pieceBytes {
		s = s[:start+pieceBytes]
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
func (d *decoder) escaped(start, end int) (string, error) {
	defer func(at int) { d.at, d.paid = at, at }(d.at)
	d.meter.made(end - start)
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
	return string(stringOf(out)), nil
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
		if !isHexDigit(c) {
			return 0, false
		}
		r = r<<4 | rune(digitOf(c))
	}
	d.at += 5
	return r, true
}
