package store_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// release returns a release of "acme/<name>" whose versions 1… have the sources;
// the last is active.
func release(name string, revision script.Revision, sources ...string) script.Release {
	r := script.Release{
		Name: script.Name{Tenant: "acme", Script: name}, Revision: revision,
		Enabled: true, Latest: uint64(len(sources)),
	}
	for i, src := range sources {
		r.Active = script.Version{
			Number: uint64(i + 1), Digest: script.DigestOf([]byte(src)), Engine: "lua", Entrypoint: "handle", Size: len(src),
		}
		r.Retained = append(r.Retained, r.Active)
	}
	return r
}

func source(content string) store.Source {
	return store.Source{Digest: script.DigestOf([]byte(content)), Content: []byte(content)}
}

// change is a batch and the sources to put before it.
type change struct {
	store.Batch
	sources []store.Source
}

// sealer signs what the tests put, and trusted believes it.
var (
	sealer  = sealerOf(1)
	trusted = seal.NewKeyring(publicOf(1))
)

func keyOf(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

func publicOf(number byte) ed25519.PublicKey { return keyOf(number).Public().(ed25519.PublicKey) }

func sealerOf(number byte) *seal.Sealer { return seal.NewSealer(keyOf(number)) }

// entry returns the release as the registry of the fleet "f" sends it.
func entry(r script.Release) store.Entry { return entryOf("f", sealer, r) }

func entryOf(fleet string, by *seal.Sealer, r script.Release) store.Entry {
	data, err := by.Seal(wire.FromReleaseEntry(fleet, r))
	if err != nil {
		panic(err)
	}
	return store.Entry{Object: script.Object{Release: &r}, Sealed: data, SealedBy: by.KeyID()}
}

func put(r script.Release, sources ...string) change {
	c := change{Batch: store.Batch{Put: []store.Entry{entry(r)}}}
	for _, s := range sources {
		c.sources = append(c.sources, source(s))
	}
	return c
}

func (c change) to(s *store.Store) error {
	if err := s.PutSources(c.sources); err != nil {
		return err
	}
	return s.Commit(c.Batch)
}

func open(tb testing.TB, dir string) (*store.Store, *store.Loaded) {
	tb.Helper()
	s, loaded, err := store.Open(dir, trusted)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s, loaded
}

// hasty is a disk that does not wait for its content to be durable, for tests that look at
// nothing that shows: what a process finds after another one was killed.
type hasty struct{ store.OSDisk }

func (d hasty) Write(path string, content []byte, _ bool) error {
	return d.OSDisk.Write(path, content, false)
}

func (hasty) SyncDir(string) error { return nil }

func (hasty) SyncAll(string) (bool, error) { return true, nil }

func (d hasty) OpenJournal(path string) (store.JournalFile, error) {
	f, err := d.OSDisk.OpenJournal(path)
	return hastyJournal{f}, err
}

type hastyJournal struct{ store.JournalFile }

func (hastyJournal) Sync() error { return nil }

// openHastily is open on such a disk.
func openHastily(tb testing.TB, dir string) (*store.Store, *store.Loaded) {
	tb.Helper()
	s, loaded, err := store.OpenOn(dir, trusted, hasty{})
	must(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s, loaded
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// filled returns a folder with three scripts at cursor 30, and closes its store.
func filled(tb testing.TB) string {
	tb.Helper()
	return copyOf(tb, "filled", func(dir string) {
		s, _ := open(tb, dir)
		for i, name := range []string{"a", "b", "c"} {
			must(tb, put(release(name, script.Revision(10*(i+1)), "source of "+name), "source of "+name).to(s))
		}
		must(tb, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 30}))
		must(tb, s.Close())
	})
}

var originals sync.Map // of fstest.MapFS, by name

// copyOf returns a copy of the folder of that name, which fill makes once.
func copyOf(tb testing.TB, name string, fill func(dir string)) string {
	tb.Helper()
	original, made := originals.Load(name)
	if !made {
		dir := tb.TempDir()
		fill(dir)
		files := fstest.MapFS{}
		must(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, path)
			if err != nil || rel == "." {
				return err
			}
			if d.IsDir() {
				files[filepath.ToSlash(rel)] = &fstest.MapFile{Mode: fs.ModeDir | 0o700}
				return nil
			}
			content, err := os.ReadFile(path)
			files[filepath.ToSlash(rel)] = &fstest.MapFile{Data: content, Mode: 0o600}
			return err
		}))
		original, _ = originals.LoadOrStore(name, files)
	}
	dir := inMemory(tb)
	must(tb, os.CopyFS(dir, original.(fs.FS)))
	return dir
}

// inMemory returns a folder for the time of the test, of a file system that has no disk if
// there is one: each of hundreds of stores has hundreds of folders. A benchmark gets one
// that has.
func inMemory(tb testing.TB) string {
	tb.Helper()
	if _, is := tb.(*testing.B); is {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "store")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { must(tb, os.RemoveAll(dir)) })
	return dir
}

func releasesOf(l *store.Loaded) string {
	var all []string
	for _, r := range l.Releases {
		all = append(all, fmt.Sprintf("%s@%d", r.Name.Script, r.Revision))
	}
	return strings.Join(all, " ")
}

func TestWhatIsCommittedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	s, loaded := open(t, dir)
	if len(loaded.Releases) != 0 || loaded.Cursor != (store.Cursor{}) || len(loaded.Lost) != 0 {
		t.Fatalf("a new folder holds %+v", loaded)
	}
	want := release("route", 7, "one", "two")
	must(t, put(want, "two").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 7}))
	must(t, s.Close())

	s, loaded = open(t, dir)
	if diff := cmp.Diff([]script.Release{want}, loaded.Releases); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	if loaded.Cursor != (store.Cursor{Fleet: "f", Revision: 7}) || len(loaded.Lost) != 0 {
		t.Errorf("loaded %+v", loaded)
	}
	got, err := s.Source(want.Active.Digest)
	if err != nil || string(got) != "two" {
		t.Errorf("source is %q, %v", got, err)
	}
	if one := want.Retained[0].Digest; s.HasSource(one) || !s.Retains(one) {
		t.Error("a retained source that was never put should be retained and not there")
	}
}

func TestRemovedReleasesAreGone(t *testing.T) {
	dir := filled(t)
	s, _ := open(t, dir)
	must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/b", "releases/acme/unknown"}}))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40}))
	if s.HasSource(script.DigestOf([]byte("source of b"))) {
		t.Error("its source is still there")
	}
	must(t, s.Close())
	_, loaded := open(t, dir)
	if got := releasesOf(loaded); got != "a@10 c@30" || loaded.Cursor.Revision != 40 {
		t.Errorf("loaded %s at %+v", got, loaded.Cursor)
	}
}

func TestSourcesLiveAsLongAsTheyAreRetained(t *testing.T) {
	s, _ := open(t, t.TempDir())
	has := func(content string) bool {
		_, err := s.Source(script.DigestOf([]byte(content)))
		return err == nil
	}
	save := func() { must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 9})) }
	must(t, put(release("x", 1, "shared"), "shared").to(s))
	must(t, put(release("y", 2, "shared", "own"), "own").to(s))
	must(t, put(release("x", 3, "new"), "new").to(s))
	save()
	if !has("shared") || !has("own") || !has("new") {
		t.Fatal("a source was removed that a release retains")
	}
	must(t, s.PutSources([]store.Source{source("nobody's")}))
	save()
	if !has("nobody's") {
		t.Fatal("a source was removed before the commit that may need it")
	}
	must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/y"}}))
	save()
	if has("shared") || has("own") || has("nobody's") || !has("new") {
		t.Error("what is left is not what is retained")
	}
	// Back again, as a rollback brings it.
	must(t, put(release("x", 4, "shared"), "shared").to(s))
	save()
	if !has("shared") || has("new") {
		t.Error("a source did not come back, or another stayed")
	}
}

