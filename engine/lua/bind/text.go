package bind

import (
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

const (
	// scratchBytes is up to which size strings are put together in memory that the meter
	// keeps.
	scratchBytes = 512
	// PaidAtOnce is how many bytes are added to a text before they are paid for.
	PaidAtOnce = 4 << 10
)

// Piece charges for the next piece of n bytes of which at were worked on before, and
// returns where it ends.
func Piece(l *vm.LState, at, n int) int {
	to := min(at+hostapi.PieceBytes, n)
	ChargeBytes(l, to-at)
	return to
}

// Room returns n bytes for a string, which are counted, and refused if they are over the
// limit.
func Room(l *vm.LState, n int) []byte {
	CapString(l, n)
	Allocate(l, StringBytes+n)
	return make([]byte, n)
}

// Text is a string that a builtin puts together. It is bounded, counted and paid for as it
// grows, so that a builtin that fails has cost as much as one that does not.
type Text struct {
	L    *vm.LState
	call *Call
	buf  []byte
	owed int // bytes that are not paid for
}

// NewText returns a text that will have about so many bytes.
func NewText(l *vm.LState, bytes int) Text {
	t := Text{L: l, call: CallOf(l)}
	t.buf, t.call.scratch = t.call.scratch, nil
	if t.buf == nil {
		t.buf = make([]byte, 0, scratchBytes)
	}
	if bytes > scratchBytes {
		t.grow(min(bytes, t.call.Host.StringBytes))
	}
	return t
}

// Value returns the string.
func (t *Text) Value() vm.LString {
	t.settle()
	if cap(t.buf) > scratchBytes {
		Allocate(t.L, StringBytes)
		return values.StringOf(t.buf)
	}
	Allocate(t.L, StringBytes+len(t.buf))
	s := vm.LString(t.buf)
	t.call.scratch = t.buf[:0]
	return s
}

// need makes room for n bytes more, or refuses them.
func (t *Text) need(n int) {
	if n += len(t.buf); n > cap(t.buf) || n > t.call.Host.StringBytes {
		t.grow(n)
	}
}

func (t *Text) grow(need int) {
	c, small := t.call, t.buf
	CapString(t.L, need)
	room := min(max(need, 2*cap(small)), c.Host.StringBytes)
	Allocate(t.L, room)
	t.buf = append(make([]byte, 0, room), small...)
	if cap(small) == scratchBytes {
		c.scratch = small[:0]
	}
}

// settle pays for what was added.
func (t *Text) settle() {
	n := t.owed
	t.owed = n % hostapi.BytesPerInstruction
	ChargeBytes(t.L, n)
}

// owe is for n bytes that were added.
func (t *Text) owe(n int) {
	if t.owed += n; t.owed >= PaidAtOnce {
		t.settle()
	}
}

// Add adds a string.
func (t *Text) Add(s string) {
	t.need(len(s))
	for len(s) > hostapi.PieceBytes {
		t.buf = append(t.buf, s[:hostapi.PieceBytes]...)
		s = s[hostapi.PieceBytes:]
		t.owe(hostapi.PieceBytes)
	}
	t.buf = append(t.buf, s...)
	t.owe(len(s))
}

// AddByte adds a byte.
func (t *Text) AddByte(c byte) {
	t.need(1)
	t.buf = append(t.buf, c)
	t.owe(1)
}

// AddValue adds a string or what a number prints.
func (t *Text) AddValue(v vm.LValue) {
	if s, ok := v.(vm.LString); ok {
		t.Add(string(s))
		return
	}
	var number [MaxNumberText]byte
	t.Add(string(AppendNumber(number[:0], v)))
}

// MaxNumberText is how long what a number prints is at most.
const MaxNumberText = 24

// AppendNumber appends what a number prints.
func AppendNumber(buf []byte, v vm.LValue) []byte {
	n, _ := v.(vm.LNumber)
	if f := float64(n); numeral.IsExact(f) && f != 0 {
		return strconv.AppendInt(buf, int64(f), 10)
	}
	return append(buf, numeral.Format(float64(n))...)
}

// IsText reports whether v is a string or a number.
func IsText(v vm.LValue) bool {
	return v.Type() == vm.LTString || v.Type() == vm.LTNumber
}

// AddReplacement adds what takes the place of a match: a text, or the match itself if it is nil or false.
func (t *Text) AddReplacement(v vm.LValue, match string) {
	switch {
	case vm.LVIsFalse(v):
		t.Add(match)
	case IsText(v):
		t.AddValue(v)
	default:
		t.L.RaiseError("invalid replacement value (a %s)", values.Name(v))
	}
}

// Repeat adds s n times, with the separator between.
func (t *Text) Repeat(s, separator string, n int) {
	t.need(n*len(s) + (n-1)*len(separator))
	begin, unit := len(t.buf), len(s)+len(separator)
	t.Add(s)
	if n == 1 {
		return
	}
	t.Add(separator)
	for left := n - 2; left > 0; {
		known := min((len(t.buf)-begin)/unit, max(hostapi.PieceBytes/unit, 1), left)
		t.Add(string(values.StringOf(t.buf[begin : begin+known*unit]))) // for which there is room
		left -= known
	}
	t.Add(s)
}

// IndexOf is strings.Index, which looks at the turn, and pays for what takes longer than
// one look at each byte of s.
func IndexOf(l *vm.LState, s, what string) int {
	const headBytes = 32 // of which a search for takes no longer than for one byte
	head := what[:min(len(what), headBytes)]
	rest := what[len(head):]
	for at, paid := 0, 0; ; {
		end := min(at+hostapi.PieceBytes, len(s))
		if end > paid {
			ChargeBytes(l, end-paid)
			paid = end
		}
		found := strings.Index(s[at:end], head)
		switch {
		case found >= 0 && len(s)-at-found < len(what), found < 0 && end == len(s):
			return -1
		case found < 0:
			at = end - len(head) + 1
		case HasPrefix(l, s[at+found+len(head):], rest):
			return at + found
		default:
			l.Charge(1)
			at += found + 1
		}
	}
}

// HasPrefix is strings.HasPrefix, and charges for what is compared.
func HasPrefix(l *vm.LState, s, prefix string) bool {
	const step = 4 << 10
	for len(prefix) > step {
		ChargeBytes(l, step)
		if s[:step] != prefix[:step] {
			return false
		}
		s, prefix = s[step:], prefix[step:]
	}
	return strings.HasPrefix(s, prefix)
}

// HasAny is strings.ContainsAny, which looks at the turn.
func HasAny(l *vm.LState, s, bytes string) bool {
	for ; len(s) > hostapi.PieceBytes; s = s[hostapi.PieceBytes:] {
		ChargeBytes(l, hostapi.PieceBytes)
		if strings.ContainsAny(s[:hostapi.PieceBytes], bytes) {
			return true
		}
	}
	return strings.ContainsAny(s, bytes)
}

var addressSeed = maphash.MakeSeed()

// ToString is tostring(v), __tostring included.
func ToString(l *vm.LState, v vm.LValue) string {
	switch v := v.(type) {
	case vm.LString:
		return string(v)
	case vm.LNumber:
		return numeral.Format(float64(v))
	case vm.LBool, *vm.LNilType:
		return v.String()
	}
	if fn := l.GetMetaField(v, "__tostring"); fn != vm.LNil {
		l.Push(fn)
		l.Push(v)
		result := l.CallOne(1)
		switch result := result.(type) {
		case vm.LString:
			return string(result)
		case vm.LNumber:
			return numeral.Format(float64(result))
		}
		l.RaiseError("'tostring' must return a string")
	}
	// Not the address itself, which is nobody's business.
	return values.TypeName(v) + ": 0x" + strconv.FormatUint(maphash.Comparable(addressSeed, v), 16)
}
