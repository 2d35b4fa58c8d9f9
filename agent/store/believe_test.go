package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// write puts an entry where the release of the name belongs, as somebody does who can
// write to the disk.
func write(t *testing.T, dir, name string, sealed []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "releases/acme", name), store.EncodeRecord(sealed), 0o600))
}

func openWith(tb testing.TB, dir string, ring *seal.Keyring) (*store.Store, *store.Loaded) {
	tb.Helper()
	s, loaded, err := store.Open(dir, ring)
	must(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s, loaded
}

func TestWhatNobodyHasSignedIsNotServed(t *testing.T) {
	evil := release("b", 20, "evil")
	sound := entry(evil).Sealed
	for name, tt := range map[string]struct {
		sealed  []byte
		doubted bool // or else lost
	}{
		"unsigned":         {entryOf("f", seal.Unsigned(), evil).Sealed, true},
		"by a stranger":    {entryOf("f", sealerOf(66), evil).Sealed, true},
		"altered":          {altered(sound), false},
		"of another fleet": {entryOf("g", sealer, evil).Sealed, false},
		"of another name":  {entry(release("x", 20, "evil")).Sealed, false},
		"not an entry":     {[]byte("rubbish"), false},
		"a tombstone":      {entry(script.Release{Name: evil.Name, Revision: 20, Deleted: true}).Sealed, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			write(t, dir, "b", tt.sealed)
			s, loaded := open(t, dir)
			if got := releasesOf(loaded); got != "a@10 c@30" || loaded.Cursor != (store.Cursor{}) {
				t.Errorf("loaded %s at %+v", got, loaded.Cursor)
			}
			if got := len(loaded.Lost) == 0 && len(loaded.Doubted) == 1; got != tt.doubted {
				t.Errorf("lost %v, doubted %v", loaded.Lost, loaded.Doubted)
			}
			kept, err := os.ReadDir(filepath.Join(dir, "corrupt"))
			must(t, err)
			if _, err := os.Stat(filepath.Join(dir, "releases/acme/b")); (err == nil) != tt.doubted || (len(kept) == 0) != tt.doubted {
				t.Errorf("the file: %v; %d files are set aside", err, len(kept))
			}
			// What a full snapshot brings takes its place.
			must(t, put(release("b", 20, "source of b"), "source of b").to(s))
			must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 40}))
			must(t, s.Close())
			_, loaded = open(t, dir)
			if got := releasesOf(loaded); got != "a@10 b@20 c@30" || loaded.Cursor.Revision != 40 || len(loaded.Doubted)+len(loaded.Lost) != 0 {
				t.Errorf("then loaded %s at %+v, lost %v, doubted %v", got, loaded.Cursor, loaded.Lost, loaded.Doubted)
			}
		})
	}
}

func altered(data []byte) []byte {
	out := slices.Clone(data)
	i := strings.Index(string(out), "handle")
	out[i] ^= 1
	return out
}

// Whoever starts an agent with the wrong keys has lost nothing.
func TestWrongKeysDoNoHarm(t *testing.T) {
	dir := filled(t)
	for range 2 {
		s, loaded := openWith(t, dir, seal.NewKeyring(publicOf(2)))
		if len(loaded.Releases) != 0 || len(loaded.Doubted) != 3 || len(loaded.Lost) != 0 || loaded.Cursor != (store.Cursor{}) {
			t.Errorf("loaded %+v", loaded)
		}
		must(t, s.SaveCursor(store.Cursor{Fleet: "f"})) // before everything: no snapshot came
		must(t, s.Close())
	}
	s, loaded := openWith(t, dir, seal.NewKeyring(publicOf(2), publicOf(1)))
	if got := releasesOf(loaded); got != "a@10 b@20 c@30" {
		t.Errorf("with the right keys, loaded %s", got)
	}
	for _, r := range loaded.Releases {
		if _, err := s.Source(r.Active.Digest); err != nil {
			t.Error(err)
		}
	}
	must(t, s.Close())

	// A snapshot came, and had one of them.
	s, _ = openWith(t, dir, seal.NewKeyring(publicOf(2)))
	must(t, s.Commit(store.Batch{Put: []store.Entry{entryOf("f", sealerOf(2), release("a", 50, "source of a"))}}))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 50}))
	must(t, s.Close())
	_, loaded = openWith(t, dir, seal.NewKeyring(publicOf(2)))
	if got := releasesOf(loaded); got != "a@50" || len(loaded.Doubted)+len(loaded.Lost) != 0 || loaded.Cursor.Revision != 50 {
		t.Errorf("after a snapshot, loaded %s at %+v, doubted %v", got, loaded.Cursor, loaded.Doubted)
	}
}

