package lua

import (
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

const (
	// pieceBytes is how much of a long text a builtin works on before it looks at its turn.
	pieceBytes = hostapi.PieceBytes
	// scratchBytes is up to which size strings are put together in memory that the meter
	// keeps.
	scratchBytes = 512
	// paidAtOnce is how many bytes are added to a text before they are paid for.
	paidAtOnce = 4 << 10
)

// piece charges for the next piece of n bytes of which at were worked on before, and
// returns where it ends.
func piece(l *vm.LState, at, n int) int {
	to := min(at+pieceBytes, n)
	chargeBytes(l, to-at)
	return to
}

// room returns n bytes for a string, which are counted, and refused if they are over the
// limit.
func room(l *vm.LState, n int) []byte {
	capString(l, n)
	allocate(l, stringBytes+n)
	return make([]byte, n)
}

// text is a string that a builtin puts together. It is bounded, counted and paid for as it
// grows, so that a builtin that fails has cost as much as one that does not.
type text struct {
	L    *vm.LState
	call *binding
	buf  []byte
	owed int // bytes that are not paid for
}

// newText returns a text that will have about so many bytes.
func newText(l *vm.LState, bytes int) text {
	t := text{L: l, call: bindingOf(l)}
	t.buf, t.call.scratch = t.call.scratch, nil
	if t.buf == nil {
		t.buf = make([]byte, 0, scratchBytes)
	}
	if bytes > scratchBytes {
		t.grow(min(bytes, t.call.Host.StringBytes))
	}
	return t
}

// value returns the string.
func (t *text) value() vm.LString {
	t.settle()
	if cap(t.buf) > scratchBytes {
		allocate(t.L, stringBytes)
		return values.StringOf(t.buf)
	}
	allocate(t.L, stringBytes+len(t.buf))
	s := vm.LString(t.buf)
	t.call.scratch = t.buf[:0]
	return s
}

// need makes room for n bytes more, or refuses them.
func (t *text) need(n int) {
	if n += len(t.buf); n > cap(t.buf) || n > t.call.Host.StringBytes {
		t.grow(n)
	}
}

func (t *text) grow(need int) {
	c, small := t.call, t.buf
	capString(t.L, need)
	room := min(max(need, 2*cap(small)), c.Host.StringBytes)
	allocate(t.L, room)
	t.buf = append(make([]byte, 0, room), small...)
	if cap(small) == scratchBytes {
		c.scratch = small[:0]
	}
}

// Settle pays for what was added.
func (t *text) settle() {
	n := t.owed
	t.owed = n % bytesPerInstruction
	chargeBytes(t.L, n)
}

// owe is for n bytes that were added.
func (t *text) owe(n int) {
	if t.owed += n; t.owed >= paidAtOnce {
		t.settle()
	}
}

func (t *text) add(s string) {
	t.need(len(s))
	for len(s) > pieceBytes {
		t.buf = append(t.buf, s[:pieceBytes]...)
		s = s[pieceBytes:]
		t.owe(pieceBytes)
	}
	t.buf = append(t.buf, s...)
	t.owe(len(s))
}

func (t *text) addByte(c byte) {
	t.need(1)
	t.buf = append(t.buf, c)
	t.owe(1)
}

// addValue adds a string or what a number prints.
func (t *text) addValue(v vm.LValue) {
	if s, ok := v.(vm.LString); ok {
		t.add(string(s))
		return
	}
	var number [maxNumberText]byte
	t.add(string(appendNumber(number[:0], v)))
}

// repeat adds s n times, with the separator between.
func (t *text) repeat(s, separator string, n int) {
	t.need(n*len(s) + (n-1)*len(separator))
	begin, unit := len(t.buf), len(s)+len(separator)
	t.add(s)
	if n == 1 {
		return
	}
	t.add(separator)
	for left := n - 2; left > 0; {
		known := min((len(t.buf)-begin)/unit, max(pieceBytes/unit, 1), left)
		t.add(string(values.StringOf(t.buf[begin : begin+known*unit]))) // for which there is room
		left -= known
	}
	t.add(s)
}

// indexOf is strings.Index, which looks at the turn, and pays for what takes longer than
// one look at each byte of s.
func indexOf(l *vm.LState, s, what string) int {
	const headBytes = 32 // of which a search for takes no longer than for one byte
	head := what[:min(len(what), headBytes)]
	rest := what[len(head):]
	for at, paid := 0, 0; ; {
		end := min(at+pieceBytes, len(s))
		if end > paid {
			chargeBytes(l, end-paid)
			paid = end
		}
		found := strings.Index(s[at:end], head)
		switch {
		case found >= 0 && len(s)-at-found < len(what), found < 0 && end == len(s):
			return -1
		case found < 0:
			at = end - len(head) + 1
		case hasPrefix(l, s[at+found+len(head):], rest):
			return at + found
		default:
			l.Charge(1)
			at += found + 1
		}
	}
}

// hasPrefix is strings.HasPrefix, and charges for what is compared.
func hasPrefix(l *vm.LState, s, prefix string) bool {
	const step = 4 << 10
	for len(prefix) > step {
		chargeBytes(l, step)
		if s[:step] != prefix[:step] {
			return false
		}
		s, prefix = s[step:], prefix[step:]
	}
	return strings.HasPrefix(s, prefix)
}

// hasAny is strings.ContainsAny, which looks at the turn.
func hasAny(l *vm.LState, s, bytes string) bool {
	for ; len(s) > pieceBytes; s = s[pieceBytes:] {
		chargeBytes(l, pieceBytes)
		if strings.ContainsAny(s[:pieceBytes], bytes) {
			return true
		}
	}
	return strings.ContainsAny(s, bytes)
}
