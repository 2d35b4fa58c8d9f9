package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// value returns a value "tenant/key" that has the content.
func value(name string, revision script.Revision, content string) script.Object {
	tenant, key, _ := strings.Cut(name, "/")
	return script.Object{Value: &script.Value{
		Key: script.ValueKey{Tenant: tenant, Key: key}, Revision: revision,
		Digest: script.DigestOf([]byte(content)), Size: len(content), Author: "somebody",
	}}
}

func tenant(name string, revision script.Revision, cpu int) script.Object {
	return script.Object{Tenant: &script.Tenant{
		Name: name, Revision: revision, Settings: script.TenantSettings{Isolation: script.IsolationProcess, CPU: cpu},
	}}
}

// objectEntry returns the object as the registry of the fleet "f" sends it.
func objectEntry(o script.Object) store.Entry {
	data, err := sealer.Seal(wire.FromObjectEntry("f", o))
	if err != nil {
		panic(err)
	}
	return store.Entry{Object: o, Sealed: data, SealedBy: sealer.KeyID()}
}

// putAll puts objects and contents.
func putAll(s *store.Store, objects []script.Object, contents ...string) error {
	var c change
	for _, o := range objects {
		c.Put = append(c.Put, objectEntry(o))
	}
	for _, content := range contents {
		c.sources = append(c.sources, source(content))
	}
	return c.to(s)
}

// furnished returns a folder with three scripts, two values and a tenant's settings at
// cursor 60, and closes its store.
func furnished(tb testing.TB) string {
	tb.Helper()
	return copyOf(tb, "furnished", func(dir string) {
		must(tb, os.CopyFS(dir, os.DirFS(filled(tb))))
		s, _ := open(tb, dir)
		must(tb, putAll(s, []script.Object{
			value("acme/flags", 40, "on"), value("acme/deep/er/flags.json", 50, "source of b"), tenant("acme", 60, 500),
		}, "on"))
		must(tb, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
		must(tb, s.Close())
	})
}

// objectsOf names all that was loaded, with its revision.
func objectsOf(l *store.Loaded) string {
	var all []string
	for o := range l.Objects() {
		all = append(all, fmt.Sprintf("%s@%d", o.Key(), o.Revision()))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

const furniture = "releases/acme/a@10 releases/acme/b@20 releases/acme/c@30 tenants/acme@60 values/acme/deep/er/flags.json@50 values/acme/flags@40"

func TestValuesAndTenantsAreLoaded(t *testing.T) {
	dir := furnished(t)
	s, loaded := open(t, dir)
	if got := objectsOf(loaded); got != furniture || len(loaded.Lost) != 0 || loaded.Cursor.Revision != 60 || loaded.ReleasesAlone {
		t.Errorf("loaded %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
	}
	want := *tenant("acme", 60, 500).Tenant
	if diff := cmp.Diff([]script.Tenant{want}, loaded.Tenants); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*value("acme/flags", 40, "on").Value, loaded.Values[1]); diff != "" {
		t.Errorf("value (-want +got):\n%s", diff)
	}
	has := func(content string) bool {
		got, err := s.Source(script.DigestOf([]byte(content)))
		return err == nil && string(got) == content
	}
	if !has("on") || !has("source of b") {
		t.Error("contents are not there")
	}
	// A content is kept for as long as anything needs it: script b and a value have the same.
	must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/b", "values/acme/unknown", "tenants/nobody"}}))
	if !has("source of b") {
		t.Error("a content is gone that a value needs")
	}
	must(t, putAll(s, []script.Object{value("acme/flags", 70, "off")}, "off"))
	must(t, s.Commit(store.Batch{Removed: []string{"values/acme/deep/er/flags.json", "tenants/acme"}}))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 80}))
	if has("source of b") || has("on") || !has("off") {
		t.Error("contents are not those of what is left")
	}
	must(t, s.Close())
	_, loaded = open(t, dir)
	if got := objectsOf(loaded); got != "releases/acme/a@10 releases/acme/c@30 values/acme/flags@70" || len(loaded.Lost) != 0 || loaded.Cursor.Revision != 80 {
		t.Errorf("loaded %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
	}
}

// What is damaged is set aside, whatever its kind, and asks for a full snapshot.
func TestDamagedObjectsAreSetAside(t *testing.T) {
	spoil := func(path string, change func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			data, err := os.ReadFile(filepath.Join(dir, path))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, path), change(data), 0o600))
		}
	}
	move := func(from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700))
			must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)))
		}
	}
	without := func(keys ...string) string {
		var left []string
		for name := range strings.FieldsSeq(furniture) {
			key, _, _ := strings.Cut(name, "@")
			if !slices.Contains(keys, key) {
				left = append(left, name)
			}
		}
		return strings.Join(left, " ")
	}
	const flags, settings = "values/acme/flags", "tenants/acme"
	for name, tt := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"a bit of a value":       {spoil(flags, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), without(flags)},
		"a torn value":           {spoil(flags, func(b []byte) []byte { return b[:len(b)/2] }), without(flags)},
		"an empty tenant":        {spoil(settings, func([]byte) []byte { return nil }), without(settings)},
		"a value is gone":        {func(t *testing.T, dir string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, flags))) }, without(flags)},
		"a tenant is gone":       {func(t *testing.T, dir string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, settings))) }, without(settings)},
		"a value of another key": {move(flags, "values/acme/other"), without(flags)},
		"a value of another":     {move(flags, "values/shop/flags"), without(flags)},
		"a value among releases": {move(flags, "releases/acme/flags"), without(flags)},
		"a folder among tenants": {move(settings, "tenants/acme.d/acme"), without(settings)},
		"a file among values":    {move(flags, "values/flags"), without(flags)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := furnished(t)
			tt.damage(t, dir)
			s, loaded := open(t, dir)
			if got := objectsOf(loaded); got != tt.want || len(loaded.Lost) == 0 || loaded.Cursor != (store.Cursor{}) {
				t.Errorf("loaded %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
			}
			must(t, putAll(s, []script.Object{value("acme/flags", 40, "on"), tenant("acme", 60, 500)}, "on"))
			must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
			must(t, s.Close())
			_, loaded = open(t, dir)
			if got := objectsOf(loaded); got != furniture || len(loaded.Lost) != 0 || loaded.Cursor.Revision != 60 {
				t.Errorf("mended, it loads %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
			}
		})
	}
}

