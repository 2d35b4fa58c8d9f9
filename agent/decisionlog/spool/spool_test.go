package spool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/spool"
)

func open(t *testing.T, dir string, most int64) *spool.Spool {
	t.Helper()
	s, err := spool.Open(spool.Config{Dir: dir, MaxBytes: most, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func keep(s *spool.Spool, tenant, record string) error {
	c, err := s.Append(tenant, []byte(record))
	if err != nil {
		return err
	}
	return c.Wait(context.Background())
}

// next returns the next records, without taking them.
func next(t *testing.T, r *spool.Reader) (all []string) {
	t.Helper()
	lines, err := r.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		all = append(all, string(line))
	}
	return all
}

// take takes all records that there are.
func take(t *testing.T, r *spool.Reader) (all []string) {
	t.Helper()
	for {
		some := next(t, r)
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
		if err := r.Advance(); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("record %d", i))
	}
	return all
}

// TestReaders: each gets all records in their order, goes on where it was, and gets again what it has
// not taken.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	a := s.Reader("a")
	s.Reader("b")
	for _, record := range numbered(0, 10) {
		if err := keep(s, "acme", record); err != nil {
			t.Fatal(err)
		}
	}
	<-a.Ready()
	if got := next(t, a); !slices.Equal(got, numbered(0, 10)) {
		t.Errorf("a gets %q", got)
	}
	if got := take(t, a); !slices.Equal(got, numbered(0, 10)) {
		t.Errorf("a gets %q, which it had not taken", got)
	}
	if err := keep(s, "acme", "record 10"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := keep(s, "acme", "late"); err == nil {
		t.Error("a closed spool takes a record")
	}
	s = open(t, dir, 1<<20)
	a = s.Reader("a")
	b := s.Reader("b")
	if got := take(t, a); !slices.Equal(got, numbered(10, 11)) {
		t.Errorf("after a restart, a gets %q", got)
	}
	if got := take(t, b); !slices.Equal(got, numbered(0, 11)) {
		t.Errorf("after a restart, b gets %q", got)
	}
	if err := keep(s, "acme", "record 11"); err != nil {
		t.Fatal(err)
	}
	if got := append(take(t, a), take(t, b)...); !slices.Equal(got, []string{"record 11", "record 11"}) {
		t.Errorf("then they get %q", got)
	}
}

// TestASlowReaderAfterARestart: records wait for it, also if a reader that has read them comes first.
func TestASlowReaderAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	fast := s.Reader("fast")
	s.Reader("slow")
	for _, record := range numbered(0, 10) {
		if err := keep(s, "acme", record); err != nil {
			t.Fatal(err)
		}
	}
	take(t, fast)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, 1<<20)
	s.Reader("fast")
	if got := take(t, s.Reader("slow")); !slices.Equal(got, numbered(0, 10)) {
		t.Errorf("after a restart, the slow reader gets %q", got)
	}
}

// TestASinkThatIsGone: once the spool is full, it makes room of what waited for the sink.
func TestASinkThatIsGone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	s.Reader("gone")
	stays := s.Reader("stays")
	record := strings.Repeat("x", 10_000)
	kept := 0
	for ; kept < 1000 && keep(s, "acme", record) == nil; kept++ {
	}
	take(t, stays)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, 1<<20)
	stays = s.Reader("stays")
	if err := keep(s, "acme", record); err != nil {
		t.Errorf("with %d records that no sink waits for: %v", kept, err)
	}
	if got := take(t, stays); len(got) != 1 {
		t.Errorf("the sink gets %d records, want the new one", len(got))
	}
}

// TestBounds: the room is bounded, a tenant leaves as much as it has, and what all readers have is
// removed.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	r := s.Reader("a")
	record := strings.Repeat("x", 10_000)
	fill := func(tenant string) (n int) {
		for ; ; n++ {
			if err := keep(s, tenant, record); errors.Is(err, spool.ErrFull) {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	one, two, three := fill("one"), fill("two"), fill("three")
	if one < 45 || one > 53 || two < 22 || two > 27 || three < 10 || three > 14 {
		t.Errorf("three tenants have room for %d, %d and %d records", one, two, three)
	}
	if got := take(t, r); len(got) != one+two+three {
		t.Errorf("%d records come of %d", len(got), one+two+three)
	}
	if s.Bytes() > 1<<18 {
		t.Errorf("%d bytes are held when all is read", s.Bytes())
	}
	if again := fill("one"); again < 30 {
		t.Errorf("then there is room for %d records", again)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.records"))
	if err != nil || len(files) > 12 {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

// TestCommitsTogether: many that wait go in few batches, each in its order.
func TestCommitsTogether(t *testing.T) {
	s := open(t, t.TempDir(), 8<<20)
	r := s.Reader("a")
	var running sync.WaitGroup
	for w := range 32 {
		running.Go(func() {
			for i := range 50 {
				if err := keep(s, "acme", fmt.Sprintf("%d %d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	last := map[string]int{}
	got := take(t, r)
	for _, record := range got {
		var i int
		w, number, _ := strings.Cut(record, " ")
		if _, err := fmt.Sscan(number, &i); err != nil || last[w] != i {
			t.Fatalf("record %q comes after number %d", record, last[w]-1)
		}
		last[w]++
	}
	if len(got) != 32*50 {
		t.Errorf("%d records", len(got))
	}
}

// TestDamage: the end of a file that is not whole is left out, and the spool goes on behind it; so does
// a reader that finds a record damaged.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	s.Reader("a")
	for _, record := range numbered(0, 5) {
		if err := keep(s, "acme", record); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.records"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole); cut >= 0; cut-- {
		damaged := bytes.Clone(whole[:cut])
		if cut%3 == 0 && cut > 0 {
			damaged[cut-1] ^= 1
		}
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, 1<<20)
		r := s.Reader(fmt.Sprint("cut", cut))
		if err := keep(s, "acme", "next"); err != nil {
			t.Fatal(err)
		}
		got := take(t, r)
		if n := len(got) - 1; n < 0 || got[n] != "next" || !slices.Equal(got[:n], numbered(0, n)) || n > 5 {
			t.Fatalf("of %d bytes come %q", cut, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"*.records", "*.cursor"} {
			left, _ := filepath.Glob(filepath.Join(dir, name))
			for _, path := range left {
				_ = os.Remove(path)
			}
		}
	}
}
