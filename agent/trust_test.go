package agent_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestTheKeyringIsRequired(t *testing.T) {
	if _, err := agent.Open(agent.Config{Name: "n", Dir: t.TempDir(), Registry: "unix:x"}); script.KindOf(err) != script.Internal {
		t.Errorf("without a keyring: %v", err)
	}
}

// sealedBy returns the key that each release on disk is signed by, as the file says.
func sealedBy(t *testing.T, dir string) map[string]string {
	t.Helper()
	keys := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "releases/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		const header = 8 + 4 + 32
		id, err := seal.Unpack(data[header:], &eventv1.Entry{})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		keys[filepath.Base(path)] = id
	}
	return keys
}

// A whole rotation: nobody is without a key that is trusted at any time.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.publish("a", "one")
	r.publish("b", "one")
	r.start()
	dir := t.TempDir()
	ring := seal.NewKeyring(publicOf(1))
	n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Trusted = ring })
	n.answers(t, r, "acme/a", "one")
	n.answers(t, r, "acme/b", "one")

	ring.Replace(publicOf(1), publicOf(2))
	r.mu.Lock()
	r.sealer = seal.NewSealer(keyOf(2))
	r.mu.Unlock()
	r.publish("c", "one")
	n.answers(t, r, "acme/c", "one")
	eventually(t, r, "all that is on disk is signed by the new key", func() bool {
		keys := sealedBy(t, dir)
		for _, id := range keys {
			if id != seal.KeyID(publicOf(2)) {
				return false
			}
		}
		return len(keys) == 3
	})
	ring.Replace(publicOf(2))
	n.stop()

	r.stop()
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Trusted = seal.NewKeyring(publicOf(2)) })
	for _, ref := range []string{"acme/a", "acme/b", "acme/c"} {
		if got, err := n.call(t, ref); err != nil || got != "one" {
			t.Errorf("%s with the new key alone and everything down: %q, %v", ref, got, err)
		}
	}
	n.stop()

	// With the old key alone nothing of it is believed, and nothing is lost.
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Trusted = seal.NewKeyring(publicOf(1)) })
	if _, err := n.call(t, "acme/a"); script.KindOf(err) != script.NotFound {
		t.Errorf("with the old key: %v", err)
	}
	n.stop()
	r.start()
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Trusted = seal.NewKeyring(publicOf(2)) })
	n.answers(t, r, "acme/b", "one")
}

func TestOtherTenantsThanBefore(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, name := range []string{"acme/a", "shop/a", "shop-eu/a"} {
		r.publish(name, "of "+name)
	}
	r.start()
	dir := t.TempDir()
	follow := func(globs ...string) *node {
		tenants, err := script.ParseSelector(globs)
		if err != nil {
			t.Fatal(err)
		}
		return startNode(t, r, dir, func(cfg *agent.Config) { cfg.Tenants = tenants })
	}
	expect := func(n *node, live ...string) {
		t.Helper()
		eventually(t, r, strings.Join(live, ", ")+" alone", func() bool {
			files, err := filepath.Glob(filepath.Join(dir, "releases/*/*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range live {
				if got, err := n.call(t, name); err != nil || got != "of "+name {
					return false
				}
			}
			return len(n.Executor().List()) == len(live) && len(files) == len(live)
		})
	}
	n := follow()
	expect(n, "acme/a", "shop/a", "shop-eu/a")
	n.stop()

	// Fewer: those that are not selected are gone at once, with everything down.
	r.stop()
	n = follow("shop*")
	if len(n.Executor().List()) != 2 {
		t.Errorf("%d scripts are served", len(n.Executor().List()))
	}
	expect(n, "shop/a", "shop-eu/a")
	n.stop()
	r.start()

	// Others, some of which are not here.
	n = follow("acme", "shop")
	expect(n, "acme/a", "shop/a")
	r.publish("shop/b", "of shop/b")
	r.publish("shop-eu/b", "of shop-eu/b")
	expect(n, "acme/a", "shop/a", "shop/b")
	n.stop()
	n = follow()
	expect(n, "acme/a", "shop/a", "shop/b", "shop-eu/a", "shop-eu/b")
}

// TestOtherTenantsAreGoneWhateverWasInDoubt: what is not followed stays on disk until a
// snapshot has come, and no longer, or its key would have to be trusted for ever.
func TestOtherTenantsAreGoneWhateverWasInDoubt(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.publish("acme/a", "of acme")
	r.publish("shop/a", "of shop")
	r.start()
	run := func(dir string, key byte) {
		r.mu.Lock()
		r.sealer = seal.NewSealer(keyOf(key))
		r.mu.Unlock()
		n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Trusted = seal.NewKeyring(publicOf(key)) })
		n.answers(t, r, "acme/a", "of acme")
		n.answers(t, r, "shop/a", "of shop")
		n.stop()
	}
	dir, other := t.TempDir(), t.TempDir()
	run(other, 2)
	run(dir, 1)
	const doubted = "releases/acme/a"
	data, err := os.ReadFile(filepath.Join(other, doubted))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, doubted), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	tenants, err := script.ParseSelector([]string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, r, dir, func(cfg *agent.Config) { cfg.Tenants = tenants })
	n.answers(t, r, "acme/a", "of acme")
	eventually(t, r, "the release of another tenant is gone", func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "releases/*/*"))
		return err == nil && len(files) == 1 && strings.HasSuffix(files[0], doubted)
	})
}

