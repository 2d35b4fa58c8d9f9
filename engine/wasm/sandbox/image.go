package sandbox

import (
	"math/bits"
)

// image is an instance's state after Initialize. It is shared and not changed.
type image struct {
	length  uint64   // of memory
	blocks  [][]byte // of blockBytes each; nil for zeros
	globals []uint64
	bytes   int
}

// blockBytes is the unit in which memory is reset.
const blockBytes = 4096

// bytesBeyond is how many bytes behind a block a store that begins in it can write: one of 16 bytes.
const bytesBeyond = 15

// capture copies the state of an instance.
func (i *instance) capture() *image {
	mem := i.memory.buffer
	img := &image{length: uint64(len(mem)), blocks: make([][]byte, len(mem)/blockBytes), globals: make([]uint64, len(i.globals))}
	for n := range img.blocks {
		if block := mem[n*blockBytes:][:blockBytes]; !isZero(block) {
			img.blocks[n] = append([]byte(nil), block...)
			img.bytes += blockBytes
		}
	}
	for n, g := range i.globals {
		img.globals[n] = g.Get()
	}
	i.forgetWrites()
	return img
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// forgetWrites begins to note what is written.
func (i *instance) forgetWrites() {
	for _, t := range i.touched {
		if t != nil {
			t.Set(0)
		}
	}
	i.hostDirty = i.hostDirty[:0]
}

// touch notes that a host function wrote.
func (i *instance) touch(address uint32, n int) {
	i.hostDirty = append(i.hostDirty, span{uint64(address), uint64(address) + uint64(n)})
}

// restore brings all of an instance's state to the image. It reports whether that can be done.
func (i *instance) restore(img *image) bool {
	if !i.memory.resize(i, img.length) {
		return false
	}
	for n, block := range img.blocks {
		setBlock(i.memory.buffer[n*blockBytes:][:blockBytes], block)
	}
	for n, g := range i.globals {
		g.Set(img.globals[n])
	}
	i.forgetWrites()
	return true
}

func setBlock(to, from []byte) {
	if from == nil {
		clear(to)
	} else {
		copy(to, from)
	}
}

// reset brings an instance back to its image, by what was written if that is known. It reports whether it did.
func (i *instance) reset() bool {
	img := i.image
	if img == nil {
		return false
	}
	if i.touched[0] == nil || i.touched[1] == nil {
		return i.restore(img)
	}
	low, high := i.touched[0].Get(), i.touched[1].Get()
	if !i.memory.resize(i, img.length) {
		return false
	}
	i.resetBlocks(low, high)
	for _, s := range i.hostDirty {
		for n := s.from / blockBytes; n*blockBytes < min(s.to, img.length); n++ {
			i.resetBlock(n)
		}
	}
	for n, g := range i.globals {
		g.Set(img.globals[n])
	}
	i.forgetWrites()
	return true
}

// resetBlocks resets the blocks whose number has its low 6 bits in the set low and the next 6 bits in the set high.
func (i *instance) resetBlocks(low, high uint64) {
	total := uint64(len(i.image.blocks))
	for first := uint64(0); first < total; first += 64 * 64 {
		for h := high; h != 0; h &= h - 1 {
			base := first + 64*uint64(bits.TrailingZeros64(h))
			if base >= total {
				break
			}
			for l := low; l != 0; l &= l - 1 {
				if n := base + uint64(bits.TrailingZeros64(l)); n < total {
					i.resetBlock(n)
				}
			}
		}
	}
}

// resetBlock resets a block and what a store in it may have written behind it.
func (i *instance) resetBlock(n uint64) {
	setBlock(i.memory.buffer[n*blockBytes:][:blockBytes], i.image.blocks[n])
	if n++; n < uint64(len(i.image.blocks)) {
		behind := i.image.blocks[n]
		if behind != nil {
			behind = behind[:bytesBeyond]
		}
		setBlock(i.memory.buffer[n*blockBytes:][:bytesBeyond], behind)
	}
}
