package luajson

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Encoder writes Lua values as JSON. It reads tables raw, so that nothing of
// the script runs.
type Encoder struct {
	// Base is where this encoder's output begins in dst.
	Base int

	store *Store
	meter *vm.Meter // the store's
	nodes int       // values that may still be written
	limit int       // bytes of output at most
	over  string    // what is too large then: "the results"
}

// NewEncoder returns an encoder for at most limit bytes, which are over if there are more: "the results".
func NewEncoder(s *Store, limit int, over string) Encoder {
	return Encoder{store: s, meter: s.meter, nodes: maxNodes, limit: limit, over: over}
}

// errInterrupted ends encoding when the meter is spent.
var errInterrupted = errors.New("interrupted")

// encodeError says why a value has no JSON, and where in it.
type encodeError struct {
	kind    script.Kind
	message string
	path    string
}

func (e *encodeError) Error() string { return e.message }

func refuse(kind script.Kind, format string, args ...any) error {
	return &encodeError{kind: kind, message: fmt.Sprintf(format, args...)}
}

// in notes that err happened at a member of the value being written.
func in(err error, member string) error {
	if e, ok := errors.AsType[*encodeError](err); ok {
		e.path = member + e.path
	}
	return err
}

// Fail turns an error of Value into one for the caller; what names the value.
func (e *Encoder) Fail(err error, what string) *script.Error {
	if errors.Is(err, errInterrupted) {
		return e.store.owner.Stopped()
	}
	failed, ok := errors.AsType[*encodeError](err)
	if !ok {
		return script.AsError(err)
	}
	if failed.kind == script.Limit {
		return script.Errorf(failed.kind, "", "%s", failed.message)
	}
	return script.Errorf(failed.kind, "", "%s%s %s", what, hostapi.Clip(failed.path), failed.message)
}

// spend charges the meter, which encoding cannot do through a Lua error.
func (e *Encoder) spend(n int) error {
	if e.meter.Pay(n) {
		return nil
	}
	return errInterrupted
}

// Value appends a value to dst.
func (e *Encoder) Value(dst []byte, v vm.LValue) ([]byte, error) { return e.any(dst, v, 0) }

func (e *Encoder) any(dst []byte, v vm.LValue, depth int) ([]byte, error) {
	if e.nodes--; e.nodes < 0 {
		return dst, e.tooMany()
	}
	if err := e.spend(1); err != nil {
		return dst, err
	}
	switch v := v.(type) {
	case vm.LString:
		return e.text(dst, string(v))
	case vm.LNumber:
		f := float64(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return dst, refuse(script.Script, "is %s, which JSON cannot say", numeral.Format(f))
		}
		return e.room(appendNumber(dst, f))
	case vm.LBool:
		return e.room(strconv.AppendBool(dst, bool(v)))
	case *vm.LNilType:
		return e.room(append(dst, "null"...))
	case *vm.LTable:
		if depth >= maxDepth {
			return dst, refuse(script.Limit, "%s are nested deeper than %d, or contain themselves", e.over, maxDepth)
		}
		return e.table(dst, v, depth)
	}
	if v == vm.LValue(values.Null) {
		return e.room(append(dst, "null"...))
	}
	what := values.Name(v)
	if values.IsLibrary(v) {
		what = "library"
	}
	return dst, refuse(script.Script, "is a %s, which JSON cannot say", what)
}

func (e *Encoder) tooMany() error {
	return refuse(script.Limit, "%s have more than %d values", e.over, maxNodes)
}

// room refuses output that has become too large.
func (e *Encoder) room(dst []byte) ([]byte, error) {
	if len(dst)-e.Base > e.limit {
		return dst, refuse(script.Limit, "%s are larger than %d bytes", e.over, e.limit)
	}
	return dst, nil
}

// add appends s if there is room.
func (e *Encoder) add(dst []byte, s string) ([]byte, error) {
	if len(dst)-e.Base+len(s) > e.limit {
		return dst, refuse(script.Limit, "%s are larger than %d bytes", e.over, e.limit)
	}
	return append(dst, s...), nil
}

