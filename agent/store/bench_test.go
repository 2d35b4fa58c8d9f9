package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// BenchmarkCommitOne is one change: a source of 4 KiB, its release, and the cursor. Put
// TMPDIR on the disk that is meant. live is the part that the change waits for.
func BenchmarkCommitOne(b *testing.B) {
	s, _ := open(b, filled(b))
	filler := strings.Repeat("-- a comment of some length\n", 146)
	n := 100
	var live time.Duration
	for b.Loop() {
		n++
		src := fmt.Sprint(filler, n)
		c := put(release(fmt.Sprint("s", n%500), script.Revision(n), src), src)
		began := time.Now()
		must(b, c.to(s))
		live += time.Since(began)
		must(b, s.SaveCursor(store.Cursor{Fleet: "f", Revision: script.Revision(n)}))
	}
	b.ReportMetric(float64(live.Nanoseconds())/float64(b.N), "live-ns/op")
}

// BenchmarkCheckpoint is that of 70 changes of 4 KiB, which is what a full journal has.
func BenchmarkCheckpoint(b *testing.B) {
	filler := strings.Repeat("-- a comment of some length\n", 146)
	dir, n := filled(b), 100
	for b.Loop() {
		b.StopTimer()
		s, _ := open(b, dir)
		for range 70 {
			n++
			src := fmt.Sprint(filler, n)
			must(b, put(release(fmt.Sprint("s", n%500), script.Revision(n), src), src).to(s))
		}
		b.StartTimer()
		must(b, s.Close())
	}
}

// BenchmarkOpen is a start with next to nothing on disk.
func BenchmarkOpen(b *testing.B) {
	dir := filled(b)
	for b.Loop() {
		s, _ := open(b, dir)
		must(b, s.Close())
	}
}