func TestReseal(t *testing.T) {
	dir := filled(t)
	both := seal.NewKeyring(publicOf(1), publicOf(2))
	first, second := sealerOf(1).KeyID(), sealerOf(2).KeyID()
	s, _ := openWith(t, dir, both)
	if got := s.Keys(); !slices.Equal(got, []string{first}) {
		t.Errorf("keys %v", got)
	}
	var all []store.Entry
	for i, name := range []string{"a", "b", "unknown"} {
		all = append(all, entryOf("f", sealerOf(2), release(name, script.Revision(10*(i+1)), "source of "+name)))
	}
	must(t, s.Reseal(all[1:]))
	if got := s.Keys(); len(got) != 2 {
		t.Errorf("keys %v", got)
	}
	must(t, s.Reseal([]store.Entry{entryOf("f", sealerOf(2), release("a", 5, "older")), entryOf("f", sealerOf(2), release("a", 15, "newer"))}))
	if got := s.Keys(); len(got) != 2 {
		t.Errorf("keys %v", got)
	}
	must(t, s.Reseal(append(all, entryOf("f", sealerOf(2), release("c", 30, "source of c")))))
	if got := s.Keys(); !slices.Equal(got, []string{second}) {
		t.Errorf("keys %v", got)
	}
	must(t, s.Close())
	s, loaded := openWith(t, dir, seal.NewKeyring(publicOf(2)))
	if got := releasesOf(loaded); got != "a@10 b@20 c@30" || loaded.Cursor.Revision != 30 || !slices.Equal(s.Keys(), []string{second}) {
		t.Errorf("loaded %s at %+v, keys %v", got, loaded.Cursor, s.Keys())
	}
	must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/a", "releases/acme/b", "releases/acme/c"}}))
	if got := s.Keys(); len(got) != 0 {
		t.Errorf("keys of nothing: %v", got)
	}
}

// A crash between the snapshot of another fleet and its cursor leaves what is served.
func TestTheFleetOfTheMost(t *testing.T) {
	dir := filled(t)
	s, _ := open(t, dir)
	for i, name := range []string{"a", "b", "c"} {
		must(t, s.Commit(store.Batch{Put: []store.Entry{entryOf("g", sealer, release(name, script.Revision(10*(i+1)), "source of "+name))}}))
	}
	must(t, s.Close())
	_, loaded := open(t, dir)
	if got := releasesOf(loaded); got != "a@10 b@20 c@30" || loaded.Cursor != (store.Cursor{}) || loaded.Fleet != "g" {
		t.Errorf("loaded %s at %+v, of fleet %q", got, loaded.Cursor, loaded.Fleet)
	}
}

// TestTheFleetOutlivesTheCursor: a folder whose cursor says nothing is of the fleet of its
// objects, and one whose objects are in doubt of its cursor's.
func TestTheFleetOutlivesTheCursor(t *testing.T) {
	for name, test := range map[string]struct {
		damage  func(t *testing.T, dir string)
		trusted *seal.Keyring
		want    string
	}{
		"as it was":        {func(*testing.T, string) {}, trusted, "f"},
		"without a cursor": {func(t *testing.T, dir string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, "cursor"))) }, trusted, "f"},
		"a torn cursor": {func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(dir, "cursor"), []byte("torn"), 0o600))
		}, trusted, "f"},
		"other keys":   {func(*testing.T, string) {}, seal.NewKeyring(publicOf(2)), "f"},
		"an empty one": {func(t *testing.T, dir string) { t.Helper(); must(t, os.RemoveAll(dir)) }, trusted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			test.damage(t, dir)
			if _, loaded := openWith(t, dir, test.trusted); loaded.Fleet != test.want {
				t.Errorf("it is of fleet %q, want %q; at %+v", loaded.Fleet, test.want, loaded.Cursor)
			}
		})
	}
}

