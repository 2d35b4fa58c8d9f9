package archive_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/scriptorium-dev/scriptorium/client/archive"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	at     = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	header = archive.Header{Fleet: "f1", Head: 42, ExportedAt: at}
	one    = []byte("function handle() return 1 end")
	two    = []byte("function handle() return 2 end")
	large  = bytes.Repeat([]byte("-"), 10_000)
)

// record returns the record of a script with a version of each source.
func record(tenant, name string, sources ...[]byte) *registryv1.ScriptRecord {
	r := script.Release{
		Name: script.Name{Tenant: tenant, Script: name}, Revision: 7, Latest: uint64(len(sources)) + 3, Pinned: true, Enabled: true,
		Settings:  script.Settings{Spec: script.Spec{Config: []byte(`{"a":[1,"ü"]}`), Limits: script.Limits{Timeout: time.Second}}},
		ChangedAt: at, Owner: "somebody", Deleted: len(sources) == 0,
	}
	m := &registryv1.ScriptRecord{}
	for i, source := range sources {
		v := script.Version{Number: uint64(i) + 4, Digest: script.DigestOf(source), Engine: "lua", Entrypoint: "handle", Size: len(source), CreatedAt: at}
		r.Retained, r.Active = append(r.Retained, v), v
		v.Author, v.Note = "ada", "a note\nof <two> lines"
		m.Versions = append(m.Versions, wire.FromVersion(v))
	}
	m.Release = wire.FromRelease(r)
	m.History = []*scriptv1.HistoryEntry{wire.FromHistoryEntry(script.HistoryEntry{Revision: 7, Change: script.ChangePin, Version: 4, Author: "ada", Time: at})}
	return m
}

func value(tenant, key string, content []byte) *registryv1.ValueRecord {
	v := script.Value{Key: script.ValueKey{Tenant: tenant, Key: key}, Digest: script.DigestOf(content), Size: len(content)}
	return &registryv1.ValueRecord{Value: wire.FromValue(v), Content: content}
}

func items() []archive.Item {
	long := strings.Repeat("n", script.MaxLabelLen)
	return []archive.Item{
		{Header: &header},
		{Tenant: wire.FromTenant(script.Tenant{Name: "acme", Revision: 3, ChangedAt: at, Settings: script.TenantSettings{Isolation: script.IsolationProcess, CPU: 5}})},
		{Value: value("acme", "flags/a", []byte("\x00on"))},
		{Value: value("acme", "flags", nil)},
		{Value: value(long, strings.Repeat("k", script.MaxValueKeyLen), large)},
		{Source: one},
		{Source: two},
		{Script: record("acme", "a", one, two)},
		{Script: record("acme", "b", two)},
		{Source: large},
		{Script: record("acme", "large", large)},
		{Script: record("acme", "tombstone")},
		{Script: record(long, long, one)},
	}
}

func write(tb testing.TB, items []archive.Item) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := archive.NewWriter(&buf)
	for _, item := range items {
		if err := w.Add(item); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

func read(r io.Reader) (all []archive.Item, err error) {
	for item, err := range archive.Read(r) {
		if err != nil {
			return all, err
		}
		all = append(all, item)
	}
	return all, nil
}

func TestRoundTrip(t *testing.T) {
	want := items()
	data := write(t, want)
	got, err := read(iotest.OneByteReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(write(t, got), data) {
		t.Error("what was read gives other bytes when it is written")
	}
	s, err := archive.Verify(bytes.NewReader(data))
	if want := (archive.Summary{Header: header, Scripts: 5, Sources: 3, Values: 3, Tenants: 1}); err != nil || s != want {
		t.Errorf("Verify: %+v, %v; want %+v", s, err, want)
	}
}

// The order and the headers of entries are those of the items, so that archives
// can be compared.
func TestDeterministic(t *testing.T) {
	data := write(t, items())
	for range 5 {
		if !bytes.Equal(write(t, items()), data) {
			t.Fatal("the same items gave other bytes")
		}
	}
	later := items()
	later[0].Header = &archive.Header{Fleet: header.Fleet, Head: header.Head, ExportedAt: at.Add(time.Hour)}
	for name, content := range entries(t, write(t, later)) {
		if name != "manifest.json" && name != "end.json" && content != entries(t, data)[name] {
			t.Errorf("%s differs at another time", name)
		}
	}
}

func entries(t *testing.T, data []byte) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		content, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		all[h.Name] = string(content)
	}
}

