package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func blobFile(content string) string {
	digits := strings.TrimPrefix(script.DigestOf([]byte(content)).String(), "sha256:")
	return filepath.Join("blobs", digits[:2], digits)
}

func TestCorruptEntriesHeal(t *testing.T) {
	const (
		rel  = "releases/acme/b"
		full = script.Revision(0) // the cursor that asks for everything
	)
	blob := blobFile("source of b")
	change := func(how func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			t.Helper()
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, how(data), 0o600))
		}
	}
	truncate := change(func(b []byte) []byte { return b[:len(b)/2] })
	empty := change(func([]byte) []byte { return nil })
	flip := change(func(b []byte) []byte { b[len(b)-3] ^= 4; return b })
	zero := change(func(b []byte) []byte { clear(b); return b })
	remove := func(t *testing.T, path string) { t.Helper(); must(t, os.Remove(path)) }

	tests := []struct {
		name, path string
		spoil      func(*testing.T, string)
		releases   string
		cursor     script.Revision
		sourceGone bool
	}{
		{"release torn", rel, truncate, "a@10 c@30", full, false},
		{"release empty", rel, empty, "a@10 c@30", full, false},
		{"release flipped", rel, flip, "a@10 c@30", full, false},
		{"release zeroed", rel, zero, "a@10 c@30", full, false},
		{"release missing", rel, remove, "a@10 c@30", full, false},
		{"source torn", blob, truncate, "a@10 b@20 c@30", 30, true},
		{"source empty", blob, empty, "a@10 b@20 c@30", 30, true},
		{"source flipped", blob, flip, "a@10 b@20 c@30", 30, true},
		{"source missing", blob, remove, "a@10 b@20 c@30", 30, true},
		{"cursor torn", "cursor", truncate, "a@10 b@20 c@30", full, false},
		{"cursor flipped", "cursor", flip, "a@10 b@20 c@30", full, false},
		{"cursor missing", "cursor", remove, "a@10 b@20 c@30", full, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filled(t)
			tt.spoil(t, filepath.Join(dir, tt.path))
			// The second time nothing is corrupt, and nothing is forgotten either.
			for _, time := range []string{"first", "second"} {
				s, loaded := open(t, dir)
				if got := releasesOf(loaded); got != tt.releases {
					t.Errorf("%s load: releases %s, want %s", time, got, tt.releases)
				}
				if loaded.Cursor.Revision != tt.cursor {
					t.Errorf("%s load: cursor %+v, want %d", time, loaded.Cursor, tt.cursor)
				}
				if has := s.HasSource(script.DigestOf([]byte("source of b"))); tt.sourceGone == has && strings.Contains(tt.releases, "b@") {
					t.Errorf("%s load: has the source: %v", time, has)
				}
				must(t, s.Close())
			}
			s, _ := open(t, dir)
			must(t, put(release("b", 20, "source of b"), "source of b").to(s))
			must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 30}))
			must(t, s.Close())
			s, loaded := open(t, dir)
			if got := releasesOf(loaded); got != "a@10 b@20 c@30" || loaded.Cursor.Revision != 30 || len(loaded.Lost) != 0 {
				t.Errorf("after healing: %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
			}
			if _, err := s.Source(script.DigestOf([]byte("source of b"))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCorruptFilesAreKeptForAPersonButNotForEver(t *testing.T) {
	dir := filled(t)
	for i := range store.MaxCorrupt + 20 {
		must(t, os.WriteFile(filepath.Join(dir, "releases/acme", fmt.Sprint("bad", i)), []byte("rubbish"), 0o600))
	}
	_, loaded := open(t, dir)
	if len(loaded.Lost) != store.MaxCorrupt+20 || releasesOf(loaded) != "a@10 b@20 c@30" {
		t.Errorf("lost %d, loaded %s", len(loaded.Lost), releasesOf(loaded))
	}
	kept, err := os.ReadDir(filepath.Join(dir, "corrupt"))
	if err != nil || len(kept) != store.MaxCorrupt {
		t.Errorf("%d files are kept, %v", len(kept), err)
	}
}

func TestAReleaseUnderAnotherNameIsNotBelieved(t *testing.T) {
	dir := filled(t)
	data, err := os.ReadFile(filepath.Join(dir, "releases/acme/a"))
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "releases/shop"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "releases/shop/a"), data, 0o600))
	_, loaded := open(t, dir)
	if releasesOf(loaded) != "a@10 b@20 c@30" || len(loaded.Lost) != 1 {
		t.Errorf("loaded %s, lost %v", releasesOf(loaded), loaded.Lost)
	}
}

