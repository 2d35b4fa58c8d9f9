package instrument

import (
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// reader reads the binary format. After the first error it stays at its place and returns zeros, so that callers check
// err once.
type reader struct {
	buf []byte // the whole module up to the end of what is read
	pos int
	err error
}

// fail ends reading with an error at the place.
func (r *reader) fail(format string, args ...any) { r.failAt(r.pos, script.Script, format, args...) }

// limit ends reading: what is at the place is over a bound.
func (r *reader) limit(format string, args ...any) { r.failAt(r.pos, script.Limit, format, args...) }

func (r *reader) failAt(pos int, kind script.Kind, format string, args ...any) {
	if r.err != nil {
		return
	}
	e := script.Errorf(kind, "source", format, args...)
	e.Message = "wasm module, offset " + hex(pos) + ": " + e.Message
	r.err = e
}

func hex(n int) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; n > 0 || s == ""; n >>= 4 {
		s = string(digits[n&15]) + s
	}
	return "0x" + s
}

func (r *reader) left() int { return len(r.buf) - r.pos }

// more reports whether there is more to read.
func (r *reader) more() bool { return r.err == nil && r.pos < len(r.buf) }

func (r *reader) byte() byte {
	if r.err != nil {
		return 0
	}
	if r.pos >= len(r.buf) {
		r.fail("unexpected end")
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.left() {
		r.fail("unexpected end: %d bytes are wanted and %d left", n, r.left())
		return nil
	}
	b := r.buf[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) u32() uint32 {
	if r.err == nil && r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint32(r.buf[r.pos-1])
	}
	var v uint32
	for i := range 5 {
		b := r.byte()
		if i == 4 && b > 0x0f {
			r.fail("an unsigned number of 32 bits is too large or too long")
			return 0
		}
		v |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v
		}
	}
	return v
}

// signed reads a signed LEB128 number of the bits.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(b&0x7f) << shift
		left := bits - shift // bits of the number that this byte may hold
		if left < 7 {
			// The rest has to repeat the sign.
			if high := int8(b<<1) >> left; b >= 0x80 || high != 0 && high != -1 {
				r.fail("a signed number of %d bits is too large or too long", bits)
				return 0
			}
		}
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// count reads how many items follow, each at least size bytes.
func (r *reader) count(what string, size, limit int) int {
	n := int(r.u32())
	if r.err == nil && n > limit {
		r.limit("there are %d %s: at most %d are allowed", n, what, limit)
	}
	if r.err == nil && n > r.left()/size {
		r.fail("it announces %d %s, and only %d bytes are left", n, what, r.left())
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) name() string {
	n := int(r.u32())
	if r.err == nil && n > MaxNameBytes {
		r.limit("a name has %d bytes: at most %d are allowed", n, MaxNameBytes)
	}
	b := r.bytes(n)
	if r.err == nil && !utf8.Valid(b) {
		r.fail("a name is not UTF-8")
	}
	return string(b)
}

func (r *reader) index(what string, n int) uint32 {
	i := r.u32()
	if r.err == nil && int(i) >= n {
		r.fail("unknown %s %d: there are %d", what, i, n)
	}
	return i
}

func (r *reader) valueType() ValueType {
	t := ValueType(r.byte())
	if r.err == nil && !t.valid() {
		r.fail("unknown type 0x%02x", byte(t))
	}
	return t
}

func (r *reader) refType() ValueType {
	t := ValueType(r.byte())
	if r.err == nil && t != FuncRef && t != ExternRef {
		r.fail("type 0x%02x is no reference of core 2.0", byte(t))
	}
	return t
}

// appendU32 appends v as unsigned LEB128.
func appendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// appendS64 appends v as signed LEB128.
func appendS64(b []byte, v int64) []byte {
	for v < -0x40 || v > 0x3f {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// appendName appends a text with its length.
func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }
