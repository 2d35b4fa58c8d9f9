package registryclient_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/archive"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestAuditTurnsPages(t *testing.T) {
	f := &fakeRegistry{}
	for i := range 7 {
		f.audit = append(f.audit, wire.FromAuditEntry(script.AuditEntry{Revision: script.Revision(9 - i), Name: route, Identity: "ci", Forced: i == 3}))
	}
	c := dial(t, serveTest(t, f))
	for _, tt := range []struct{ limit, want, pages int }{{0, 7, 4}, {1, 1, 1}, {3, 3, 2}, {4, 4, 2}, {99, 7, 4}} {
		before, got := f.calls["Audit"], 0
		for e, err := range c.Audit(t.Context(), registryclient.AuditFilter{Limit: tt.limit}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := script.Revision(9 - got); e.Revision != want || e.Name != route || e.Identity != "ci" || e.Forced != (got == 3) {
				t.Errorf("entry %d is %+v", got, e)
			}
			got++
		}
		if got != tt.want || f.calls["Audit"]-before != tt.pages {
			t.Errorf("limit %d: %d entries in %d pages, want %d in %d", tt.limit, got, f.calls["Audit"]-before, tt.want, tt.pages)
		}
	}
}

func TestAuditFilter(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range c.Audit(t.Context(), registryclient.AuditFilter{Name: route, Since: since, Limit: 5}) {
		t.Error("there is an entry")
	}
	want := &registryv1.AuditRequest{Tenant: "acme", Name: "route", Since: timestamppb.New(since), PageSize: 5}
	if got := f.last.(*registryv1.AuditRequest); !proto.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

var (
	header = &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Header{Header: &registryv1.ExportHeader{
		Fleet: "f", HeadRevision: 7, ExportedAt: timestamppb.New(time.Unix(1e9, 0)), Tenant: "acme",
	}}}
	exportedSource = &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Source{Source: &scriptv1.Source{
		Digest: wire.FromDigest(script.DigestOf([]byte("x"))), Content: []byte("x"),
	}}}
	exportedScript = &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Script{Script: &registryv1.ScriptRecord{
		Release: wire.FromRelease(script.Release{Name: route, Deleted: true, Latest: 4}),
	}}}
)

func TestExport(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{exported: []*registryv1.ExportResponse{header, exportedSource, exportedScript}}))
	var items []archive.Item
	for item, err := range c.Export(t.Context(), "acme") {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	if len(items) != 3 || *items[0].Header != (archive.Header{Fleet: "f", Head: 7, ExportedAt: time.Unix(1e9, 0).UTC(), Tenant: "acme"}) ||
		string(items[1].Source) != "x" || !proto.Equal(items[2].Script, exportedScript.GetScript()) {
		t.Errorf("got %+v", items)
	}
}

func TestExportFails(t *testing.T) {
	altered := proto.Clone(exportedSource).(*registryv1.ExportResponse)
	altered.GetSource().Content = []byte("y")
	gone := script.Errorf(script.Unavailable, "", "etcd is gone")
	for name, tt := range map[string]struct {
		sent   []*registryv1.ExportResponse
		refuse error
		items  int
		want   script.Kind
	}{
		"nothing":           {nil, nil, 0, script.Internal},
		"no header":         {[]*registryv1.ExportResponse{exportedScript}, nil, 0, script.Internal},
		"two headers":       {[]*registryv1.ExportResponse{header, header}, nil, 1, script.Internal},
		"an unknown item":   {[]*registryv1.ExportResponse{header, {}}, nil, 1, script.Internal},
		"an altered source": {[]*registryv1.ExportResponse{header, altered}, nil, 1, script.Internal},
		"breaks off":        {[]*registryv1.ExportResponse{header, exportedSource}, gone, 2, script.Unavailable},
	} {
		c := dial(t, serveTest(t, &fakeRegistry{exported: tt.sent, refuse: tt.refuse}))
		items, last := 0, error(nil)
		for _, err := range c.Export(t.Context(), "") {
			if last = err; err == nil {
				items++
			}
		}
		if items != tt.items || script.KindOf(last) != tt.want {
			t.Errorf("%s: %d items, then %v; want %d, then %s", name, items, last, tt.items, tt.want)
		}
	}
}

func TestExportBrokenOff(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{exported: []*registryv1.ExportResponse{header, exportedSource, exportedScript}}))
	for range c.Export(t.Context(), "") {
		break
	}
	if _, err := c.Get(t.Context(), route); script.KindOf(err) != script.NotFound {
		t.Errorf("the client is of no use any more: %v", err)
	}
}

// sequence yields the items, and then err if there is one.
func sequence(err error, items ...archive.Item) iter.Seq2[archive.Item, error] {
	return func(yield func(archive.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(archive.Item{}, err)
		}
	}
}

func TestImport(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	got, err := c.Import(t.Context(), registryclient.ImportOptions{Author: "ada", Note: "moved", Overwrite: true, DryRun: true},
		sequence(nil, archive.Item{Header: &archive.Header{}}, archive.Item{Source: []byte("x")}, archive.Item{Script: exportedScript.GetScript()}))
	if err != nil || got != (registryclient.Imported{Created: 1, Unchanged: 2, Replaced: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	want := []*registryv1.ImportRequest{
		{Item: &registryv1.ImportRequest_Options{Options: &registryv1.ImportOptions{Author: "ada", Note: "moved", Overwrite: true, DryRun: true}}},
		{Item: &registryv1.ImportRequest_Source{Source: exportedSource.GetSource()}},
		{Item: &registryv1.ImportRequest_Script{Script: exportedScript.GetScript()}},
	}
	if len(f.imported) != len(want) {
		t.Fatalf("sent %v", f.imported)
	}
	for i := range want {
		if !proto.Equal(f.imported[i], want[i]) {
			t.Errorf("sent %v, want %v", f.imported[i], want[i])
		}
	}
}

// A registry that refuses ends the import, whatever is left to send; and so do items
// that cannot be read.
func TestImportFails(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{refuse: script.Errorf(script.Conflict, "script", "acme/route is there")}))
	endless := func(yield func(archive.Item, error) bool) {
		for i := 0; yield(archive.Item{Source: fmt.Append(nil, i)}, nil); i++ {
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := c.Import(ctx, registryclient.ImportOptions{Author: "ada"}, endless); script.KindOf(err) != script.Conflict || err.Error() != "script: acme/route is there" {
		t.Errorf("refused: %v, want Conflict", err)
	}
	unreadable := errors.New("cannot be read")
	c = dial(t, serveTest(t, &fakeRegistry{}))
	if _, err := c.Import(ctx, registryclient.ImportOptions{}, sequence(unreadable, archive.Item{Source: []byte("x")})); !errors.Is(err, unreadable) {
		t.Errorf("unreadable items: %v", err)
	}
}
