package registryd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestThePath: publish, event on NATS, report, converged; and what operators see.
func TestThePath(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d, c := start(t, cfg)
	leads(t, d)
	select {
	case <-a.rolls:
	case <-time.After(patience):
		t.Fatal("the roll was not called")
	}
	published := c.publish(t, "route", "return 1")
	e := a.next(t)
	if e.GetRevision() != published.GetRelease().GetRevision() || string(e.GetSources()[0].GetContent()) != "return 1" {
		t.Errorf("event: %v", e)
	}
	a.joins(t, c)
	again := dial(t, d.Addrs()[1].String())
	stream, err := again.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetStatus().GetScripts()[0].GetConverged() {
		t.Errorf("first status: %v, %v", first, err)
	}
	a.report(t, &eventv1.Status{Fleet: e.GetFleet(), Agent: "n1", Incarnation: "1", Sequence: 1, ActivatedRevision: e.GetRevision()})
	next, err := stream.Recv()
	for err == nil && !next.GetStatus().GetScripts()[0].GetConverged() {
		next, err = stream.Recv() // the first agent is not the fleet until the roll call had its time
	}
	if err != nil || !next.GetStatus().GetScripts()[0].GetConverged() || next.GetStatus().GetScripts()[0].GetTook().AsDuration() <= 0 {
		t.Errorf("after the report: %v, %v", next, err)
	}

	if code, body := admin(t, d, "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := admin(t, d, "/readyz"); code != http.StatusOK || strings.Contains(body, "degraded") {
		t.Errorf("readyz: %d %s", code, body)
	}
	_, metrics := admin(t, d, "/metrics")
	for _, line := range []string{
		`scriptorium_registry_writes_total{change="publish",outcome="changed"} 1`,
		`scriptorium_registry_events_published_total 1`,
		`scriptorium_registry_leader 1`,
		`scriptorium_registry_takeovers_total 1`,
		fmt.Sprintf(`scriptorium_registry_feed_head_revision %d`, e.GetRevision()),
		`scriptorium_registry_publish_failures_total{reason="unreachable"} 0`,
		`scriptorium_registry_agents{state="connected"} 1`,
		`scriptorium_registry_converged_seconds_count 1`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Publish",grpc_service="scriptorium.registry.v1.Registry",grpc_type="unary"} 1`,
		`grpc_server_handling_seconds_count{grpc_method="Publish"`,
	} {
		if !strings.Contains(metrics, line) && !strings.Contains(metrics, strings.Replace(line, "head_revision "+fmt.Sprint(e.GetRevision()), fmt.Sprintf("head_revision %g", float64(e.GetRevision())), 1)) {
			t.Errorf("metrics lack %s", line)
		}
	}
	stop(t, d)
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the watch ended with %v, want Unavailable", err)
			}
			break
		}
	}
	if _, err := os.Stat(strings.TrimPrefix(cfg.Listen[0], "unix:")); err == nil {
		t.Error("the socket was left behind")
	}
}