func TestSourceThatRotsWhileInUse(t *testing.T) {
	s, _, dir := func() (*store.Store, *store.Loaded, string) {
		dir := filled(t)
		s, l := open(t, dir)
		return s, l, dir
	}()
	d := script.DigestOf([]byte("source of a"))
	must(t, os.WriteFile(filepath.Join(dir, blobFile("source of a")), []byte("evil"), 0o600))
	if got, err := s.Source(d); !errors.Is(err, store.ErrMissing) {
		t.Fatalf("read %q, %v", got, err)
	}
	if s.HasSource(d) {
		t.Error("it still counts as there")
	}
	must(t, s.PutSources([]store.Source{source("source of a")}))
	if _, err := s.Source(d); err != nil {
		t.Errorf("after it was put again: %v", err)
	}
}

// faultyDisk fails from one operation on, and on: as a full disk does, or, seen
// by the next process, as a crash does.
type faultyDisk struct {
	hasty
	mu   sync.Mutex
	left int
	torn *rand.Rand
}

var errFault = errors.New("no space left on device")

func (d *faultyDisk) step() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left < 0 {
		return errFault
	}
	return nil
}

func (d *faultyDisk) Write(path string, content []byte, sync bool) error {
	if err := d.step(); err != nil {
		d.mu.Lock()
		n := d.torn.IntN(len(content) + 1)
		d.mu.Unlock()
		_ = d.hasty.Write(path, content[:n], false)
		return err
	}
	return d.hasty.Write(path, content, sync)
}

func (d *faultyDisk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.hasty.Rename(from, to)
}

func (d *faultyDisk) Remove(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.hasty.Remove(path)
}

func (d *faultyDisk) SyncDir(path string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.hasty.SyncDir(path)
}

func (d *faultyDisk) OpenJournal(path string) (store.JournalFile, error) {
	f, err := d.hasty.OpenJournal(path)
	return faultyJournal{f, d}, err
}

type faultyJournal struct {
	store.JournalFile
	disk *faultyDisk
}

func (f faultyJournal) WriteAt(b []byte, offset int64) (int, error) {
	if err := f.disk.step(); err != nil {
		f.disk.mu.Lock()
		n := f.disk.torn.IntN(len(b) + 1)
		f.disk.mu.Unlock()
		n, _ = f.JournalFile.WriteAt(b[:n], offset)
		return n, err
	}
	return f.JournalFile.WriteAt(b, offset)
}

func (f faultyJournal) Sync() error {
	if err := f.disk.step(); err != nil {
		return err
	}
	return f.JournalFile.Sync()
}

// Wherever a change stops, or what comes after it until the folder is closed, the next
// process finds each release whole, old or new, with its source, and a cursor that does
// not lead. The change is there or not, also a large one.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]int{"a change": 0, "a large change": 70} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			for steps := 0; crashAfter(t, steps, more, rand.New(rand.NewPCG(seed, uint64(steps)))); steps += 1 + more/10 + skipped(seed) {
			}
		})
	}
}

// skipped is how many steps are left out after each one: none, but under the race detector,
// which makes each of them ten times as long.
func skipped(seed uint64) int {
	if !needs.Race {
		return 0
	}
	return 3 + int(seed%4)
}

// crashAfter crashes a store after so many steps of a change, and reports whether the
// change has more of them.
func crashAfter(t *testing.T, steps, more int, random *rand.Rand) bool {
	t.Helper()
	dir := filled(t)
	defer os.RemoveAll(dir)
	disk := &faultyDisk{left: 1 << 30, torn: random}
	s, _, err := store.OpenOn(dir, trusted, disk)
	must(t, err)
	disk.left = steps
	all := put(release("a", 40, "new a"), "new a", "new d")
	all.Put = append(all.Put, entry(release("d", 40, "new d")))
	want := "a@40 b@20 d@40"
	for i := range more {
		all.Put = append(all.Put, entry(release(fmt.Sprintf("e%02d", i), 40, "new a")))
		want += fmt.Sprintf(" e%02d@40", i)
	}
	all.Removed = []string{"releases/acme/c"}
	committed := all.to(s)
	failed := committed
	if failed == nil {
		failed = s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40})
	}
	if failed == nil {
		failed = s.Close()
	} else {
		must(t, s.Abandon())
	}
	after, loaded := openHastily(t, dir)
	defer func() { must(t, after.Close()) }()
	for _, r := range loaded.Releases {
		if got, err := after.Source(r.Active.Digest); err != nil {
			t.Fatalf("%d steps: %s@%d has no source: %v %q", steps, r.Name, r.Revision, err, got)
		}
	}
	got := releasesOf(loaded)
	switch {
	case committed == nil && got != want:
		t.Fatalf("%d steps: %s was committed, and %s is there", steps, want, got)
	case loaded.Cursor.Revision == 40 && got != want:
		t.Fatalf("%d steps: the cursor leads: %+v, %s", steps, loaded.Cursor, got)
	case got != "a@10 b@20 c@30" && got != want:
		t.Fatalf("%d steps: half of the change is there: %s", steps, got)
	case loaded.Cursor.Revision < 30:
		t.Fatalf("%d steps: %s does not agree with %+v", steps, got, loaded.Cursor)
	case failed == nil && loaded.Cursor.Revision != 40:
		t.Fatalf("%d steps: nothing failed, and the cursor is %+v", steps, loaded.Cursor)
	}
	for _, l := range loaded.Lost {
		t.Fatalf("%d steps: lost %+v", steps, l)
	}
	if failed != nil && !errors.Is(failed, errFault) {
		t.Fatal(failed)
	}
	if failed == nil {
		t.Logf("%d steps in all", steps)
	}
	return failed != nil
}

