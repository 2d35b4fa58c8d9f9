package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// changes are what journaled makes after what filled does, and what is there then.
var changes = []struct {
	change change
	cursor script.Revision
	then   string
}{
	{put(release("a", 40, "new a"), "new a"), 40, "a@40 b@20 c@30"},
	{change{Batch: store.Batch{Removed: []string{"releases/acme/c"}}}, 45, "a@40 b@20"},
	{put(release("d", 50, "new d"), "new d"), 50, "a@40 b@20 d@50"},
}

// journaled returns a folder whose last changes are in the journal alone, as a process
// leaves it that is killed.
func journaled(tb testing.TB) string {
	tb.Helper()
	return copyOf(tb, "journaled", func(dir string) {
		must(tb, os.CopyFS(dir, os.DirFS(filled(tb))))
		s, _ := open(tb, dir)
		for _, c := range changes {
			must(tb, c.change.to(s))
			must(tb, s.SaveCursor(store.Cursor{Fleet: "f", Revision: c.cursor}))
		}
		must(tb, s.Abandon())
	})
}

// loadedIs opens the folder, looks for sources, and closes it.
func loadedIs(t *testing.T, dir, releases string, cursor script.Revision, lost ...string) *store.Loaded {
	t.Helper()
	s, loaded := open(t, dir)
	var paths []string
	for _, l := range loaded.Lost {
		paths = append(paths, l.Path)
	}
	if got := releasesOf(loaded); got != releases || loaded.Cursor.Revision != cursor || fmt.Sprint(paths) != fmt.Sprint(lost) {
		t.Errorf("loaded %s at %+v, lost %v; want %s at %d, lost %v", got, loaded.Cursor, loaded.Lost, releases, cursor, lost)
	}
	for _, r := range loaded.Releases {
		if _, err := s.Source(r.Active.Digest); err != nil {
			t.Errorf("%v@%d: %v", r.Name, r.Revision, err)
		}
	}
	must(t, s.Close())
	return loaded
}

func TestWhatIsInTheJournalIsLoaded(t *testing.T) {
	dir := journaled(t)
	unsynced(t, dir)
	loadedIs(t, dir, "a@40 b@20 d@50", 50)
	if loadedIs(t, dir, "a@40 b@20 d@50", 50).Behind {
		t.Error("a sound folder may be behind")
	}
	must(t, os.Remove(filepath.Join(dir, "journal"))) // as software that knows none leaves it
	if !loadedIs(t, dir, "a@40 b@20 d@50", 50).Behind {
		t.Error("without a journal, nothing is behind")
	}
}

// unsynced makes files what they may be after the machine has stopped: what journaled
// has put there was not synced.
func unsynced(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(dir, "releases/acme/d")))
	must(t, os.Remove(filepath.Join(dir, blobFile("new d"))))
	must(t, os.WriteFile(filepath.Join(dir, "releases/acme/a"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, blobFile("new a")), []byte("new"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "releases/acme/c"), store.EncodeRecord(entry(release("c", 30, "source of c")).Sealed), 0o600))
}

func TestWhatIsInTheJournalIsServed(t *testing.T) {
	dir := filled(t)
	s, _ := open(t, dir)
	has := func(content string) bool {
		got, err := s.Source(script.DigestOf([]byte(content)))
		if (err == nil) != s.HasSource(script.DigestOf([]byte(content))) || err == nil && string(got) != content {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		return err == nil
	}
	must(t, put(release("a", 40, "new a", "newer a"), "new a").to(s))
	if !has("new a") || has("newer a") || !s.Retains(script.DigestOf([]byte("newer a"))) {
		t.Error("sources are not those that were put")
	}
	got, err := s.Source(script.DigestOf([]byte("new a")))
	must(t, err)
	clear(got) // it is the caller's
	// What is retained and put alone has no commit that makes it durable.
	must(t, s.PutSources([]store.Source{source("newer a")}))
	must(t, s.PutSources([]store.Source{source("nobody's")}))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40}))
	if !has("new a") || !has("newer a") || has("source of a") {
		t.Error("sources are not those that are retained")
	}
	must(t, s.Abandon())
	s, loaded := open(t, dir)
	if loaded.Cursor.Revision != 40 || !has("new a") || !has("newer a") || has("source of a") || has("nobody's") {
		t.Errorf("after a crash, sources are not those that are retained at %+v", loaded.Cursor)
	}
	must(t, put(release("a", 41, "source of a"), "source of a").to(s)) // back again
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 41}))
	must(t, s.Close())
	loadedIs(t, dir, "a@41 b@20 c@30", 41)
}

// countingDisk counts how often somebody waits for the disk.
type countingDisk struct {
	store.OSDisk
	syncs atomic.Int64
}