// TestConcurrentPublishers: against the real etcd through two replicas, no publish
// is lost, numbers have no gaps, and the chain of events is complete.
func TestConcurrentPublishers(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d, one := start(t, cfg)
	leads(t, d)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	other.SubjectPrefix = "elsewhere" // its events go where nobody listens
	_, two := start(t, other)

	const writers, each = 6, 15
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]bool{}
	for w := range writers {
		c := []*client{one, two}[w%2]
		wg.Go(func() {
			for i := range each {
				resp, err := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: fmt.Appendf(nil, "%d %d", w, i)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[resp.GetVersion().GetNumber()] {
					t.Errorf("version %d was given twice", resp.GetVersion().GetNumber())
				}
				seen[resp.GetVersion().GetNumber()] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got, err := two.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "route"})
	if err != nil || got.GetRelease().GetLatest() != writers*each || len(seen) != writers*each {
		t.Errorf("%v, %v: %d versions, want %d", got.GetRelease().GetLatest(), err, len(seen), writers*each)
	}
	// A leader that lost its lease and got it back says the last events again.
	var last int64
	for events := 0; last < got.GetRelease().GetRevision(); {
		e := a.next(t)
		if e.GetRevision() <= last {
			continue
		}
		if e.GetPreviousRevision() != last {
			t.Fatalf("event %d: %d follows %d, want %d", events, e.GetRevision(), e.GetPreviousRevision(), last)
		}
		last = e.GetRevision()
		if events++; events > writers*each {
			t.Fatalf("more than %d events", writers*each)
		}
	}
}

// TestDrainHandsOn: a publish that was acknowledged reaches the fleet, although
// the registry is stopped at once.
func TestDrainHandsOn(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	for i := range 20 {
		d, c := start(t, cfg)
		leads(t, d)
		want := c.publish(t, "route", fmt.Sprint(i)).GetRelease().GetRevision()
		stop(t, d)
		if got := a.next(t).GetRevision(); got != want {
			t.Fatalf("round %d: event %d, want %d", i, got, want)
		}
	}
}

// TestStoppedBeforeEtcd: who stops a registry that waits for etcd gets no error.
func TestStoppedBeforeEtcd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config(t, "nats://127.0.0.1:1")
	cfg.EtcdEndpoints = []string{"http://127.0.0.1:1"}
	waiting := make(chan struct{}, 100)
	cfg.Log = slog.New(told{slog.DiscardHandler, waiting})
	done := make(chan error, 1)
	go func() { done <- registryd.Run(ctx, cfg) }()
	<-waiting
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Run did not end")
	}
}

// told is a log that says when something was logged.
type told struct {
	slog.Handler
	lines chan<- struct{}
}

func (l told) Enabled(context.Context, slog.Level) bool { return true }

func (l told) Handle(context.Context, slog.Record) error {
	l.lines <- struct{}{}
	return nil
}