func TestTheGroupIsKept(t *testing.T) {
	dir := filled(t)
	s, loaded := open(t, dir)
	if loaded.Cursor.Group != "" {
		t.Errorf("group %q", loaded.Cursor.Group)
	}
	want := store.Cursor{Fleet: "f", Revision: 31, Group: "g-0123"}
	must(t, s.SaveCursor(want))
	must(t, s.Close())
	if _, loaded = open(t, dir); loaded.Cursor != want {
		t.Errorf("loaded %+v", loaded.Cursor)
	}
}

// protocol1 returns a copy of what software of the wire protocol 1 has written.
func protocol1(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/protocol1")))
	return dir
}

func TestADiskOfProtocol1IsReadByThoseWhoTrustEverything(t *testing.T) {
	dir := protocol1(t)
	want := release("route", 7, "return 1", "return 2")
	want.Settings = script.Settings{
		Spec: script.Spec{
			Limits:  script.Limits{Instructions: 5000, Timeout: 20 * time.Millisecond},
			Trigger: script.Trigger{Event: "http-request"},
			Config:  []byte(`{"a":1}`),
		},
		HistoryLimit: 3,
	}
	want.Pinned, want.ChangedAt = true, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 2 {
		s, loaded := openWith(t, dir, seal.TrustEverything())
		if loaded.Cursor != (store.Cursor{Fleet: "f", Revision: 12}) || loaded.Fleet != "f" || len(loaded.Lost)+len(loaded.Doubted) != 0 || len(loaded.Releases) != 3 {
			t.Fatalf("loaded %+v", loaded)
		}
		if diff := cmp.Diff(want, loaded.Releases[0]); diff != "" {
			t.Errorf("release (-want +got):\n%s", diff)
		}
		for _, source := range []string{"return 1", "return 2", "return 'split'", "return 'cart'"} {
			if got, err := s.Source(script.DigestOf([]byte(source))); err != nil || string(got) != source {
				t.Errorf("source %q, %v", got, err)
			}
		}
		must(t, s.Close())
	}
	s, _ := openWith(t, dir, seal.TrustEverything())
	must(t, s.Reseal([]store.Entry{entry(want)}))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 13}))
	must(t, s.Close())
	s, loaded := openWith(t, dir, seal.TrustEverything())
	if len(loaded.Releases) != 3 || loaded.Cursor.Revision != 13 || fmt.Sprint(s.Keys()) != fmt.Sprint([]string{"", sealer.KeyID()}) {
		t.Errorf("with one of today, loaded %+v, keys %q", loaded, s.Keys())
	}
}

func TestADiskOfProtocol1IsFetchedAgainByOthers(t *testing.T) {
	dir := protocol1(t)
	s, loaded := open(t, dir)
	if len(loaded.Releases) != 0 || len(loaded.Lost) != 0 || len(loaded.Doubted) != 3 || loaded.Cursor != (store.Cursor{}) {
		t.Fatalf("loaded %+v", loaded)
	}
	if why := loaded.Doubted[0].Err.Error(); !strings.Contains(why, "protocol 1") {
		t.Errorf("the reason is %s", why)
	}
	must(t, put(release("route", 7, "return 1", "return 2"), "return 2").to(s))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 13}))
	must(t, s.Close())
	_, loaded = open(t, dir)
	if got := releasesOf(loaded); got != "route@7" || loaded.Cursor.Revision != 13 || len(loaded.Lost)+len(loaded.Doubted) != 0 {
		t.Errorf("after a snapshot, loaded %+v", loaded)
	}
}

func FuzzRelease(f *testing.F) {
	dir := f.TempDir()
	s, _ := open(f, dir)
	must(f, put(release("b", 20, "source of b"), "source of b").to(s))
	must(f, s.Close())
	f.Add([]byte(nil))
	f.Add(entry(release("b", 20, "evil")).Sealed[10:])
	f.Add(entryOf("f", sealerOf(2), release("b", 20, "evil")).Sealed)
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, dir, "b", data)
		s, loaded, err := store.Open(dir, trusted)
		must(t, err)
		defer s.Close()
		if len(loaded.Releases) != 0 {
			t.Errorf("%q is served", data)
		}
	})
}