func (d *countingDisk) Write(path string, content []byte, sync bool) error {
	if sync {
		d.syncs.Add(1)
	}
	return d.OSDisk.Write(path, content, sync)
}

func (d *countingDisk) SyncDir(path string) error {
	d.syncs.Add(1)
	return d.OSDisk.SyncDir(path)
}

func (d *countingDisk) SyncAll(path string) (bool, error) {
	d.syncs.Add(1)
	return d.OSDisk.SyncAll(path)
}

func (d *countingDisk) OpenJournal(path string) (store.JournalFile, error) {
	f, err := d.OSDisk.OpenJournal(path)
	return countingJournal{f, d}, err
}

type countingJournal struct {
	store.JournalFile
	disk *countingDisk
}

func (f countingJournal) Sync() error {
	f.disk.syncs.Add(1)
	return f.JournalFile.Sync()
}

func TestOneChangeIsOneSync(t *testing.T) {
	disk := &countingDisk{}
	s, _, err := store.OpenOn(filled(t), trusted, disk)
	must(t, err)
	defer s.Close()
	before := disk.syncs.Load()
	const n = 20
	for i := range n {
		src := fmt.Sprint("source ", i)
		c := put(release("a", script.Revision(40+i), src), src)
		c.Removed = []string{"releases/acme/c"}
		must(t, c.to(s))
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: script.Revision(40 + i)}))
	}
	if got := disk.syncs.Load() - before; got != n {
		t.Errorf("%d changes are %d syncs", n, got)
	}
}

