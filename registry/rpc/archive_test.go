package rpc_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
)

func TestOwnerAndRequestID(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	const cr = "kubernetes:prod/route"
	publish := &registryv1.PublishRequest{
		Tenant: "acme", Name: "route", Source: []byte("one"), Author: "ann", Owner: cr, RequestId: rand.Text(),
	}
	for range 2 {
		resp, err := b.Publish(ctx, publish)
		if err != nil || !resp.GetChanged() || resp.GetVersion().GetNumber() != 1 || resp.GetRelease().GetOwner() != cr {
			t.Errorf("Publish: %v, %v", resp, err)
		}
	}
	_, err := b.Delete(ctx, &registryv1.DeleteRequest{Tenant: "acme", Name: "route", Author: "ann"})
	if e := detail(t, err); status.Code(err) != codes.PermissionDenied || e.GetField() != "owner" || !strings.Contains(e.GetMessage(), cr) {
		t.Errorf("past the owner: %v", err)
	}
	own, err := b.SetOwner(ctx, &registryv1.SetOwnerRequest{Tenant: "acme", Name: "route", Author: "ann", Owner: cr, NewOwner: "me"})
	if err != nil || !own.GetChanged() || own.GetRelease().GetOwner() != "me" {
		t.Errorf("SetOwner: %v, %v", own, err)
	}
	if r, err := b.SetEnabled(ctx, &registryv1.SetEnabledRequest{Tenant: "acme", Name: "route", Author: "ann", Force: true}); err != nil || r.GetRelease().GetEnabled() {
		t.Errorf("forced: %v, %v", r, err)
	}
}

func TestAudit(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c"} {
		b.publish(t, name, "x")
	}
	var got []*scriptv1.AuditEntry
	for token := ""; ; {
		page, err := b.Audit(ctx, &registryv1.AuditRequest{Tenant: "acme", PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.GetEntries()...)
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(got) != 3 || got[0].GetName() != "c" || got[2].GetName() != "a" {
		t.Fatalf("got %v, want c, b, a", got)
	}
	if e := got[0]; e.GetRevision() != 3 || e.GetChange() != "publish" || e.GetVersion() != 1 || e.GetAuthor() != "ann" || e.GetIdentity() == "" || e.GetPeer() == "" || e.GetTime() == nil {
		t.Errorf("entry: %v", e)
	}
	late, err := b.Audit(ctx, &registryv1.AuditRequest{Since: timestamppb.New(time.Now().Add(time.Hour))})
	if err != nil || len(late.GetEntries()) != 0 {
		t.Errorf("since tomorrow: %v, %v", late, err)
	}
	_, err = b.Audit(ctx, &registryv1.AuditRequest{Since: &timestamppb.Timestamp{Nanos: -1}})
	if e := detail(t, err); e.GetField() != "since" {
		t.Errorf("a time that is none: %v", err)
	}
}

// export reads an archive.
func (b *bench) export(t *testing.T) []*registryv1.ExportResponse {
	t.Helper()
	stream, err := b.Export(t.Context(), &registryv1.ExportRequest{})
	return received(t, stream, err)
}

func (b *bench) load(t *testing.T, messages ...*registryv1.ImportRequest) (*registryv1.ImportResponse, error) {
	t.Helper()
	stream, err := b.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			break // CloseAndRecv has the reason
		}
	}
	return stream.CloseAndRecv()
}

func options(o *registryv1.ImportOptions) *registryv1.ImportRequest {
	o.Author = "eve"
	return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Options{Options: o}}
}

// messages are what to import for what was exported.
func messages(items []*registryv1.ExportResponse) []*registryv1.ImportRequest {
	var all []*registryv1.ImportRequest
	for _, item := range items {
		switch {
		case item.GetSource() != nil:
			all = append(all, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Source{Source: item.GetSource()}})
		case item.GetScript() != nil:
			all = append(all, &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Script{Script: item.GetScript()}})
		}
	}
	return all
}