func (e *Encoder) table(dst []byte, t *vm.LTable, depth int) ([]byte, error) {
	if o := Lazy(t); o != nil {
		return e.lazyObject(dst, o, depth)
	}
	n, err := e.arrayLen(t)
	if err != nil {
		return dst, err
	}
	if n < 0 {
		return e.object(dst, t, depth)
	}
	dst = append(dst, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			dst = append(dst, ',')
		}
		if dst, err = e.any(dst, t.RawGetInt(i), depth+1); err != nil {
			return dst, in(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return e.room(append(dst, ']'))
}

// Arrays may have holes as long as they are not mostly holes.
const (
	sparseFrom  = 10
	sparseRatio = 2
)

// arrayLen returns the length of t as an array, or -1 if it is an object.
func (e *Encoder) arrayLen(t *vm.LTable) (int, error) {
	marked := t.Metatable == arrayMark
	if names, only := t.OnlyNames(); !marked && only {
		return -1, e.spend(min(names, 1)) // as of most tables
	}
	if nullsOf(t) != nil {
		return -1, nil
	}
	count, highest := 0, 0
	for k, _ := e.meter.Next(t, vm.LNil); k != vm.LNil; k, _ = e.meter.Next(t, k) {
		if err := e.spend(1); err != nil {
			return 0, err
		}
		n, ok := k.(vm.LNumber)
		if i := int(n); ok && i >= 1 && vm.LNumber(i) == n && i <= 1<<31 {
			count++
			highest = max(highest, i)
			continue
		}
		if marked {
			return 0, in(refuse(script.Script, "is a member of an array: its names must be 1, 2, 3 and so on"), "["+values.KeyText(k)+"]")
		}
		return -1, nil
	}
	sparse := highest > sparseFrom && highest > count*sparseRatio
	switch {
	case marked && sparse:
		return 0, refuse(script.Script, "is an array with too many holes")
	case marked:
		return highest, nil
	case count == 0, sparse:
		return -1, nil
	}
	return highest, nil
}

func (e *Encoder) object(dst []byte, t *vm.LTable, depth int) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	var err error
	for k, v := range e.meter.Pairs(t) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		switch key := k.(type) {
		case vm.LString:
			dst, err = e.text(dst, string(key))
		case vm.LNumber:
			name := numeral.Format(float64(key))
			if t.RawGetString(name) != vm.LNil {
				return dst, refuse(script.Script, "has both the number %s and the text %q as names", name, name)
			}
			dst, err = e.text(dst, name)
		default:
			err = refuse(script.Script, "has a %s as a name", values.Name(k))
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = e.any(dst, v, depth+1); err != nil {
			return dst, in(err, "."+values.KeyText(k))
		}
	}
	if nulls := nullsOf(t); nulls != nil {
		if dst, err = e.nulls(dst, nulls, first); err != nil {
			return dst, err
		}
	}
	if err := e.spend(0); err != nil { // which may have ended them
		return dst, err
	}
	return e.room(append(dst, '}'))
}

// nulls writes the null members with these names; first is true if they are the first members of their object.
func (e *Encoder) nulls(dst []byte, names *vm.LTable, first bool) ([]byte, error) {
	for name := range e.meter.Pairs(names) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		if dst, err = e.text(dst, string(name.(vm.LString))); err != nil {
			return dst, err
		}
		if dst, err = e.any(append(dst, ':'), vm.LNil, 0); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendNumber writes integers up to 2^53 without fraction or exponent, and
// other numbers with as many digits as bring them back exactly.
func appendNumber(dst []byte, f float64) []byte {
	if numeral.IsExact(f) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

const hexDigits = "0123456789abcdef"

// text writes s in quotes.
func (e *Encoder) text(dst []byte, s string) ([]byte, error) {
	if len(s) > hostapi.PieceBytes && len(s) <= e.limit { // or it would be copied over and over
		dst = slices.Grow(dst, len(s))
	}
	dst, err := e.add(dst, `"`)
	for err == nil && s != "" {
		to := wholeRunes(s, lookBytes)
		if err = e.spend(to / hostapi.BytesPerInstruction); err == nil {
			dst, err = e.piece(dst, s[:to])
		}
		s = s[to:]
	}
	if err != nil {
		return dst, err
	}
	return e.add(dst, `"`)
}

// piece writes a part of a text.
func (e *Encoder) piece(dst []byte, s string) ([]byte, error) {
	if len(dst)-e.Base+len(s) > e.limit {
		return e.add(dst, s) // which is refused
	}
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				return dst, refuse(script.Script, "is text that is not UTF-8")
			}
			i += size
			continue
		}
		if plainText[c] {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return e.room(append(dst, s[start:]...))
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
