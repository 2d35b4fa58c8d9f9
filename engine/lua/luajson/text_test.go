package luajson

import (
	"math/rand/v2"
	"testing"
)

func TestPlainUpTo(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	interesting := []byte{0, 1, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 'a', 0x7f, 0x80, 0xa2, 0xdc, 0xff}
	for range 100_000 {
		text := make([]byte, r.IntN(30))
		for i := range text {
			text[i] = 'a'
			if r.IntN(8) == 0 {
				text[i] = interesting[r.IntN(len(interesting))]
			}
		}
		start := r.IntN(len(text) + 1)
		want := start
		for want < len(text) && plainText[text[want]] {
			want++
		}
		if got := plainUpTo(string(text), start); got != want {
			t.Fatalf("%q from %d: %d, want %d", text, start, got, want)
		}
	}
}

// TestArrayMarkIsEmpty: scripts find nothing in the metatable of arrays.
func TestArrayMarkIsEmpty(t *testing.T) {
	if arrayMark.Metatable != nil || arrayMark.Len() != 0 {
		t.Error("the mark of arrays is not empty")
	}
}