func TestADriftIsHealedInMemoryAndOnDisk(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, name := range []string{"flipped", "dropped", "stale", "sound"} {
		r.publish(name, "old")
	}
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/stale", "old")
	stale := n.Table().Get("acme/stale")
	for _, name := range []string{"flipped", "dropped", "stale", "sound"} {
		r.publish(name, "new")
		n.answers(t, r, "acme/"+name, "new")
	}
	sound := n.Table().Get("acme/sound")
	ghost := cache.NewRelease(script.Release{
		Name: script.Name{Tenant: "acme", Script: "ghost"}, Revision: sound.Revision, Enabled: true, Active: sound.Runs,
	})
	dropped := script.Name{Tenant: "acme", Script: "dropped"}
	flipped := cache.NewReleaseOn(script.Agent{Name: "node-1"}, n.Table().Get("acme/flipped").Script())
	flipped.Runs.Digest[3] ^= 1 // after it was made, and before anybody else sees it
	n.Table().Update([]*cache.Release{stale, ghost, flipped}, []script.Name{dropped})
	if err := os.Remove(filepath.Join(dir, "releases/acme/dropped")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"flipped", "dropped", "stale", "sound"} {
		n.answers(t, r, "acme/"+name, "new")
	}
	eventually(t, r, "the ghost is gone", func() bool {
		_, err := n.call(t, "acme/ghost")
		return script.KindOf(err) == script.NotFound
	})
	n.stop()
	r.stop()
	n = startNode(t, r, dir)
	for _, name := range []string{"flipped", "dropped", "stale", "sound"} {
		if got, err := n.call(t, "acme/"+name); err != nil || got != "new" {
			t.Errorf("%s from disk: %q, %v", name, got, err)
		}
	}
}

// oldRegistry serves and publishes what software of the wire protocol 1 did.
type oldRegistry struct {
	registryv1.UnimplementedFeedServer
	t *testing.T
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/protocol1", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (r *oldRegistry) Sync(_ *registryv1.SyncRequest, stream registryv1.Feed_SyncServer) error {
	resp := &registryv1.SyncResponse{}
	if err := proto.Unmarshal(golden(r.t, "sync_response"), resp); err != nil {
		return err
	}
	return stream.Send(resp)
}

func TestARegistryOfProtocol1(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.start() // for its NATS
	r.grpc.Stop()
	path := filepath.Join(r.dir, socketName)
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registryv1.RegisterFeedServer(server, &oldRegistry{t: t})
	go server.Serve(l)
	t.Cleanup(server.Stop)
	publish := func() {
		for subject, message := range map[string]string{"event": "event", "beacon": "beacon", "rollcall": "rollcall"} {
			_ = r.conn.Publish("scriptorium.feed."+subject, golden(t, message))
			_ = r.conn.Publish("scriptorium.feed.all."+subject, golden(t, message)) // where it is heard
			_ = r.conn.Publish("scriptorium.rollcall", golden(t, "rollcall"))
		}
	}
	refused := func(reg *prometheus.Registry) int {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "scriptorium_agent_messages_refused_total" && m.GetLabel()[0].GetValue() == "old_protocol" {
					return int(m.GetCounter().GetValue())
				}
			}
		}
		return 0
	}
	r.mute = true // no beacons of today

	metrics := prometheus.NewRegistry()
	n := startNode(t, r, t.TempDir(), func(cfg *agent.Config) { cfg.Trusted, cfg.Metrics = seal.TrustEverything(), metrics })
	n.answers(t, r, "acme/route", "as it was in protocol 1")
	n.answers(t, r, "acme/split", "another of then")
	publish()
	eventually(t, r, "they are refused", func() bool { return refused(metrics) >= 3 })
	n.answers(t, r, "acme/route@3", "as it was in protocol 1")
	n.stop()

	var log obstest.Output
	n = startNode(t, r, t.TempDir(), func(cfg *agent.Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	publish()
	eventually(t, r, "it says why", func() bool { return strings.Contains(log.String(), "upgrade registries first") })
	if _, err := n.call(t, "acme/route"); script.KindOf(err) != script.NotFound {
		t.Errorf("it believes what nobody has signed: %v", err)
	}
}
