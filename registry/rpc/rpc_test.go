package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/engine"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// checker refuses "broken" and panics at "panic".
type checker struct{}

func (checker) Name() string { return "lua" }

func (checker) Check(src engine.Source) error {
	if bytes.Contains(src.Code, []byte("panic")) {
		panic("a fault in the engine")
	}
	if bytes.Contains(src.Code, []byte("broken")) {
		return &script.Error{Kind: script.Script, Message: "unexpected symbol", Line: 2, Column: 5}
	}
	return nil
}

// bench is a served registry and a client of it.
type bench struct {
	registryv1.RegistryClient
	feed   registryv1.FeedClient
	conn   *grpc.ClientConn
	server *rpc.Server
	fleet  *fleet.Fleet
	id     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, fl, log := memstore.New(), fleet.New(fleet.Config{Settle: 1}), slog.New(slog.DiscardHandler)
	server := rpc.New(rpc.Config{
		Registry: registry.New(registry.Config{Store: store, Engines: map[string]engine.Checker{"lua": checker{}}}),
		Fleet:    fl,
		Log:      log,
	})
	go registry.Follow(t.Context(), store, fl, log)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		server.Drain(now)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	fl.RollCalled()
	id, _ := store.Fleet(t.Context())
	return &bench{
		RegistryClient: registryv1.NewRegistryClient(conn), feed: registryv1.NewFeedClient(conn),
		conn: conn, server: server, fleet: fl, id: id,
	}
}