func TestExportImport(t *testing.T) {
	a, b := newBench(t), newBench(t)
	a.publish(t, "route", "one")
	a.publish(t, "route", strings.Repeat("-- two\n", 100_000))
	a.publish(t, "gone", "one")
	if _, err := a.Delete(t.Context(), &registryv1.DeleteRequest{Tenant: "acme", Name: "gone", Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	items := a.export(t)
	if header := items[0].GetHeader(); header.GetFleet() != a.id || header.GetHeadRevision() != 4 || header.GetExportedAt() == nil {
		t.Errorf("header: %v", header)
	}
	all := messages(items)
	if got, err := b.load(t, append([]*registryv1.ImportRequest{options(&registryv1.ImportOptions{})}, all...)...); err != nil || got.GetCreated() != 2 {
		t.Fatalf("Import: %v, %v", got, err)
	}
	source, err := b.GetSource(t.Context(), &registryv1.GetSourceRequest{Tenant: "acme", Name: "route", Version: 1})
	if err != nil || string(source.GetSource()) != "one" || source.GetVersion().GetAuthor() != "ann" {
		t.Errorf("GetSource: %v, %v", source, err)
	}
	if got, err := b.load(t, append([]*registryv1.ImportRequest{options(&registryv1.ImportOptions{})}, all...)...); err != nil || got.GetUnchanged() != 2 {
		t.Errorf("again: %v, %v", got, err)
	}
	b.publish(t, "route", "mine")
	_, err = b.load(t, append([]*registryv1.ImportRequest{options(&registryv1.ImportOptions{})}, all...)...)
	if e := detail(t, err); e.GetKind() != "CONFLICT" || !strings.Contains(e.GetMessage(), "acme/route") {
		t.Errorf("over another: %v", err)
	}
	over := options(&registryv1.ImportOptions{Overwrite: true})
	if got, err := b.load(t, append([]*registryv1.ImportRequest{over}, all...)...); err != nil || got.GetReplaced() != 1 {
		t.Errorf("overwrite: %v, %v", got, err)
	}
}

func TestImportRefuses(t *testing.T) {
	b := newBench(t)
	source := func(digest []byte) *registryv1.ImportRequest {
		return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Source{Source: &scriptv1.Source{Digest: digest, Content: []byte("x")}}}
	}
	record := func(r *registryv1.ScriptRecord) *registryv1.ImportRequest {
		return &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Script{Script: r}}
	}
	start := func() *registryv1.ImportRequest { return options(&registryv1.ImportOptions{}) }
	for what, c := range map[string]struct {
		messages []*registryv1.ImportRequest
		field    string
	}{
		"nothing":          {nil, "options"},
		"no options":       {[]*registryv1.ImportRequest{source(make([]byte, 32))}, "options"},
		"options twice":    {[]*registryv1.ImportRequest{start(), start()}, "options"},
		"an empty message": {[]*registryv1.ImportRequest{start(), {}}, "item"},
		"a short digest":   {[]*registryv1.ImportRequest{start(), source([]byte("x"))}, "digest"},
		"a wrong digest":   {[]*registryv1.ImportRequest{start(), source(make([]byte, 32))}, "source"},
		"an empty record":  {[]*registryv1.ImportRequest{start(), record(&registryv1.ScriptRecord{})}, "tenant"},
		"no active version": {[]*registryv1.ImportRequest{start(), record(&registryv1.ScriptRecord{
			Release: &scriptv1.Release{Tenant: "acme", Name: "s", Latest: 1},
		})}, "version"},
		"a tombstone of nothing": {[]*registryv1.ImportRequest{start(), record(&registryv1.ScriptRecord{
			Release: &scriptv1.Release{Tenant: "acme", Name: "s", Deleted: true},
		})}, "release.latest"},
	} {
		_, err := b.load(t, c.messages...)
		if e := detail(t, err); e.GetKind() != "INVALID" || e.GetField() != c.field {
			t.Errorf("%s: %v at %q; want INVALID at %q", what, err, e.GetField(), c.field)
		}
	}
}