// The journal is bounded, and who makes a change does not wait for a checkpoint.
func TestTheJournalStaysSmall(t *testing.T) {
	dir := filled(t)
	disk := &countingDisk{}
	s, _, err := store.OpenOn(dir, trusted, disk)
	must(t, err)
	filler := strings.Repeat("-", 32<<10)
	for i := range 100 {
		before := disk.syncs.Load()
		src := fmt.Sprint(filler, i)
		must(t, put(release("a", script.Revision(40+i), src), src).to(s))
		if got := disk.syncs.Load() - before; got != 1 {
			t.Fatalf("change %d is %d syncs", i, got)
		}
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: script.Revision(40 + i)}))
		info, err := os.Stat(filepath.Join(dir, "journal"))
		if err != nil || info.Size() != store.JournalSize {
			t.Fatalf("after change %d: %v, %v", i, info, err)
		}
	}
	must(t, s.Abandon())
	loadedIs(t, dir, "a@139 b@20 c@30", 139)
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs/*/*"))
	if err != nil || len(blobs) != 3 {
		t.Errorf("%d sources are left, %v", len(blobs), err)
	}
}

// What is too large for the journal goes into files, whatever else is there.
func TestLargeChanges(t *testing.T) {
	dir := filled(t)
	s, _ := open(t, dir)
	must(t, put(release("a", 40, "new a"), "new a").to(s))
	large := strings.Repeat("large", 1<<15)
	must(t, put(release("b", 41, large), large).to(s))
	var c change
	for i := range 200 {
		r := release(fmt.Sprint("z", i), 42, "new a", "shared")
		c.Put = append(c.Put, entry(r))
	}
	c.sources = append(c.sources, source("shared"))
	must(t, c.to(s))
	must(t, put(release("c", 43, "new c"), "new c").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 43}))
	must(t, put(release("a", 44, "newer a"), "newer a").to(s))
	must(t, s.Abandon())
	s, loaded := open(t, dir)
	if len(loaded.Releases) != 203 || loaded.Cursor.Revision != 43 || len(loaded.Lost) != 0 {
		t.Errorf("%d releases at %+v, lost %v", len(loaded.Releases), loaded.Cursor, loaded.Lost)
	}
	for _, r := range loaded.Releases {
		if !s.HasSource(r.Active.Digest) {
			t.Errorf("%v has no source", r.Name)
		}
	}
}

func TestDamagedJournals(t *testing.T) {
	const (
		all  = "a@40 b@20 d@50" // which is in files, although nobody has synced it
		full = script.Revision(0)
	)
	journal, releases := []string{"journal"}, []string{"releases"}
	at := func(n int) func([]byte) []byte {
		return func(b []byte) []byte { b[n] ^= 1; return b }
	}
	frames := func(b []byte) []int { // where they begin
		salt := b[8:24]
		var all []int
		for i := store.JournalHeader; ; {
			n := bytes.Index(b[i:], salt)
			if n < 0 {
				return all
			}
			all = append(all, i+n)
			i += n + 1
		}
	}
	frame := func(n, within int) func([]byte) []byte {
		return func(b []byte) []byte { b[frames(b)[n]+within] ^= 1; return b }
	}
	for name, tt := range map[string]struct {
		damage func([]byte) []byte
		cursor script.Revision
		lost   []string
	}{
		"none":                       {func(b []byte) []byte { return b }, 50, nil},
		"the last cursor":            {frame(5, 70), 45, nil},
		"cut before the last cursor": {func(b []byte) []byte { return b[:frames(b)[5]+9] }, 45, nil},
		"cut in the last change":     {func(b []byte) []byte { return b[:frames(b)[4]+99] }, full, releases},
		"zeros from there on":        {func(b []byte) []byte { clear(b[frames(b)[4]+99:]); return b }, full, releases},
		"the last change":            {frame(4, 70), full, journal},
		"its length":                 {frame(4, 21), full, journal},
		"its salt":                   {frame(4, 3), full, journal},
		"a change amidst":            {frame(2, 70), full, journal},
		"the first":                  {frame(0, 70), full, journal},
		"the format":                 {at(7), full, journal},
		"the salt":                   {at(9), full, journal},
		"the cursor it builds on":    {at(30), full, journal},
		"cut in the header":          {func(b []byte) []byte { return b[:20] }, full, journal},
		"all":                        {func([]byte) []byte { return nil }, full, journal},
		"other software":             {func([]byte) []byte { return []byte(strings.Repeat("nonsense", 1000)) }, full, journal},
	} {
		t.Run(name, func(t *testing.T) {
			dir := journaled(t)
			path := filepath.Join(dir, "journal")
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, tt.damage(data), 0o600))
			if behind := loadedIs(t, dir, all, tt.cursor, tt.lost...).Behind; behind != (name != "none") {
				t.Errorf("Behind: %v", behind)
			}
			kept, err := os.ReadDir(filepath.Join(dir, "corrupt"))
			if err != nil || (len(kept) == 1) != slices.Equal(tt.lost, journal) {
				t.Errorf("%d files are kept, %v", len(kept), err)
			}
			loadedIs(t, dir, all, tt.cursor)
			s, _ := open(t, dir)
			for _, c := range changes {
				must(t, c.change.to(s))
			}
			must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 50}))
			must(t, s.Abandon())
			loadedIs(t, dir, "a@40 b@20 d@50", 50)
		})
	}
}

// A journal that software has passed that knows none has no say; one whose cursor was
// lost has all of it.
func TestTheJournalBuildsOnItsCursor(t *testing.T) {
	dir := journaled(t)
	must(t, os.Remove(filepath.Join(dir, "cursor")))
	loadedIs(t, dir, "a@40 b@20 d@50", 50)

	dir = journaled(t)
	journal, err := os.ReadFile(filepath.Join(dir, "journal"))
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "journal")))
	s, loaded := open(t, dir)
	if loaded.Cursor != (store.Cursor{}) || releasesOf(loaded) != "a@40 b@20 d@50" {
		t.Errorf("without it, loaded %s at %+v", releasesOf(loaded), loaded.Cursor)
	}
	must(t, put(release("a", 60, "newest a"), "newest a").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, "journal"), journal, 0o600))
	loadedIs(t, dir, "a@60 b@20 d@50", 60)
}

// Software that knows no journal was here after a crash, dropped the cursor, and died before
// it saved another: what it has fetched is not undone by the journal, which is older.
func TestTheJournalYieldsToNewerFiles(t *testing.T) {
	for name, damage := range map[string]func(cursor string) error{
		"no cursor":       os.Remove,
		"a torn cursor":   func(cursor string) error { return os.Truncate(cursor, 20) },
		"an empty cursor": func(cursor string) error { return os.Truncate(cursor, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := journaled(t)
			must(t, damage(filepath.Join(dir, "cursor")))
			for _, r := range []script.Release{release("a", 60, "newest a"), release("c", 61, "c again")} {
				must(t, os.WriteFile(filepath.Join(dir, "releases/acme", r.Name.Script), store.EncodeRecord(entry(r).Sealed), 0o600))
			}
			for _, src := range []string{"newest a", "c again"} {
				must(t, os.WriteFile(filepath.Join(dir, blobFile(src)), []byte(src), 0o600))
			}
			loadedIs(t, dir, "a@60 b@20 c@61 d@50", 0, "releases")
			loadedIs(t, dir, "a@60 b@20 c@61 d@50", 0)
		})
	}
}

// Who loses the journal, or a part of it, does not go back.
func TestNothingGoesBack(t *testing.T) {
	dir := journaled(t)
	must(t, os.Remove(filepath.Join(dir, "journal")))
	loadedIs(t, dir, "a@40 b@20 d@50", 0, "releases")

	dir = filled(t)
	s, _ := open(t, dir)
	for i := range script.Revision(3) {
		src := fmt.Sprint("new a ", i)
		must(t, put(release("a", 40+i, src), src).to(s))
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40 + i}))
	}
	must(t, s.Abandon())
	path := filepath.Join(dir, "journal")
	data, err := os.ReadFile(path)
	must(t, err)
	at := bytes.Index(data, []byte("new a 1"))
	data[at] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
	loadedIs(t, dir, "a@42 b@20 c@30", 0, "journal")
}

// fillable is a disk on which there is no room for files while it is full. A journal has
// its room already.
type fillable struct {
	store.OSDisk
	full *bool
}

func (d fillable) Write(path string, content []byte, sync bool) error {
	if *d.full {
		return errFault
	}
	return d.OSDisk.Write(path, content, sync)
}

// TestNothingGoesBackOnAFullDisk: what only the journal has is gone with it, and what was
// there before does not come back.
func TestNothingGoesBackOnAFullDisk(t *testing.T) {
	dir, full := filled(t), false
	s, _, err := store.OpenOn(dir, trusted, fillable{full: &full})
	must(t, err)
	full = true
	must(t, put(release("a", 40, "new a"), "new a").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40}))
	must(t, s.Abandon())
	loadedIs(t, dir, "a@40 b@20 c@30", 40)

	full = false
	s, _, err = store.OpenOn(dir, trusted, fillable{full: &full})
	must(t, err)
	full = true
	must(t, put(release("a", 50, "newer a"), "newer a").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 50}))
	must(t, s.Abandon())
	must(t, os.Remove(filepath.Join(dir, "journal")))
	loadedIs(t, dir, "b@20 c@30", 0, "releases")
}

// What is resealed, or not believed, is so in the journal too.
func TestTheJournalIsBelievedByItsKeys(t *testing.T) {
	dir := journaled(t)
	s, loaded := openWith(t, dir, seal.NewKeyring(publicOf(2)))
	if len(loaded.Doubted) != 3 || releasesOf(loaded) != "" || loaded.Cursor != (store.Cursor{}) {
		t.Errorf("with another key, loaded %s, doubted %v", releasesOf(loaded), loaded.Doubted)
	}
	must(t, s.Abandon())
	s, _ = openWith(t, dir, seal.NewKeyring(publicOf(1), publicOf(2)))
	must(t, s.Reseal([]store.Entry{entryOf("f", sealerOf(2), release("a", 40, "new a")), entryOf("f", sealerOf(2), release("d", 50, "new d"))}))
	must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/b"}}))
	must(t, s.Abandon())
	s, loaded = openWith(t, dir, seal.NewKeyring(publicOf(2)))
	if got := releasesOf(loaded); got != "a@40 d@50" || loaded.Cursor.Revision != 50 || len(s.Keys()) != 1 {
		t.Errorf("resealed, loaded %s at %+v, keys %v", got, loaded.Cursor, s.Keys())
	}
}

func FuzzJournal(f *testing.F) {
	empty, _ := store.EncodeJournal([32]byte{1})
	full, err := os.ReadFile(filepath.Join(journaled(f), "journal"))
	must(f, err)
	full = full[:len(bytes.TrimRight(full, "\x00"))]
	f.Add([]byte(nil))
	f.Add(empty[:200])
	f.Add(full)
	f.Add(full[:len(full)-5])
	f.Fuzz(func(t *testing.T, data []byte) {
		n, again, err := store.Recode(data)
		if err != nil && n == 0 {
			return
		}
		if m, twice, err := store.Recode(again); err != nil || m != n || !bytes.Equal(twice, again) {
			t.Errorf("%d frames of %q become %d, %v", n, data, m, err)
		}
	})
}

// FuzzFrame: a frame with a sound checksum may hold anything.
func FuzzFrame(f *testing.F) {
	full, err := os.ReadFile(filepath.Join(journaled(f), "journal"))
	must(f, err)
	for _, payload := range store.Payloads(full) {
		f.Add(payload)
	}
	f.Add([]byte(nil))
	f.Add([]byte("\x02{}\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		again, err := store.RecodeFrame(payload)
		if err != nil {
			return
		}
		if twice, err := store.RecodeFrame(again); err != nil || !bytes.Equal(twice, again) {
			t.Errorf("%q becomes %q and %q, %v", payload, again, twice, err)
		}
	})
}

// Who reads finds a source that is retained wherever it is at the moment.
func TestReadingWhileTheJournalIsEmptied(t *testing.T) {
	s, _ := open(t, filled(t))
	d := script.DigestOf([]byte("kept"))
	must(t, put(release("kept", 40, "kept"), "kept").to(s))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got, err := s.Source(d); err != nil || string(got) != "kept" || !s.HasSource(d) || !s.Retains(d) {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	filler := strings.Repeat("-", 60<<10)
	for i := range 20 {
		src := fmt.Sprint(filler, i)
		must(t, put(release("a", script.Revision(41+i), src), src).to(s))
		must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: script.Revision(41 + i)}))
	}
	close(stop)
	readers.Wait()
}