// TestLostSettingsStayLost: a process that dies before it has removed the scripts of the tenant leaves it to the next one.
func TestLostSettingsStayLost(t *testing.T) {
	dir := furnished(t)
	must(t, os.WriteFile(filepath.Join(dir, "tenants/acme"), nil, 0o600))
	for range 2 {
		s, loaded := open(t, dir)
		if _, lost := loaded.LostSettings()["acme"]; !lost || len(loaded.Lost) != 1 {
			t.Errorf("the settings are not lost; lost is %v", loaded.Lost)
		}
		must(t, s.Close())
	}
	s, _ := open(t, dir)
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
	must(t, s.Close())
	if _, loaded := open(t, dir); len(loaded.LostSettings()) != 0 {
		t.Errorf("after a full snapshot without settings, lost is %v", loaded.Lost)
	}
}

func TestALostContentIsMissing(t *testing.T) {
	dir := furnished(t)
	must(t, os.WriteFile(filepath.Join(dir, blobFile("on")), []byte("evil"), 0o600))
	s, loaded := open(t, dir)
	if got := objectsOf(loaded); got != furniture || len(loaded.Lost) != 1 || loaded.Cursor.Revision != 60 {
		t.Errorf("loaded %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
	}
	d := script.DigestOf([]byte("on"))
	if _, err := s.Source(d); !errors.Is(err, store.ErrMissing) || s.HasSource(d) || !s.Retains(d) {
		t.Errorf("read with %v; there: %v, retained: %v", err, s.HasSource(d), s.Retains(d))
	}
}

// rewriteCursor changes the cursor's record as other software might write it.
func rewriteCursor(t *testing.T, dir string, change func(map[string]json.RawMessage)) {
	t.Helper()
	path := filepath.Join(dir, "cursor")
	data, err := os.ReadFile(path)
	must(t, err)
	payload, _, err := store.DecodeRecord(data)
	must(t, err)
	var record map[string]json.RawMessage
	must(t, json.Unmarshal(payload, &record))
	change(record)
	payload, err = json.Marshal(record)
	must(t, err)
	must(t, os.WriteFile(path, store.EncodeRecord(payload), 0o600))
}

// A folder of software that knew releases alone is loaded as it is.
func TestAFolderOfReleasesAlone(t *testing.T) {
	dir := filled(t)
	rewriteCursor(t, dir, func(record map[string]json.RawMessage) { delete(record, "others") })
	for _, folder := range []string{"values", "tenants"} {
		must(t, os.Remove(filepath.Join(dir, folder)))
	}
	s, loaded := open(t, dir)
	if got := objectsOf(loaded); got != "releases/acme/a@10 releases/acme/b@20 releases/acme/c@30" ||
		len(loaded.Lost) != 0 || loaded.Cursor != (store.Cursor{Fleet: "f", Revision: 30}) || !loaded.ReleasesAlone {
		t.Errorf("loaded %s at %+v, lost %v; releases alone: %v", got, loaded.Cursor, loaded.Lost, loaded.ReleasesAlone)
	}
	must(t, putAll(s, []script.Object{value("acme/flags", 40, "on"), tenant("acme", 41, 1)}, "on"))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 41}))
	must(t, s.Close())
	if _, loaded = open(t, dir); loaded.ReleasesAlone || len(loaded.Values) != 1 || len(loaded.Tenants) != 1 || loaded.Cursor.Revision != 41 {
		t.Errorf("later it loads %s at %+v; releases alone: %v", objectsOf(loaded), loaded.Cursor, loaded.ReleasesAlone)
	}
}