func TestBulkCommit(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	var b change
	for i := range 300 {
		src := fmt.Sprint("source ", i)
		b.Put = append(b.Put, entry(release(fmt.Sprint("s", i), script.Revision(i+1), src)))
		b.sources = append(b.sources, source(src))
	}
	must(t, b.to(s))
	must(t, s.Close())
	s, loaded := open(t, dir)
	if len(loaded.Releases) != 300 || len(loaded.Lost) != 0 {
		t.Fatalf("%d releases, lost %v", len(loaded.Releases), loaded.Lost)
	}
	for _, r := range loaded.Releases {
		if !s.HasSource(r.Active.Digest) {
			t.Fatalf("%s has no source", r.Name)
		}
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	_, _, err := store.Open(dir, trusted)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second agent got in, or does not learn who is there: %v", err)
	}
	must(t, s.Close())
	s, _, err = store.Open(dir, trusted)
	must(t, err)
	must(t, s.Close())
}

func TestKeysCannotReachOutside(t *testing.T) {
	s, _ := open(t, t.TempDir())
	for _, key := range []string{"releases/../x", "releases/a/../../x", "cursor", "releases/a", "releases/A/b", "releases/a/b/c", ""} {
		if err := s.Commit(store.Batch{Removed: []string{key}}); script.KindOf(err) == "" {
			t.Errorf("removed %q", key)
		}
	}
	for _, name := range []script.Name{{}, {Tenant: "..", Script: "x"}, {Tenant: "a", Script: "../../x"}, {Tenant: "A", Script: "b"}, {Tenant: "a", Script: "b/c"}} {
		r := release("x", 1, "src")
		r.Name = name
		if err := s.Commit(store.Batch{Put: []store.Entry{entry(r)}}); err == nil {
			t.Errorf("put %v", name)
		}
	}
}

func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	dir := filled(t)
	must(t, os.WriteFile(filepath.Join(dir, "tmp", "half"), []byte("half"), 0o600))
	orphan := source("never committed")
	digits := strings.TrimPrefix(orphan.Digest.String(), "sha256:")
	must(t, os.MkdirAll(filepath.Join(dir, "blobs", digits[:2]), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "blobs", digits[:2], digits), orphan.Content, 0o600))
	s, loaded := open(t, dir)
	if len(loaded.Lost) != 0 || loaded.Cursor.Revision != 30 {
		t.Errorf("loaded %+v", loaded)
	}
	if _, err := os.Stat(filepath.Join(dir, "tmp", "half")); err == nil {
		t.Error("a temporary file is still there")
	}
	if s.HasSource(orphan.Digest) {
		t.Error("a source that nothing needs is still there")
	}
}

// What was put waits for its object, although a commit failed and the cursor is saved.
func TestSourcesWaitForACommitThatFailed(t *testing.T) {
	dir := filled(t)
	disk := &faultyDisk{left: 1 << 30, torn: rand.New(rand.NewPCG(1, 1))}
	s, _, err := store.OpenOn(dir, trusted, disk)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	c := put(release("a", 40, "new a"), "new a")
	must(t, s.PutSources(c.sources))
	disk.left = 0
	if err := s.Commit(c.Batch); !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	disk.left = 1 << 30
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 30}))
	if !s.HasSource(c.sources[0].Digest) {
		t.Error("a source is gone that waits for its release")
	}
	must(t, s.Commit(c.Batch))
	if !s.HasSource(script.DigestOf([]byte("source of a"))) {
		t.Error("the commit did not leave what it makes needless to the cursor")
	}
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40}))
	if s.HasSource(script.DigestOf([]byte("source of a"))) || !s.HasSource(c.sources[0].Digest) {
		t.Error("what is left is not what is retained")
	}
}