func TestFullDiskIsSurvived(t *testing.T) {
	dir := filled(t)
	disk := &faultyDisk{left: 1 << 30, torn: rand.New(rand.NewPCG(1, 1))}
	s, _, err := store.OpenOn(dir, trusted, disk)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	for left := range 12 {
		disk.left = left
		if err := put(release("a", 40, "new a"), "new a").to(s); err == nil {
			break
		}
		if _, err := s.Source(script.DigestOf([]byte("source of a"))); err != nil {
			t.Errorf("with %d steps, the old source is gone: %v", left, err)
		}
	}
	disk.left = 1 << 30
	must(t, put(release("a", 41, "newer a"), "newer a").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 41}))
	must(t, s.Close())
	s, loaded := open(t, dir)
	if got := releasesOf(loaded); got != "a@41 b@20 c@30" || loaded.Cursor.Revision != 41 {
		t.Errorf("loaded %s at %+v", got, loaded.Cursor)
	}
	if s.HasSource(script.DigestOf([]byte("new a"))) {
		t.Error("a source that nothing retains is left")
	}
}

// noRoom is a disk on which nothing can be written.
type noRoom struct{ store.OSDisk }

func (noRoom) Mkdir(string) error               { return errFault }
func (noRoom) Write(string, []byte, bool) error { return errFault }

func (noRoom) OpenJournal(string) (store.JournalFile, error) { return nil, errFault }

// What is on a full disk is served, be it in files or in the journal, and nothing can be
// added.
func TestAFullDiskIsOpened(t *testing.T) {
	for name, crashed := range map[string]bool{"in files": false, "in the journal": true} {
		t.Run(name, func(t *testing.T) {
			dir, want := filled(t), "a@10 b@20 c@30"
			if crashed {
				dir, want = journaled(t), "a@40 b@20 d@50"
			}
			folders, err := filepath.Glob(filepath.Join(dir, "blobs", "*"))
			must(t, err)
			for _, folder := range folders {
				_ = os.Remove(folder) // those that are empty, as in a folder of software that made none in advance
			}
			for range 2 {
				s, loaded, err := store.OpenOn(dir, trusted, noRoom{})
				must(t, err)
				if got := releasesOf(loaded); got != want || len(loaded.Lost) != 0 {
					t.Errorf("loaded %s, lost %v", got, loaded.Lost)
				}
				for _, r := range loaded.Releases {
					if _, err := s.Source(r.Active.Digest); err != nil {
						t.Errorf("%v: %v", r.Name, err)
					}
				}
				if crashed && loaded.Cursor.Revision != 50 {
					t.Errorf("the cursor is %+v", loaded.Cursor)
				}
				if err := put(release("x", 60, "another"), "another").to(s); !errors.Is(err, errFault) {
					t.Errorf("%v, want that there is no room", err)
				}
				must(t, s.Abandon())
			}
			s, loaded := open(t, dir)
			if got := releasesOf(loaded); got != want || len(loaded.Lost) != 0 {
				t.Errorf("with room again, loaded %s, lost %v", got, loaded.Lost)
			}
			must(t, put(release("x", 60, "another"), "another").to(s))
		})
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(store.EncodeRecord(nil))
	f.Add(store.EncodeRecord([]byte("payload")))
	f.Add(store.EncodeRecord([]byte("payload"))[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, format, err := store.DecodeRecord(data)
		if err == nil && format == store.RecordFormat && string(store.EncodeRecord(payload)) != string(data) {
			t.Errorf("%q was read as a record of %q", data, payload)
		}
	})
}