func (b *bench) publish(t *testing.T, name, source string) *registryv1.PublishResponse {
	t.Helper()
	resp, err := b.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Name: name, Source: []byte(source), Author: "ann",
		Settings: &scriptv1.Settings{Limits: &scriptv1.Limits{SourceBytes: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// hear makes the fleet hear of an agent.
func (b *bench) hear(t *testing.T, agent string, activated int64) {
	t.Helper()
	if err := b.fleet.Reached(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	b.fleet.Heard(fleet.Report{Fleet: b.id, Agent: agent, Incarnation: "1", Sequence: uint64(activated) + 1, Activated: script.Revision(activated)})
}

// detail returns the error that the status carries.
func detail(t *testing.T, err error) *scriptv1.Error {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*scriptv1.Error); ok {
			return e
		}
	}
	t.Errorf("%v carries no detail", err)
	return &scriptv1.Error{}
}

func TestWritesAndReads(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	first := b.publish(t, "route", "one")
	if v := first.GetVersion(); !first.GetChanged() || v.GetNumber() != 1 || v.GetEntrypoint() != "handle" || v.GetEngine() != "lua" || v.GetAuthor() != "ann" {
		t.Errorf("first: %v", first)
	}
	empty := ""
	chunk, err := b.Publish(ctx, &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("one"), Entrypoint: &empty})
	if err != nil || chunk.GetVersion().GetEntrypoint() != "" || chunk.GetVersion().GetNumber() != 2 {
		t.Errorf("an empty entrypoint: %v, %v", chunk, err)
	}
	if r, err := b.Pin(ctx, &registryv1.PinRequest{Tenant: "acme", Author: "ann", Name: "route", Version: 1}); err != nil || !r.GetChanged() || !r.GetRelease().GetPinned() {
		t.Errorf("Pin: %v, %v", r, err)
	}
	if r, err := b.Unpin(ctx, &registryv1.UnpinRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetActive().GetNumber() != 2 {
		t.Errorf("Unpin: %v, %v", r, err)
	}
	if r, err := b.Rollback(ctx, &registryv1.RollbackRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetActive().GetNumber() != 1 {
		t.Errorf("Rollback: %v, %v", r, err)
	}
	if r, err := b.SetEnabled(ctx, &registryv1.SetEnabledRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetEnabled() {
		t.Errorf("SetEnabled: %v, %v", r, err)
	}
	r, err := b.Configure(ctx, &registryv1.ConfigureRequest{Tenant: "acme", Author: "ann", Name: "route", Settings: &scriptv1.Settings{Config: []byte(`{"a": 1}`)}})
	if err != nil || string(r.GetRelease().GetSettings().GetConfig()) != `{"a":1}` {
		t.Errorf("Configure: %v, %v", r, err)
	}
	got, err := b.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "route"})
	if err != nil || !proto.Equal(got.GetRelease(), r.GetRelease()) {
		t.Errorf("Get: %v, %v; want %v", got, err, r.GetRelease())
	}
	src, err := b.GetSource(ctx, &registryv1.GetSourceRequest{Tenant: "acme", Name: "route"})
	if err != nil || string(src.GetSource()) != "one" || src.GetVersion().GetNumber() != 1 {
		t.Errorf("GetSource: %v, %v", src, err)
	}
	list, err := b.List(ctx, &registryv1.ListRequest{Tenant: "acme"})
	if err != nil || len(list.GetReleases()) != 1 || list.GetNextPageToken() != "" {
		t.Errorf("List: %v, %v", list, err)
	}
	history, err := b.History(ctx, &registryv1.HistoryRequest{Tenant: "acme", Name: "route"})
	if err != nil || len(history.GetEntries()) != 7 || history.GetEntries()[0].GetChange() != "configure" || history.GetEntries()[6].GetAuthor() != "ann" {
		t.Errorf("History: %v, %v", history, err)
	}
	gone, err := b.Delete(ctx, &registryv1.DeleteRequest{Tenant: "acme", Author: "ann", Name: "route"})
	if err != nil || !gone.GetRelease().GetDeleted() {
		t.Errorf("Delete: %v, %v", gone, err)
	}
}

func TestErrors(t *testing.T) {
	b := newBench(t)
	first := b.publish(t, "route", "one")
	for _, test := range []struct {
		name  string
		req   *registryv1.PublishRequest
		code  codes.Code
		kind  script.Kind
		field string
	}{
		{"tenant", &registryv1.PublishRequest{Tenant: "A", Author: "ann", Name: "route", Source: []byte("x")}, codes.InvalidArgument, script.Invalid, "tenant"},
		{"limits", &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("x"), Settings: &scriptv1.Settings{
			Limits: &scriptv1.Limits{SourceBytes: -1},
		}}, codes.InvalidArgument, script.Invalid, "settings.limits.sourceBytes"},
		{"broken", &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("broken")}, codes.Aborted, script.Script, "source"},
		{"conflict", &registryv1.PublishRequest{
			Tenant: "acme", Author: "ann", Name: "route", Source: []byte("x"), ExpectedRevision: first.GetRelease().GetRevision() + 1,
		}, codes.FailedPrecondition, script.Conflict, "expected_revision"},
		{"panic", &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("panic")}, codes.Internal, script.Internal, ""},
		{"large", &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: make([]byte, 1<<20+1)}, codes.InvalidArgument, script.Invalid, "source"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := b.Publish(t.Context(), test.req)
			if status.Code(err) != test.code {
				t.Errorf("%v, want %v", err, test.code)
			}
			e := detail(t, err)
			if e.GetKind() != string(test.kind) || e.GetField() != test.field || e.GetMessage() == "" {
				t.Errorf("detail %v, want %s at %q", e, test.kind, test.field)
			}
			if test.name == "broken" && (e.GetLine() != 2 || e.GetColumn() != 5) {
				t.Errorf("detail %v, want line 2, column 5", e)
			}
			if strings.Contains(err.Error(), "goroutine") {
				t.Errorf("a stack trace went out: %v", err)
			}
		})
	}
	_, err := b.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "never"})
	if status.Code(err) != codes.NotFound || detail(t, err).GetField() != "name" {
		t.Errorf("Get: %v", err)
	}
	_, err = b.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: make([]byte, 5<<20)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 5 MiB: %v", err)
	}
	if _, err := b.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "route"}); err != nil {
		t.Errorf("after all that: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "route"}); status.Code(err) != codes.Canceled {
		t.Errorf("a call that was given up: %v", err)
	}
}

// sync reads a whole stream of Sync.
func (b *bench) sync(t *testing.T, req *registryv1.SyncRequest) (all []*registryv1.SyncResponse) {
	t.Helper()
	stream, err := b.feed.Sync(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp)
	}
}

