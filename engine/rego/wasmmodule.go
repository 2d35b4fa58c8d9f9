package rego

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// OPA's modules import their memory, which a sandbox does not provide: a module is to have a memory of its own, which
// the sandbox bounds. ownMemory rewrites a module accordingly, and drops its custom sections.

const (
	customSection = 0
	importSection = 2
	memorySection = 5
	tableSection  = 4
)

var errModule = errors.New("the module that OPA has made is not as expected")

// ownMemory makes the imported memory one of the module's own. Nothing else changes: functions have indexes of their own.
func ownMemory(module []byte) ([]byte, error) {
	const header = 8
	if len(module) < header {
		return nil, errModule
	}
	out := bytes.NewBuffer(make([]byte, 0, len(module)))
	out.Write(module[:header])
	var memory []byte // its limits
	for rest := module[header:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || uint64(len(rest)-1-n) < size {
			return nil, errModule
		}
		body := rest[1+n:][:size]
		rest = rest[1+n+int(size):]
		if memory != nil && id > tableSection {
			section(out, memorySection, append([]byte{1}, memory...))
			memory = nil
		}
		switch id {
		case customSection:
			continue
		case importSection:
			var err error
			if body, memory, err = withoutMemory(body); err != nil {
				return nil, err
			}
		}
		section(out, id, body)
	}
	return out.Bytes(), nil
}

func section(out *bytes.Buffer, id byte, body []byte) {
	out.WriteByte(id)
	out.Write(binary.AppendUvarint(nil, uint64(len(body))))
	out.Write(body)
}

// withoutMemory returns an import section without the memory, and the limits of that.
func withoutMemory(imports []byte) (kept, memory []byte, err error) {
	count, n := binary.Uvarint(imports)
	if n <= 0 {
		return nil, nil, errModule
	}
	rest := imports[n:]
	var entries []byte
	left := uint64(0)
	for range count {
		entry := rest
		for range 2 { // module and name
			size, n := binary.Uvarint(rest)
			if n <= 0 || uint64(len(rest)-n) <= size {
				return nil, nil, errModule
			}
			rest = rest[n+int(size):]
		}
		kind := rest[0]
		rest = rest[1:]
		descriptor := rest
		numbers := 1
		if kind == 2 { // of a memory: flags, minimum, perhaps maximum
			numbers = 2
			if len(rest) > 0 && rest[0]&1 == 1 {
				numbers = 3
			}
		} else if kind != 0 {
			return nil, nil, errModule
		}
		for range numbers {
			_, n := binary.Uvarint(rest)
			if n <= 0 {
				return nil, nil, errModule
			}
			rest = rest[n:]
		}
		if kind == 2 {
			memory = descriptor[:len(descriptor)-len(rest)]
			continue
		}
		entries = append(entries, entry[:len(entry)-len(rest)]...)
		left++
	}
	if memory == nil {
		return nil, nil, errModule
	}
	return append(binary.AppendUvarint(nil, left), entries...), memory, nil
}