// A person finds plain files.
func TestLookInto(t *testing.T) {
	all := entries(t, write(t, items()))
	var manifest struct {
		Format       int
		Fleet        string
		HeadRevision int
		ExportedAt   time.Time
	}
	if err := json.Unmarshal([]byte(all["manifest.json"]), &manifest); err != nil || manifest.Format != 1 || manifest.Fleet != "f1" || manifest.HeadRevision != 42 || !manifest.ExportedAt.Equal(at) {
		t.Errorf("%v: %s", err, all["manifest.json"])
	}
	if got := all["blobs/sha256/"+strings.TrimPrefix(script.DigestOf(one).String(), "sha256:")]; got != string(one) {
		t.Errorf("the source is %q", got)
	}
	if got := all["values/acme/flags/a"]; got != "\x00on" {
		t.Errorf("the value is %q", got)
	}
	if got := all["tenants/acme.json"]; !strings.Contains(got, "\n    \"cpu\": 5\n") {
		t.Errorf("the settings are %s", got)
	}
	if got := all["scripts/acme/a.json"]; !strings.Contains(got, "\n    \"name\": \"a\",\n") {
		t.Errorf("the record is %s", got)
	}
}

// An archive that lacks any of its end is found to.
func TestCutOff(t *testing.T) {
	small := write(t, []archive.Item{{Header: &header}, {Source: one}, {Script: record("acme", "a", one)}})
	complete := bytes.LastIndexByte(small, '\n') + 1 // zeros follow
	for n := range complete {
		_, err := archive.Verify(bytes.NewReader(small[:n]))
		if script.KindOf(err) != script.Invalid {
			t.Fatalf("%d of %d bytes: %v, want Invalid", n, len(small), err)
		}
	}
	_, err := archive.Verify(bytes.NewReader(small[:512+512+512+10]))
	if want := "the archive was cut off at blobs/sha256/"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// Any byte of a content that is altered is found.
func TestAltered(t *testing.T) {
	small := write(t, []archive.Item{{Header: &header}, {Source: one}, {Script: record("acme", "a", one)}})
	for _, name := range []string{"manifest.json", "blobs/", "scripts/", "end.json"} {
		content := bytes.Index(small, []byte(name)) + 512
		for i := content; small[i] != 0; i++ {
			altered := bytes.Clone(small)
			altered[i] ^= 1
			if _, err := archive.Verify(bytes.NewReader(altered)); err == nil {
				t.Errorf("%s: byte %d was altered and nobody noticed", name, i-content)
			}
		}
	}
}

// entry is one of a tar archive that no Writer would write.
type entry struct {
	name, content string
	kind          byte
}

func raw(t *testing.T, list ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range list {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.content)), Linkname: "/etc/passwd"}
		if e.kind == tar.TypeReg {
			h.Linkname = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRefused(t *testing.T) {
	manifest := entry{name: "manifest.json", content: `{"format":1,"fleet":"f","headRevision":1,"exportedAt":"2026-01-02T03:04:05Z"}`}
	blob := entry{name: strings.Replace(script.DigestOf(one).String(), "sha256:", "blobs/sha256/", 1), content: string(one)}
	end := entry{name: "end.json", content: `{"scripts":0,"sources":0,"digest":"sha256:00"}`}
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "it is empty"},
		{"a text", []byte(strings.Repeat("no tar", 1000)), "this is no archive"},
		{"a short text", []byte("no tar"), "this is no archive"},
		{"a compressed archive", []byte("\x1f\x8b\x08\x00"), "gunzip it first"},
		{"another tar", raw(t, entry{name: "README.md", content: "hi"}), "manifest.json: does not come first"},
		{"no end", raw(t, manifest), "was cut off at manifest.json"},
		{"a newer format", raw(t, entry{name: "manifest.json", content: `{"format":2,"more":1}`}), "says format 2, this scriptctl reads 1"},
		{"no JSON", raw(t, entry{name: "manifest.json", content: `{`}), "manifest.json: cannot be read"},
		{"an end that lies", raw(t, manifest, end), "the archive was altered"},
		{"a link", raw(t, manifest, entry{name: "scripts/a/b.json", kind: tar.TypeSymlink}), "is no plain file"},
		{"a stranger", raw(t, manifest, entry{name: "../../etc/passwd"}), "does not belong"},
		{"a path", raw(t, manifest, entry{name: "scripts/../x.json", content: `{"release":{"tenant":"..","name":"x"}}`}), "is not a DNS label"},
		{"another name", raw(t, manifest, entry{name: "scripts/a/b.json", content: `{"release":{"tenant":"a","name":"c"}}`}), "scripts/a/b.json: is the script a/c"},
		{"a value's path", raw(t, manifest, entry{name: "values/acme/../x", content: "x"}), "values/acme/../x: is no value"},
		{"a value that is too large", raw(t, manifest, entry{name: "values/acme/x", content: strings.Repeat("x", script.MaxValueBytes+1)}), "has more than 1048576 bytes"},
		{"another tenant", raw(t, manifest, entry{name: "tenants/a.json", content: `{"name":"b"}`}), "tenants/a.json: is of the tenant"},
		{"another digest", raw(t, manifest, entry{name: "blobs/sha256/00", content: "x"}), "was altered"},
		{"a doubled entry", raw(t, manifest, blob, blob), "is there twice"},
		{"two manifests", raw(t, manifest, manifest), "manifest.json: is there twice"},
		{"a field of the future", raw(t, manifest, entry{name: "scripts/a/b.json", content: `{"soul":1}`}), "cannot be read"},
		{"a source that is too large", raw(t, manifest, entry{name: "blobs/sha256/00", content: strings.Repeat("x", script.MaxArtifactBytes+1)}), "has more than 4194304 bytes"},
		{"a source that is missing", raw(t, manifest, entry{
			name:    "scripts/a/b.json",
			content: `{"release":{"tenant":"a","name":"b"},"versions":[{"digest":"` + strings.Repeat("A", 43) + `="}]}`,
		}), "needs the source"},
	}
	for _, tt := range tests {
		_, err := archive.Verify(bytes.NewReader(tt.data))
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want Invalid: …%s…", tt.name, err, tt.want)
		}
	}
	good := write(t, []archive.Item{{Header: &header}})
	more := append(bytes.Clone(good[:len(good)-2*512]), raw(t, blob)...)
	if _, err := archive.Verify(bytes.NewReader(more)); err == nil || !strings.Contains(err.Error(), "comes after end.json") {
		t.Errorf("more after the end: %v", err)
	}
}