func TestSync(t *testing.T) {
	b := newBench(t)
	if first := b.sync(t, &registryv1.SyncRequest{}); len(first) != 1 || !first[0].GetFull() || first[0].GetFleet() != b.id || first[0].GetHeadRevision() != 0 {
		t.Fatalf("of nothing: %v", first)
	}
	// 60 scripts of 60 KiB, two of which share their source, and one too large to inline.
	for i := range 60 {
		b.publish(t, fmt.Sprint("s", i), fmt.Sprintf("%d %s", i, strings.Repeat("x", 60<<10)))
	}
	b.publish(t, "twin", fmt.Sprintf("%d %s", 0, strings.Repeat("x", 60<<10)))
	large := b.publish(t, "large", strings.Repeat("l", 65<<10)).GetRelease()

	all := b.sync(t, &registryv1.SyncRequest{})
	objects, sources := map[string]bool{}, map[string]bool{}
	for _, resp := range all {
		if size := proto.Size(resp); size > 1<<20+128<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		if !resp.GetFull() || resp.GetHeadRevision() != large.GetRevision() || resp.GetFleet() != b.id {
			t.Errorf("header: full %v, head %d, fleet %q", resp.GetFull(), resp.GetHeadRevision(), resp.GetFleet())
		}
		for _, o := range resp.GetObjects() {
			if _, ok, err := wire.ToReleaseObject(o); !ok || err != nil {
				t.Errorf("object: %v, %v", ok, err)
			}
			objects[o.GetKey()] = true
		}
		for _, s := range resp.GetSources() {
			if d := script.DigestOf(s.GetContent()); !bytes.Equal(d[:], s.GetDigest()) {
				t.Error("a source does not match its digest")
			}
			if sources[string(s.GetDigest())] {
				t.Error("a source came twice")
			}
			sources[string(s.GetDigest())] = true
		}
	}
	if len(objects) != 62 || len(sources) != 60 || len(all) < 3 {
		t.Errorf("%d objects, %d sources in %d messages; want 62, 60 in some", len(objects), len(sources), len(all))
	}

	since := large.GetRevision() - 1
	for name, test := range map[string]struct {
		req  *registryv1.SyncRequest
		full bool
		want int
	}{
		"one behind":      {&registryv1.SyncRequest{Fleet: b.id, Since: since}, false, 1},
		"current":         {&registryv1.SyncRequest{Fleet: b.id, Since: since + 1}, false, 0},
		"another fleet":   {&registryv1.SyncRequest{Fleet: "other", Since: since}, true, 62},
		"no fleet":        {&registryv1.SyncRequest{Since: since}, true, 62},
		"from the future": {&registryv1.SyncRequest{Fleet: b.id, Since: since + 100}, true, 62},
	} {
		test.req.WithoutSources = true
		got, n := b.sync(t, test.req), 0
		for _, resp := range got {
			n += len(resp.GetObjects())
			if len(resp.GetSources()) != 0 {
				t.Errorf("%s: sources that nobody asked for", name)
			}
		}
		if len(got) == 0 || got[0].GetFull() != test.full || n != test.want {
			t.Errorf("%s: %d objects, full %v; want %d, %v", name, n, got[0].GetFull(), test.want, test.full)
		}
	}
	stream, err := b.feed.Sync(t.Context(), &registryv1.SyncRequest{Fleet: b.id, Since: -1})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument || detail(t, err).GetField() != "since" {
		t.Errorf("since -1: %v", err)
	}
}

func TestFetchSources(t *testing.T) {
	b := newBench(t)
	req := &registryv1.FetchSourcesRequest{}
	want := map[string]bool{}
	for i := range 10 {
		v := b.publish(t, fmt.Sprint("s", i), fmt.Sprintf("%d %s", i, strings.Repeat("x", i*100<<10))).GetVersion()
		req.Digests = append(req.Digests, v.GetDigest(), bytes.Repeat([]byte{byte(i)}, 32))
		want[string(v.GetDigest())] = true
	}
	stream, err := b.feed.FetchSources(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(resp); size > 1<<20+1<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		for _, s := range resp.GetSources() {
			if d := script.DigestOf(s.GetContent()); !bytes.Equal(d[:], s.GetDigest()) || !want[string(d[:])] {
				t.Errorf("a source that was not asked for, or twice, or wrong: %s", d)
			}
			delete(want, string(s.GetDigest()))
		}
	}
	if len(want) != 0 {
		t.Errorf("%d sources did not come", len(want))
	}
	bad, err := b.feed.FetchSources(t.Context(), &registryv1.FetchSourcesRequest{Digests: [][]byte{{1, 2, 3}}})
	if err == nil {
		_, err = bad.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a digest of 3 bytes: %v", err)
	}
}

