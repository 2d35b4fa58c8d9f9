package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// recordingDisk notes what is written to the journal, in order.
type recordingDisk struct {
	hasty
	offsets  []int64
	contents [][]byte
}

func (d *recordingDisk) OpenJournal(path string) (store.JournalFile, error) {
	f, err := d.hasty.OpenJournal(path)
	return recordingJournal{f, d}, err
}

type recordingJournal struct {
	store.JournalFile
	disk *recordingDisk
}

func (f recordingJournal) WriteAt(b []byte, offset int64) (int, error) {
	f.disk.offsets = append(f.disk.offsets, offset)
	f.disk.contents = append(f.disk.contents, bytes.Clone(b))
	return f.JournalFile.WriteAt(b, offset)
}

// prefixes that are tried of each write.
var prefixes = map[bool]int{false: 5, true: 1}[needs.Race]

// Whatever part of the last write reached the disk, what is loaded is a point of the
// run, and none before the last that was acknowledged.
func TestEveryPrefixOfTheJournal(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := filled(t)
	disk := &recordingDisk{}
	s, _, err := store.OpenOn(dir, trusted, disk)
	must(t, err)
	empty, err := os.ReadFile(filepath.Join(dir, "journal"))
	must(t, err)
	points := []string{"a@10 b@20 c@30 at 30"} // by writes
	at := script.Revision(30)
	for _, c := range changes {
		must(t, c.change.to(s))
		points = append(points, fmt.Sprint(c.then, " at ", at))
		at = c.cursor
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: at}))
		points = append(points, fmt.Sprint(c.then, " at ", at))
	}
	must(t, s.Abandon())
	if len(points) != len(disk.contents)+1 {
		t.Fatalf("%d writes are %d points", len(disk.contents), len(points))
	}
	look := func(journal []byte, what string, want ...string) {
		t.Helper()
		dir := filled(t)
		defer os.RemoveAll(dir)
		must(t, os.WriteFile(filepath.Join(dir, "journal"), journal, 0o600))
		s, loaded := openHastily(t, dir)
		defer s.Close()
		got := fmt.Sprint(releasesOf(loaded), " at ", loaded.Cursor.Revision)
		for _, point := range want {
			if got == point && len(loaded.Lost) == 0 {
				return
			}
		}
		t.Errorf("%s: loaded %s, lost %v; want one of %q", what, got, loaded.Lost, want)
	}
	journal := bytes.Clone(empty)
	for i, content := range disk.contents {
		offset := int(disk.offsets[i])
		for range prefixes { // the first bytes are there
			n := random.IntN(len(content) + 1)
			part := bytes.Clone(journal)
			copy(part[offset:], content[:n])
			look(part, fmt.Sprintf("write %d, %d bytes", i, n), points[i], points[i+1])
		}
		if i > 0 && i%2 == 0 { // the cursor before it was not synced, and reached the disk later
			part := bytes.Clone(journal)
			clear(part[disk.offsets[i-1]:])
			copy(part[offset:], content)
			look(part, fmt.Sprintf("write %d without the one before", i), points[i-1])
		}
		copy(journal[offset:], content)
		look(journal, fmt.Sprintf("write %d", i), points[i+1])
	}
}

// brokenJournal is a disk whose journal cannot be written or synced, as often as that.
type brokenJournal struct {
	store.OSDisk
	writes, syncs int
}

func (d *brokenJournal) OpenJournal(path string) (store.JournalFile, error) {
	f, err := d.OSDisk.OpenJournal(path)
	return brokenFile{f, d}, err
}

type brokenFile struct {
	store.JournalFile
	disk *brokenJournal
}

func (f brokenFile) WriteAt(b []byte, offset int64) (int, error) {
	if f.disk.writes--; f.disk.writes >= 0 {
		n, _ := f.JournalFile.WriteAt(b[:len(b)/2], offset)
		return n, errFault
	}
	return f.JournalFile.WriteAt(b, offset)
}

func (f brokenFile) Sync() error {
	if f.disk.syncs--; f.disk.syncs >= 0 {
		return errFault
	}
	return f.JournalFile.Sync()
}

// A journal that fails is replaced, and as long as it fails changes are made in files.
func TestAJournalThatFails(t *testing.T) {
	for _, times := range []int{1, 2, 3, 1000} {
		for name, disk := range map[string]*brokenJournal{"write": {writes: times}, "sync": {syncs: times}} {
			t.Run(fmt.Sprint(name, times), func(t *testing.T) {
				dir := filled(t)
				s, _, err := store.OpenOn(dir, trusted, disk)
				must(t, err)
				for _, c := range changes {
					must(t, c.change.to(s))
					must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: c.cursor}))
				}
				must(t, s.Abandon())
				if _, loaded := open(t, dir); releasesOf(loaded) != "a@40 b@20 d@50" || loaded.Cursor.Revision != 50 || len(loaded.Lost) != 0 {
					t.Errorf("loaded %s at %+v, lost %v", releasesOf(loaded), loaded.Cursor, loaded.Lost)
				}
			})
		}
	}
}