// TestRestart: a registry goes on where it was, with the same identity and a chain
// that shows what went by unseen, even if etcd compacted its past.
func TestRestart(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d, c := start(t, cfg)
	c.publish(t, "route", "one")
	first := a.next(t)
	stop(t, d)

	quietCfg := cfg
	quietCfg.SubjectPrefix = "elsewhere"
	d, c = start(t, quietCfg)
	missed := c.publish(t, "route", "two").GetRelease().GetRevision()
	stop(t, d)
	etcdClient, err := clientv3.New(clientv3.Config{Endpoints: cfg.EtcdEndpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer etcdClient.Close()
	if _, err := etcdClient.Compact(t.Context(), missed); err != nil {
		t.Fatal(err)
	}
	_, c = start(t, cfg)
	c.publish(t, "route", "three")
	e := a.next(t)
	if e.GetPreviousRevision() != missed || e.GetFleet() != first.GetFleet() {
		t.Errorf("%d follows %d of fleet %s; want it to follow %d of %s", e.GetRevision(), e.GetPreviousRevision(), e.GetFleet(), missed, first.GetFleet())
	}
	stream, err := c.feed.Sync(t.Context(), &registryv1.SyncRequest{Fleet: first.GetFleet(), Since: first.GetRevision()})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || resp.GetFull() || len(resp.GetObjects()) != 1 || resp.GetHeadRevision() != e.GetRevision() {
		t.Errorf("Sync: %v, %v", resp, err)
	}
}

// TestWithoutNATS: writes work, readiness says what is amiss, and events flow once
// NATS is back.
func TestWithoutNATS(t *testing.T) {
	n := startNATS(t, 0)
	n.Stop()
	cfg := config(t, n.URL())
	d, c := start(t, cfg)
	c.publish(t, "route", "one")
	code, body := admin(t, d, "/readyz")
	var state struct {
		Ready    bool
		Degraded []string
	}
	if err := json.Unmarshal([]byte(body), &state); err != nil || code != http.StatusOK || !state.Ready || len(state.Degraded) != 1 {
		t.Errorf("readyz: %d %s", code, body)
	}
	startNATS(t, n.Port())
	a := newAgent(t, n.URL(), subjects(cfg))
	eventually(t, "connected", func() bool { return len(d.Ready(t.Context()).Degraded) == 0 })
	revision := c.publish(t, "route", "two").GetRelease().GetRevision()
	for a.next(t).GetRevision() != revision {
		continue // the first may have come late, too
	}
}

// TestEtcdOutage: without etcd errors come in time and say so; when it is back, so
// is the registry.
func TestEtcdOutage(t *testing.T) {
	n := startNATS(t, 0)
	home, port := t.TempDir(), porttest.Port(t)
	own, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: home, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Stop() })
	cfg := config(t, n.URL())
	cfg.EtcdEndpoints = []string{own.Endpoint()}
	found(t, cfg)
	a := newAgent(t, n.URL(), subjects(cfg))
	d, c := start(t, cfg)
	c.publish(t, "route", "one")
	first := a.next(t)
	own.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := c.Publish(ctx, &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("two")}); err == nil {
		t.Error("published without etcd")
	}
	eventually(t, "not ready", func() bool { return !d.Ready(t.Context()).Ready })
	if code, body := admin(t, d, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz without etcd: %d %s", code, body)
	}
	eventually(t, "etcd serves again", func() bool { // its port may be taken for a moment
		again, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: home, Port: port})
		if err == nil {
			own = again
		}
		return err == nil
	})
	eventually(t, "ready again", func() bool { return d.Ready(t.Context()).Ready })
	revision := c.publish(t, "route", "three").GetRelease().GetRevision()
	last := first.GetRevision()
	for last != revision {
		e := a.next(t)
		if e.GetRevision() <= last {
			continue // said again, as a new leader does
		}
		if e.GetPreviousRevision() != last {
			t.Errorf("%d follows %d, want %d: an outage of etcd is no gap", e.GetRevision(), e.GetPreviousRevision(), last)
		}
		last = e.GetRevision()
	}
}

func TestBadConfig(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	occupied := dir(t)
	if err := os.WriteFile(filepath.Join(occupied, "registry.sock"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*registryd.Config)
		says   string
	}{
		"nowhere to listen": {func(c *registryd.Config) { c.Listen = nil }, "--listen"},
		"port taken":        {func(c *registryd.Config) { c.Listen = []string{taken} }, taken},
		"admin port taken":  {func(c *registryd.Config) { c.AdminAddress = taken }, taken},
		"no socket":         {func(c *registryd.Config) { c.Listen = []string{socket(occupied)} }, "not a socket"},
		"no etcd": {func(c *registryd.Config) {
			c.EtcdEndpoints, c.EtcdWait = []string{"http://127.0.0.1:1"}, 300*time.Millisecond
		}, "http://127.0.0.1:1"},
		"no endpoints": {func(c *registryd.Config) { c.EtcdEndpoints = nil }, "endpoint"},
		"NATS URL":     {func(c *registryd.Config) { c.NATS = []string{"http://[::1"} }, "http://[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "nats://127.0.0.1:1")
			test.change(&cfg)
			d, err := registryd.Start(t.Context(), cfg)
			if err == nil {
				stop(t, d)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(occupied, "registry.sock")); err != nil || string(text) != "precious" {
		t.Errorf("somebody's file is gone: %q, %v", text, err)
	}
}

// TestRun: the process's life, from start to drained.
func TestRun(t *testing.T) {
	cfg := config(t, "nats://127.0.0.1:1")
	cfg.DrainTimeout = patience
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- registryd.Run(ctx, cfg) }()
	c := dial(t, cfg.Listen[0])
	eventually(t, "serving", func() bool {
		_, err := c.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "route"})
		return script.KindOf(wire.FromStatus(err)) == script.NotFound
	})
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Run did not end")
	}
}
