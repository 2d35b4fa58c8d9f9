package spopsock

import (
	"math/bits"
	"net/netip"
	"strconv"
)

// kind is the type of a value.
type kind uint8

// The types of SPOP.
const (
	kindNull kind = iota
	kindBool
	kindInt32
	kindUint32
	kindInt64
	kindUint64
	kindIPv4
	kindIPv6
	kindString
	kindBinary
)

const (
	kindMask = 0x0f
	flagTrue = 0x10
)

// value is one typed value. Which field has it depends on its kind.
type value struct {
	kind   kind
	truth  bool
	number uint64 // signed numbers in two's complement
	text   string // of strings, binaries and addresses
}

// String returns the value as text: an address or a number as people write it.
func (v value) String() string {
	switch v.kind {
	case kindBool:
		return strconv.FormatBool(v.truth)
	case kindInt32, kindInt64:
		return strconv.FormatInt(int64(v.number), 10)
	case kindUint32, kindUint64:
		return strconv.FormatUint(v.number, 10)
	case kindIPv4, kindIPv6:
		address, _ := netip.AddrFromSlice([]byte(v.text)) // the decoder has seen to the length
		return address.Unmap().String()
	case kindString, kindBinary:
		return v.text
	}
	return ""
}

// decoder takes values off the front of its text. After a failure it has no more to give.
type decoder struct {
	text   string
	failed bool
}

func (d *decoder) more() bool { return !d.failed && d.text != "" }

func (d *decoder) fail() {
	d.failed, d.text = true, ""
}

func (d *decoder) bytes(n uint64) string {
	if d.failed || n > uint64(len(d.text)) {
		d.fail()
		return ""
	}
	taken := d.text[:n]
	d.text = d.text[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != "" {
		return b[0]
	}
	return 0
}

// varint takes a number of one to ten bytes. One that does not fit into 64 bits is a failure.
func (d *decoder) varint() uint64 {
	n := uint64(d.byte())
	if n < 240 {
		return n
	}
	for shift := 4; ; shift += 7 {
		b := uint64(d.byte())
		if shift >= 64 || b<<shift>>shift != b {
			d.fail()
		}
		sum, carry := bits.Add64(n, b<<shift, 0)
		if carry != 0 {
			d.fail()
		}
		if n = sum; b < 128 || d.failed {
			break
		}
	}
	if d.failed {
		return 0
	}
	return n
}

func (d *decoder) string() string { return d.bytes(d.varint()) }

func (d *decoder) value() value {
	b := d.byte()
	v := value{kind: kind(b & kindMask)}
	switch v.kind {
	case kindNull:
	case kindBool:
		v.truth = b&flagTrue != 0
	case kindInt32, kindUint32, kindInt64, kindUint64:
		v.number = d.varint()
	case kindIPv4:
		v.text = d.bytes(4)
	case kindIPv6:
		v.text = d.bytes(16)
	case kindString, kindBinary:
		v.text = d.string()
	default:
		d.fail()
	}
	if d.failed {
		return value{}
	}
	return v
}

func appendVarint(dst []byte, n uint64) []byte {
	if n < 240 {
		return append(dst, byte(n))
	}
	dst = append(dst, byte(n)|240)
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		dst = append(dst, byte(n)|128)
	}
	return append(dst, byte(n))
}

func appendString(dst []byte, s string) []byte {
	return append(appendVarint(dst, uint64(len(s))), s...)
}

func appendValue(dst []byte, v value) []byte {
	b := byte(v.kind)
	switch v.kind {
	case kindBool:
		if v.truth {
			b |= flagTrue
		}
	case kindInt32, kindUint32, kindInt64, kindUint64:
		return appendVarint(append(dst, b), v.number)
	case kindIPv4, kindIPv6:
		return append(append(dst, b), v.text...)
	case kindString, kindBinary:
		return appendString(append(dst, b), v.text)
	}
	return append(dst, b)
}

func appendPair(dst []byte, name string, v value) []byte {
	return appendValue(appendString(dst, name), v)
}

func textValue(s string) value { return value{kind: kindString, text: s} }

func numberValue(n uint64) value { return value{kind: kindUint32, number: n} }

func boolValue(b bool) value { return value{kind: kindBool, truth: b} }
