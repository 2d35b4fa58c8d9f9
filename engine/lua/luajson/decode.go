package luajson

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Bounds of JSON on its way in and out.
const (
	maxDepth = 32
	maxNodes = 16_384
	// lookBytes is how many bytes are read or written before they are paid for.
	lookBytes = 4 << 10
)

// Decoder reads JSON (RFC 8259, strictly: UTF-8, one value, nothing after it)
// into Lua values. Text without escapes is not copied: strings keep the whole
// input alive. If a name occurs twice in an object, the last one counts. Objects
// become lazy ones. null is nil, except as an element of an array: that is json.null,
// so that the others keep their places.
type Decoder struct {
	store *Store
	meter *vm.Meter // the store's
	nodes int       // values that may still be made
	rate  int       // bytes that are read for one instruction

	in      string
	at      int
	paid    int  // up to where what was read is paid for
	deepest int  // level of what was read
	rough   bool // what was read is not as the encoder would write it
}

// Reading is charged, and yields the call's turn if it is asked for. When the call is to
// end it stops with an error that says nothing: the meter knows why.

// textPerInstruction is how many bytes are decoded for one instruction: a short value takes about as long as one.
const textPerInstruction = 4

// NewDecoder returns a decoder for a text.
func NewDecoder(s *Store) Decoder {
	return Decoder{store: s, meter: s.meter, nodes: maxNodes, rate: textPerInstruction}
}

// Value decodes a JSON text that nobody changes: what comes of it refers to it.
func (d *Decoder) Value(text string) (vm.LValue, error) {
	if err := d.begin(text); err != nil {
		return nil, err
	}
	v, err := d.any(0)
	if err != nil {
		return nil, err
	}
	if v == vm.LValue(values.Null) {
		v = vm.LNil
	}
	return v, d.end()
}

// Object is value for an object.
func (d *Decoder) Object(text string) (*vm.LTable, error) {
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

func (d *Decoder) begin(text string) error {
	if len(text) > math.MaxInt32 {
		return errors.New("is larger than 2 GiB")
	}
	for rest := text; ; {
		to := wholeRunes(rest, hostapi.PieceBytes)
		if !utf8.ValidString(rest[:to]) {
			return errors.New("is not valid UTF-8")
		}
		if rest = rest[to:]; rest == "" {
			break
		}
		if !d.meter.Pay(to / hostapi.BytesPerInstruction) {
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

func (d *Decoder) end() error {
	d.space()
	if d.at < len(d.in) {
		return d.errorf("unexpected text after the JSON value")
	}
	return d.pay()
}

// pay pays for what was read.
func (d *Decoder) pay() error {
	n := (d.at - d.paid) / d.rate
	d.paid = d.at
	if !d.meter.Pay(n) {
		return errInterrupted
	}
	return nil
}

// look pays when there is enough to pay for.
func (d *Decoder) look() error {
	if d.at-d.paid < lookBytes {
		return nil
	}
	return d.pay()
}

func (d *Decoder) errorf(format string, args ...any) error {
	return fmt.Errorf("%s at byte %d", fmt.Sprintf(format, args...), d.at+1)
}

// space steps over white space, of which there mostly is none.
func (d *Decoder) space() {
	if d.at < len(d.in) && d.in[d.at] <= ' ' {
		d.spaces()
	}
}

func (d *Decoder) spaces() {
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
func (d *Decoder) peek() byte {
	if d.at < len(d.in) {
		return d.in[d.at]
	}
	return 0
}

// count takes one value from those that may still be made.
func (d *Decoder) count() error {
	if d.nodes--; d.nodes >= 0 && d.at-d.paid < lookBytes {
		return nil
	}
	return d.counted()
}

// counted is for a value that is one too many, or before which there is something to pay.
func (d *Decoder) counted() error {
	if d.nodes < 0 {
		return d.errorf("more than %d values", maxNodes)
	}
	return d.pay()
}

func (d *Decoder) any(depth int) (vm.LValue, error) {
	if err := d.count(); err != nil {
		return nil, err
	}
	switch c := d.peek(); {
	case c == '"':
		s, err := d.text()
		return vm.LString(s), err
	case c == '{':
		return d.lazy(depth)
	case c == '[':
		return d.array(depth)
	case c == '-' || numeral.IsDigit(c):
		return d.number()
	}
	return d.word()
}

// word decodes true, false or null.
func (d *Decoder) word() (vm.LValue, error) {
	switch d.peek() {
	case 't':
		return vm.LTrue, d.literal("true")
	case 'f':
		return vm.LFalse, d.literal("false")
	case 'n':
		return values.Null, d.literal("null")
	}
	if d.at >= len(d.in) {
		return nil, d.errorf("unexpected end of JSON")
	}
	return nil, d.errorf("unexpected character")
}

func (d *Decoder) literal(word string) error {
	if !strings.HasPrefix(d.in[d.at:], word) {
		return d.errorf("unexpected character")
	}
	d.at += len(word)
	return nil
}

func (d *Decoder) enter(depth int) error {
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
func (d *Decoder) next(closer byte) (bool, error) {
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
func (d *Decoder) name() (string, error) {
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

func (d *Decoder) array(depth int) (*vm.LTable, error) {
	if err := d.enter(depth); err != nil {
		return nil, err
	}
	if d.peek() == ']' {
		d.at++
		t := vm.NewTable(0, 0)
		MarkArray(t)
		d.meter.Made(vm.TableBytes)
		return t, nil
	}
	t := vm.NewTable(4, 0) // the machine would begin with 32
	MarkArray(t)
	err := d.elements(t, depth)
	d.meter.Made(vm.TableBytes + t.Footprint().Since(vm.Footprint{}))
	return t, err
}

// elements adds elements to t, of which there is one at least.
func (d *Decoder) elements(t *vm.LTable, depth int) error {
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
