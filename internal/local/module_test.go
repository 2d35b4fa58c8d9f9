package local_test

import (
	"encoding/binary"
	"slices"
)

// echo is a WebAssembly module that returns its argument.
func echo() []byte {
	// address << 32 | length
	return module([]byte{0x20, 0, 0xad, 0x42, 32, 0x86, 0x20, 1, 0xad, 0x84}, "")
}

// constant is a module that returns the JSON text whatever its argument is.
func constant(json string) []byte {
	return module(append([]byte{0x42}, signed(textAt<<32|int64(len(json)))...), json)
}

// textAt is the address of a module's text. Its argument is behind, at 1024.
const textAt = 16

// module assembles a module by hand. Its function handle has the code, which has the address and the length of the
// argument as its locals.
func module(code []byte, text string) []byte {
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{2, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7e}), // i32 → i32 and i32, i32 → i64
		section(3, []byte{2, 0, 1}),
		section(5, []byte{1, 0, 1}), // one page
		section(7, slices.Concat([]byte{3},
			sized([]byte("memory")), []byte{2, 0}, sized([]byte("scriptorium_alloc")), []byte{0, 0}, sized([]byte("handle")), []byte{0, 1})),
		section(10, slices.Concat([]byte{2}, sized([]byte{0, 0x41, 0x80, 0x08, 0x0b}), sized(slices.Concat([]byte{0}, code, []byte{0x0b})))),
		section(11, slices.Concat([]byte{1, 0, 0x41, textAt, 0x0b}, sized([]byte(text)))),
	)
}

func section(id byte, content []byte) []byte { return append([]byte{id}, sized(content)...) }

func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// signed encodes a number that is not negative as a signed LEB128.
func signed(v int64) (b []byte) {
	for ; v >= 0x40; v >>= 7 {
		b = append(b, byte(v)|0x80) //nolint:gosec // seven bits of it
	}
	return append(b, byte(v)) //nolint:gosec // less than 0x40
}
