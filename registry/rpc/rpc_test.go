package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

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
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
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
	mirror *mirror.Mirror
	groups *groups
	id     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchFor(t, memstore.New(), rpc.Authentication{InsecureAnonymous: true})
}

func newBenchFor(t *testing.T, store *memstore.Store, authentication rpc.Authentication) *bench {
	t.Helper()
	log, sealer, fl := slog.New(slog.DiscardHandler), seal.NewSealer(signingKey), fleet.New(fleet.Config{Settle: 1})
	m, groups, hub := mirror.New(sealer, log), &groups{}, timeline.NewHub(store, log)
	server := rpc.New(rpc.Config{
		Registry:       registry.New(registry.Config{Store: store, Checkup: store, Engines: map[string]engine.Checker{"lua": checker{}}}),
		Fleet:          fl,
		Logs:           talkative{},
		Asker:          oracle{},
		Timeline:       timeline.New(store, hub),
		Usage:          used{hours: 2500},
		Mirror:         m,
		Groups:         groups,
		Sealer:         sealer,
		Sessions:       sessions{},
		Log:            log,
		Authentication: authentication,
	})
	go registry.Follow(t.Context(), store, log, m, fl, hub)
	go hub.Run(t.Context())
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
		conn: conn, server: server, fleet: fl, mirror: m, groups: groups, id: id,
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

// hear makes the fleet hear of an agent, once the registry is where the agent is: before, it counts as no agent yet.
func (b *bench) hear(t *testing.T, agent string, activated int64) {
	t.Helper()
	if err := b.fleet.Reached(t.Context(), script.Revision(activated)); err != nil {
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
	if r, err := b.LiftHold(ctx, &registryv1.LiftHoldRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetActive().GetNumber() != 2 {
		t.Errorf("LiftHold: %v, %v", r, err)
	}
	if r, err := b.Rollback(ctx, &registryv1.RollbackRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetActive().GetNumber() != 1 {
		t.Errorf("Rollback: %v, %v", r, err)
	}
	if r, err := b.SetEnabled(ctx, &registryv1.SetEnabledRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetEnabled() {
		t.Errorf("SetEnabled: %v, %v", r, err)
	}
	r, err := b.Publish(ctx, &registryv1.PublishRequest{
		Tenant: "acme", Author: "ann", Name: "route", Source: []byte("one"), Pin: new(uint64(0)), LiftHold: true, Settings: &scriptv1.Settings{Config: []byte(`{"a": 1}`)},
	})
	if err != nil || string(r.GetRelease().GetSettings().GetConfig()) != `{"a":1}` {
		t.Errorf("Publish: %v, %v", r, err)
	}
	got, err := b.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "route"})
	if err != nil || !proto.Equal(got.GetRelease(), r.GetRelease()) {
		t.Errorf("Get: %v, %v; want %v", got, err, r.GetRelease())
	}
	src, err := b.GetSource(ctx, &registryv1.GetSourceRequest{Tenant: "acme", Name: "route"})
	if err != nil || string(src.GetSource()) != "one" || src.GetVersion().GetNumber() != 3 || string(src.GetSettings().GetConfig()) != `{"a":1}` {
		t.Errorf("GetSource: %v, %v", src, err)
	}
	list, err := b.List(ctx, &registryv1.ListRequest{Tenant: "acme"})
	if err != nil || len(list.GetReleases()) != 1 || list.GetNextPageToken() != "" {
		t.Errorf("List: %v, %v", list, err)
	}
	history, err := b.History(ctx, &registryv1.HistoryRequest{Tenant: "acme", Name: "route"})
	if err != nil || len(history.GetEntries()) != 7 || history.GetEntries()[0].GetChange() != "publish" || history.GetEntries()[6].GetAuthor() != "ann" {
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

// TestUnpin: a client that knows no holds sets one by its Rollback, and lifts it by its Unpin.
func TestUnpin(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	b.publish(t, "route", "one")
	b.publish(t, "route", "two")
	if r, err := b.Rollback(ctx, &registryv1.RollbackRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetHold() == nil {
		t.Fatal(r, err)
	}
	//nolint:staticcheck // an older client's
	if r, err := b.Unpin(ctx, &registryv1.UnpinRequest{Tenant: "acme", Author: "ann", Name: "route"}); err != nil || r.GetRelease().GetActive().GetNumber() != 2 || r.GetRelease().GetHold() != nil {
		t.Errorf("%v, %v", r, err)
	}
}