// Software that knows releases alone finds its cursor as it expects it, and leaves
// values alone, but for the contents that it does not know to be needed.
func TestSoftwareOfReleasesAloneInBetween(t *testing.T) {
	dir := furnished(t)
	rewriteCursor(t, dir, func(record map[string]json.RawMessage) {
		if string(record["releases"]) != "3" {
			t.Errorf("the cursor counts %s releases", record["releases"])
		}
		delete(record, "others")
	})
	must(t, os.Remove(filepath.Join(dir, blobFile("on"))))
	s, loaded := open(t, dir)
	if got := objectsOf(loaded); got != furniture || len(loaded.Lost) != 0 || loaded.Cursor.Revision != 60 || !loaded.ReleasesAlone {
		t.Errorf("loaded %s at %+v, lost %v", got, loaded.Cursor, loaded.Lost)
	}
	if s.HasSource(script.DigestOf([]byte("on"))) {
		t.Error("a content is said to be there")
	}
}

func TestObjectsAreResealed(t *testing.T) {
	dir := furnished(t)
	s, _ := open(t, dir)
	next := sealerOf(2)
	var all []store.Entry
	for _, o := range []script.Object{value("acme/flags", 40, "on"), tenant("acme", 60, 500), value("acme/flags", 39, "older"), tenant("new", 61, 1)} {
		data, err := next.Seal(wire.FromObjectEntry("f", o))
		must(t, err)
		all = append(all, store.Entry{Object: o, Sealed: data, SealedBy: next.KeyID()})
	}
	must(t, s.Reseal(all))
	if got := s.Keys(); len(got) != 2 || !slices.Contains(got, next.KeyID()) {
		t.Errorf("signed by %v", got)
	}
	must(t, s.Close())
	if _, loaded := open(t, dir); len(loaded.Doubted) != 2 || len(loaded.Values) != 1 || len(loaded.Tenants) != 0 {
		t.Errorf("with the old key alone: %s, %d doubted", objectsOf(loaded), len(loaded.Doubted))
	}
}

// What is not believed stays until a full snapshot has come, and is then removed
// unless it was replaced.
func TestDoubtedObjectsAreReplaced(t *testing.T) {
	dir := furnished(t)
	s, loaded, err := store.Open(dir, seal.NewKeyring(publicOf(2)))
	must(t, err)
	if len(loaded.Doubted) != 6 || objectsOf(loaded) != "" {
		t.Errorf("loaded %s, %d doubted", objectsOf(loaded), len(loaded.Doubted))
	}
	o := value("acme/deep/er/flags.json", 50, "source of b")
	data, err := sealerOf(2).Seal(wire.FromObjectEntry("f", o))
	must(t, err)
	must(t, s.PutSources([]store.Source{source("source of b")}))
	must(t, s.Commit(store.Batch{Put: []store.Entry{{Object: o, Sealed: data, SealedBy: sealerOf(2).KeyID()}}}))
	if _, err := os.Stat(filepath.Join(dir, "values/acme/flags")); err != nil {
		t.Errorf("what is doubted is gone before a snapshot came: %v", err)
	}
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
	must(t, s.Close())
	s, loaded, err = store.Open(dir, seal.NewKeyring(publicOf(2)))
	must(t, err)
	t.Cleanup(func() { s.Close() })
	if objectsOf(loaded) != "values/acme/deep/er/flags.json@50" || len(loaded.Lost)+len(loaded.Doubted) != 0 || loaded.Cursor.Revision != 60 {
		t.Errorf("loaded %s at %+v, lost %v, doubted %v", objectsOf(loaded), loaded.Cursor, loaded.Lost, loaded.Doubted)
	}
}

