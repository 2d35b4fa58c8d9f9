package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/script"
)

// many returns n releases with sources of about 1 KiB.
func many(n int) change {
	filler := strings.Repeat("-- a comment of some length\n", 36)
	var b change
	for i := range n {
		src := fmt.Sprintf("%sreturn %d", filler, i)
		b.Put = append(b.Put, entry(release(fmt.Sprint("s", i), script.Revision(i+1), src)))
		b.sources = append(b.sources, source(src))
	}
	return b
}

func BenchmarkLoad10000(b *testing.B) {
	dir := b.TempDir()
	s, _ := open(b, dir)
	must(b, many(10_000).to(s))
	must(b, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 10_000}))
	must(b, s.Close())
	for b.Loop() {
		s, loaded, err := store.Open(dir, trusted)
		must(b, err)
		if len(loaded.Releases) != 10_000 || len(loaded.Lost) != 0 {
			b.Fatal(len(loaded.Releases), loaded.Lost)
		}
		must(b, s.Close())
	}
}

func BenchmarkCommit100000(b *testing.B) {
	batch := many(100_000)
	for b.Loop() {
		s, _, err := store.Open(b.TempDir(), trusted)
		must(b, err)
		must(b, batch.to(s))
		must(b, s.Close())
	}
}

func BenchmarkCommitOne(b *testing.B) {
	s, _ := open(b, b.TempDir())
	n := 0
	for b.Loop() {
		n++
		src := fmt.Sprint("source ", n)
		must(b, put(release("a", script.Revision(n), src), src).to(s))
		must(b, s.SaveCursor(store.Cursor{Fleet: "f", Revision: script.Revision(n)}))
	}
}
