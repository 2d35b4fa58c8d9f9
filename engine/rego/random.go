package rego

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
)

// randomBytes fills p from the source, or from the process's if it is nil.
func randomBytes(source rand.Source, p []byte) (int, error) {
	if source == nil {
		return cryptorand.Read(p)
	}
	var word [8]byte
	for rest := p; len(rest) > 0; {
		binary.LittleEndian.PutUint64(word[:], source.Uint64())
		rest = rest[copy(rest, word[:]):]
	}
	return len(p), nil
}