// A fault of the disk is not the archive's.
func TestReadFails(t *testing.T) {
	data, fault := write(t, items()), errors.New("the disk is gone")
	for _, n := range []int{0, 100, 700, 5000} {
		_, err := archive.Verify(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(fault)))
		if !errors.Is(err, fault) {
			t.Errorf("after %d bytes: %v, want %v", n, err, fault)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	tests := []struct {
		name  string
		items []archive.Item
	}{
		{"no header", []archive.Item{{Source: one}}},
		{"two headers", []archive.Item{{Header: &header}, {Header: &header}}},
		{"a script twice", []archive.Item{{Header: &header}, {Script: record("acme", "a")}, {Script: record("acme", "a")}}},
		{"a script before its source", []archive.Item{{Header: &header}, {Script: record("acme", "a", one)}}},
		{"a script without a name", []archive.Item{{Header: &header}, {Script: &registryv1.ScriptRecord{}}}},
	}
	for _, tt := range tests {
		w := archive.NewWriter(io.Discard)
		var err error
		for _, item := range tt.items {
			err = w.Add(item)
		}
		if script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want Invalid", tt.name, err)
		}
	}
	if err := archive.NewWriter(io.Discard).Close(); script.KindOf(err) != script.Invalid {
		t.Errorf("an archive of nothing: %v, want Invalid", err)
	}
}

// Sources are read one after the other, and not kept.
func TestOneItemInMemory(t *testing.T) {
	const sources = 24
	r, w := io.Pipe()
	go func() {
		out := archive.NewWriter(w)
		err := out.Add(archive.Item{Header: &header})
		for i := range sources {
			err = errors.Join(err, out.Add(archive.Item{Source: bytes.Repeat([]byte{byte(i)}, script.MaxSourceBytes)}))
		}
		w.CloseWithError(errors.Join(err, out.Close()))
	}()
	var read []weak.Pointer[byte]
	for item, err := range archive.Read(r) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Header != nil {
			continue
		}
		read = append(read, weak.Make(&item.Source[0]))
		if len(read)%8 > 0 {
			continue
		}
		runtime.GC()
		if kept := slices.DeleteFunc(slices.Clone(read), func(p weak.Pointer[byte]) bool { return p.Value() == nil }); len(kept) > 2 {
			t.Errorf("after %d sources, %d are in memory", len(read), len(kept))
		}
	}
	if len(read) != sources {
		t.Errorf("read %d sources, want %d", len(read), sources)
	}
}

func FuzzRead(f *testing.F) {
	small := write(f, []archive.Item{{Header: &header}, {Source: one}, {Script: record("acme", "a", one)}, {Script: record("acme", "b")}})
	f.Add(small)
	f.Add(small[:1700])
	f.Add([]byte(fmt.Sprintf("%0600d", 0)))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(bytes.NewReader(data))
		if err != nil {
			if script.KindOf(err) != script.Invalid {
				t.Fatalf("%v is of kind %s, want INVALID", err, script.KindOf(err))
			}
			return
		}
		again, err := read(bytes.NewReader(write(t, got)))
		if d := cmp.Diff(got, again, protocmp.Transform()); err != nil || d != "" {
			t.Fatalf("%v: %s", err, d)
		}
	})
}
