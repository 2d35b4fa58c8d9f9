package mask

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// copies finds pieces of masked values in other texts. All texts are in the form that JSON has between quotes.
type copies struct {
	values []byte // each ends with a 0, which no text has
	// pieces is a hash table of all pieces of the values, and of shorter values, padded with zeros. 0 is a free slot.
	pieces []uint64
	short  uint8 // bit n is set if there is a value of n bytes, shorter than a piece
	built  bool
}

// Sizes of copies that are found, in bytes.
const (
	piece = 8 // a common substring of this length counts as a copy
	least = 4 // shorter values are not searched
)

func (c *copies) reset() { c.values, c.built = c.values[:0], false }

func (c *copies) held() int { return cap(c.values) + 8*cap(c.pieces) }

func (c *copies) any() bool { return len(c.values) > 0 }

// add adds a masked value.
func (c *copies) add(text []byte) {
	if len(text) >= least {
		c.values = append(append(c.values, text...), 0)
		c.built = false
	}
}

// in reports whether the text contains a piece of a masked value, or a short value as a whole.
func (c *copies) in(text []byte) bool {
	if !c.any() || len(text) < least {
		return false
	}
	c.build()
	for ; len(text) >= least; text = text[1:] {
		p := padded(text)
		if len(text) >= piece {
			if _, found := c.find(p); found {
				return true
			}
		}
		for n := least; n < min(piece, len(text)+1); n++ {
			if c.short&(1<<n) == 0 {
				continue
			}
			if _, found := c.find(p & (1<<(8*n) - 1)); found {
				return true
			}
		}
	}
	return false
}

// padded returns the first piece of the text, padded with zeros.
func padded(text []byte) uint64 {
	if len(text) >= piece {
		return binary.LittleEndian.Uint64(text)
	}
	var p [piece]byte
	copy(p[:], text)
	return binary.LittleEndian.Uint64(p[:])
}

// build fills the hash table, unless it is up to date.
func (c *copies) build() {
	if c.built {
		return
	}
	c.built, c.short = true, 0
	size := 1 << bits.Len(uint(2*len(c.values)))
	if cap(c.pieces) >= size {
		c.pieces = c.pieces[:size]
		clear(c.pieces)
	} else {
		c.pieces = make([]uint64, size)
	}
	for rest := c.values; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		value := rest[:end]
		rest = rest[end+1:]
		if len(value) < piece {
			c.short |= 1 << len(value)
			c.insert(padded(value))
		}
		for ; len(value) >= piece; value = value[1:] {
			c.insert(padded(value))
		}
	}
}

func (c *copies) insert(p uint64) {
	at, _ := c.find(p)
	c.pieces[at] = p
}

// The secrets of the hash function: callers choose masked values, and must not choose ones that collide.
var seed, factor = rand.Uint64(), rand.Uint64() | 1

// find returns the slot of p in the table, or the free slot for it.
func (c *copies) find(p uint64) (at int, found bool) {
	mask := len(c.pieces) - 1
	high, low := bits.Mul64(p^seed, factor)
	at = int(high^low) & mask //nolint:gosec // the mask makes it small
	for c.pieces[at] != 0 && c.pieces[at] != p {
		at = (at + 1) & mask
	}
	return at, c.pieces[at] != 0
}