func TestStatus(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	b.hear(t, "a", revision)
	resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	s := resp.GetStatus()
	if s.GetFleet() != b.id || s.GetHeadRevision() != revision || len(s.GetAgents()) != 1 || len(s.GetScripts()) != 1 {
		t.Fatalf("status: %v", s)
	}
	p := s.GetScripts()[0]
	if p.GetActive() != 1 || p.GetDesired() != 1 || !p.GetConverged() || p.GetSlowestAgent() != "a" || p.GetTook() == nil || p.GetRelease().GetRevision() != revision {
		t.Errorf("script: %v", p)
	}
	// A status carries nothing that grows with the script.
	if _, err := b.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Name: "route", Source: []byte("two"), Author: "ann",
		Settings: &scriptv1.Settings{HistoryLimit: 5, Config: []byte(`{"a":1}`)},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err = b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	r := resp.GetStatus().GetScripts()[0].GetRelease()
	if len(r.GetRetained()) != 1 || r.GetRetained()[0].GetNumber() != 2 || r.GetSettings().GetConfig() != nil || r.GetSettings().GetHistoryLimit() != 5 {
		t.Errorf("the release in a status: %v", r)
	}
	if _, err := wire.ToRelease(r); err != nil {
		t.Errorf("the release in a status cannot be read: %v", err)
	}
	got, err := b.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "route"})
	if err != nil || len(got.GetRelease().GetRetained()) != 2 || len(got.GetRelease().GetSettings().GetConfig()) == 0 {
		t.Errorf("Get: %v, %v; want all of it", got, err)
	}
	// Who has published sees the status of that release, and of none before it.
	for i := range 20 {
		revision = b.publish(t, "route", fmt.Sprint(i)).GetRelease().GetRevision()
		resp, err := b.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
		if err != nil || resp.GetStatus().GetScripts()[0].GetRelease().GetRevision() != revision {
			t.Fatalf("after revision %d: %v, %v", revision, resp, err)
		}
		if resp.GetStatus().GetScripts()[0].GetConverged() {
			t.Error("converged, and nobody has activated it")
		}
	}
	for _, test := range []struct {
		req  *registryv1.StatusRequest
		code codes.Code
	}{
		{&registryv1.StatusRequest{}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "acme"}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "nobody"}, codes.OK},
		{&registryv1.StatusRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.StatusRequest{Name: "route"}, codes.InvalidArgument},
		{&registryv1.StatusRequest{Tenant: "A"}, codes.InvalidArgument},
	} {
		if _, err := b.Status(t.Context(), test.req); status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.req, err, test.code)
		}
	}
}

func TestWatchStatus(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	stream, err := b.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || len(first.GetStatus().GetAgents()) != 0 || first.GetStatus().GetScripts()[0].GetConverged() {
		t.Fatalf("first: %v, %v", first, err)
	}
	b.hear(t, "a", revision)
	next, err := stream.Recv()
	if err != nil || !next.GetStatus().GetScripts()[0].GetConverged() {
		t.Errorf("next: %v, %v; want it converged", next, err)
	}
	// Draining ends the watch, and does not wait for it.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("draining waited for a watch")
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v, want Unavailable", err)
	}
}

func TestHealthAndReflection(t *testing.T) {
	b := newBench(t)
	for _, service := range []string{"", "scriptorium.registry.v1.Registry", "scriptorium.registry.v1.Feed"} {
		resp, err := healthv1.NewHealthClient(b.conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, resp, err)
		}
	}
	stream, err := reflectionv1.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	listed, err := stream.Recv()
	if err != nil || !strings.Contains(listed.String(), "scriptorium.registry.v1.Feed") {
		t.Errorf("reflection: %v, %v", listed, err)
	}
}