// Wherever a commit of all kinds stops, the next process finds each object whole, old
// or new, with what it needs, and a cursor that does not lead.
func TestCrashAtEveryStepOfAllKinds(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const after = "releases/acme/a@10 releases/acme/b@20 releases/acme/c@30 tenants/shop@71 values/acme/flags@70 values/shop/new@70"
	for steps := 0; ; steps += 1 + skipped(seed) {
		dir := furnished(t)
		disk := &faultyDisk{left: 1 << 30, torn: rand.New(rand.NewPCG(seed, uint64(steps)))}
		s, _, err := store.OpenOn(dir, trusted, disk)
		must(t, err)
		disk.left = steps
		c := change{sources: []store.Source{source("off"), source("new")}}
		for _, o := range []script.Object{value("acme/flags", 70, "off"), value("shop/new", 70, "new"), tenant("shop", 71, 1)} {
			c.Put = append(c.Put, objectEntry(o))
		}
		c.Removed = []string{"values/acme/deep/er/flags.json", "tenants/acme"}
		err = c.to(s)
		if err == nil {
			err = s.SaveCursor(store.Cursor{Fleet: "f", Revision: 71})
		}
		if err == nil {
			err = s.Close()
		} else {
			must(t, s.Abandon())
		}
		then, loaded := openHastily(t, dir)
		for o := range loaded.Objects() {
			for c := range o.Contents {
				if got, err := then.Source(c.Digest); err != nil {
					t.Fatalf("%d steps: %s@%d has no content: %v %q", steps, o.Key(), o.Revision(), err, got)
				}
			}
		}
		got := objectsOf(loaded)
		if loaded.Cursor.Revision == 71 && got != after || loaded.Cursor.Revision == 60 && got != furniture && got != after {
			t.Fatalf("%d steps: %s does not agree with %+v", steps, got, loaded.Cursor)
		}
		must(t, then.Close())
		must(t, os.RemoveAll(dir))
		if err == nil {
			t.Logf("%d steps in all", steps)
			return
		}
		if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
	}
}

// FuzzKeys: whatever its key, an object is stored within its folder and found again, or
// refused.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{
		"values/acme/a", "values/acme/a/b/c", "values/acme/../x", "values/../x", "values/acme/.", "values/acme/a,b", "values/acme/a//b",
		"values/acme/" + strings.Repeat("x", script.MaxValueKeyLen), "values/acme/A.b_c-d/..e", "values/acme", "values//a", "values/acme/\x00",
		"tenants/acme", "tenants/acme/x", "tenants/..", "tenants/", "tenants/A", "cursor", "", "releases/acme/a", "releases/a/b/c", "blobs/00/x",
		"values/acme/é", "values/acme/a\\b",
	} {
		f.Add(key)
	}
	dir := f.TempDir()
	s, _ := open(f, dir)
	f.Fuzz(func(t *testing.T, key string) {
		path, err := s.ObjectPath(key)
		if err != nil {
			if script.KindOf(err) != script.Invalid {
				t.Errorf("%q is refused with %v", key, err)
			}
			return
		}
		rel, err := filepath.Rel(dir, path)
		depth := map[string]int{"releases": 2, "values": 2, "tenants": 1}
		kind, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if err != nil || depth[kind] != 1+strings.Count(rest, "/") || strings.Contains(rel, "..") && !strings.Contains(key, "..") || len(filepath.Base(path)) > 255 {
			t.Errorf("%q is at %q", key, rel)
		}
		if back, err := s.KeyOf(path); err != nil || back != key {
			t.Errorf("%q became %q, %v", key, back, err)
		}
	})
}

// TestSealed: the envelope is as it came, from the journal as from its file.
func TestSealed(t *testing.T) {
	dir := furnished(t)
	s, _ := open(t, dir)
	entry := objectEntry(value("acme/flags", 70, "off"))
	must(t, putAll(s, []script.Object{entry.Object}, "off"))
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 70}))
	for _, where := range []string{"journal", "file"} {
		for key, want := range map[string][]byte{entry.Object.Key(): entry.Sealed, "tenants/acme": objectEntry(tenant("acme", 60, 500)).Sealed} {
			if got, err := s.Sealed(key); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, from the %s: %q, %v", key, where, got, err)
			}
		}
		for _, key := range []string{"values/acme/none", "values/acme/../flags", "blobs/x"} {
			if got, err := s.Sealed(key); err == nil {
				t.Errorf("%s, from the %s: %q", key, where, got)
			}
		}
		must(t, s.Close())
		s, _ = open(t, dir)
	}
	must(t, s.Close())
}
