package registryd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// refusals are calls of each service, one of each shape; all have to be refused.
func (c *client) refusals(t *testing.T) map[string]error {
	t.Helper()
	_, publish := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("return 1")})
	_, list := c.List(t.Context(), &registryv1.ListRequest{})
	_, agents := c.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	refused := map[string]error{"Publish": publish, "List": list, "ListAgents": agents}
	watch, err := c.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	refused["WatchStatus"] = err
	pull, err := c.feed.Pull(t.Context(), &registryv1.PullRequest{Nonce: make([]byte, 16)})
	if err == nil {
		_, err = pull.Recv()
	}
	refused["Pull"] = err
	return refused
}

// health returns what gRPC's health checks say: of the process, and of the registry's services.
func (c *client) health(t *testing.T) string {
	t.Helper()
	var all []string
	for _, service := range []string{"", "scriptorium.registry.v1.Registry", "scriptorium.registry.v1.Feed"} {
		resp, err := c.checks.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp.GetStatus().String())
	}
	return strings.Join(all, " ")
}

func wantUnavailable(t *testing.T, d *registryd.Daemon, c *client, says string) {
	t.Helper()
	for call, err := range c.refusals(t) {
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want Unavailable: %q", call, err, says)
		}
	}
	eventually(t, "the health of the services is NOT_SERVING, and that of the process is not", func() bool {
		return c.health(t) == "SERVING NOT_SERVING NOT_SERVING"
	})
	if code, body := admin(t, d, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, says) {
		t.Errorf("readyz: %d %s; want 503 and %q", code, body, says)
	}
	if _, metrics := admin(t, d, "/metrics"); !strings.Contains(metrics, "scriptorium_registry_fleet_available 0") {
		t.Error("the metrics do not say that the fleet is not available")
	}
}

func etcdClient(t *testing.T) *clientv3.Client {
	t.Helper()
	return etcdtest.Client(t, etcd.Endpoint())
}

// TestNoFleet: without a fleet a registry answers nothing, says what to do, and leaves
// nothing in etcd. It serves once somebody has founded one.
func TestNoFleet(t *testing.T) {
	n := startNATS(t, 0)
	cfg := unfounded(t, n.URL())
	d, c := start(t, cfg)
	wantUnavailable(t, d, c, "no fleet at etcd prefix "+cfg.EtcdPrefix+"/: run `registryd init`, or correct --etcd-prefix")
	if resp, err := etcdClient(t).Get(t.Context(), cfg.EtcdPrefix, clientv3.WithPrefix()); err != nil || len(resp.Kvs) > 0 {
		t.Errorf("%v, %v: the registry left something in etcd", resp, err)
	}
	a := newAgent(t, n.URL(), subjects(cfg))
	id := found(t, cfg)
	eventually(t, "ready", func() bool { return d.Ready(t.Context()).Ready })
	eventually(t, "all are serving", func() bool { return c.health(t) == "SERVING SERVING SERVING" })
	leads(t, d)
	c.publish(t, "route", "return 1")
	if e := a.next(t); e.GetFleet() != id {
		t.Errorf("an event of fleet %s, want %s", e.GetFleet(), id)
	}
}

// TestStoppedWithoutFleet: a registry that waits for a fleet stops at once.
func TestStoppedWithoutFleet(t *testing.T) {
	d, _ := start(t, unfounded(t, "nats://127.0.0.1:1"))
	stop(t, d)
}

// TestTheFleetVanishes: when etcd is wiped under a running registry, or has another fleet,
// nobody hears of a deletion, and the registry says what happened. When the fleet is back,
// it goes on.
func TestTheFleetVanishes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *clientv3.Client, prefix string) error
		says   string
	}{
		"wiped": {func(c *clientv3.Client, prefix string) error {
			_, err := c.Delete(t.Context(), prefix+"/", clientv3.WithPrefix())
			return err
		}, "is not at etcd prefix"},
		"another fleet": {func(c *clientv3.Client, prefix string) error {
			_, err := c.Put(t.Context(), prefix+"/meta/fleet", "another")
			return err
		}, "holds fleet another"},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNATS(t, 0)
			cfg := config(t, n.URL())
			a := newAgent(t, n.URL(), subjects(cfg))
			d, c := start(t, cfg)
			leads(t, d)
			c.publish(t, "route", "return 1")
			first := a.next(t)
			etcd := etcdClient(t)
			before, err := etcd.Get(t.Context(), cfg.EtcdPrefix+"/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(etcd, cfg.EtcdPrefix); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it says so", func() bool { return d.Unavailable() != nil })
			wantUnavailable(t, d, c, test.says)
			eventually(t, "it steps down", func() bool { return !d.Leading() })
			for _, kv := range before.Kvs {
				if kv.Lease != 0 {
					continue // of a process that has it no more
				}
				if _, err := etcd.Put(t.Context(), string(kv.Key), string(kv.Value)); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "ready again", func() bool { return d.Ready(t.Context()).Ready })
			leads(t, d)
			last := c.publish(t, "route", "return 2").GetRelease().GetRevision()
			a.hears(t, first.GetFleet(), last)
		})
	}
}

// TestOnlyThisFleet: with --fleet a registry serves no other.
func TestOnlyThisFleet(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	id := found(t, cfg)
	cfg.Fleet = "another"
	d, c := start(t, cfg)
	wantUnavailable(t, d, c, "holds fleet "+id+", and this registry serves fleet another")
	stop(t, d)
	cfg.Fleet = id
	_, c = start(t, cfg)
	c.publish(t, "route", "return 1")
}

// runInit runs `registryd init` with the flags.
func runInit(t *testing.T, cfg registryd.Config, flags ...string) (string, error) {
	t.Helper()
	cmd := registryd.Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"init", "--etcd-endpoints", etcd.Endpoint(), "--etcd-prefix", cfg.EtcdPrefix, "--insecure-plaintext", "--log-level=error"}, flags...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestInit: the command founds once, and is safe to repeat.
func TestInit(t *testing.T) {
	cfg := unfounded(t, "")
	printed := func(flags ...string) (got struct {
		Fleet   string
		Founded bool
	},
	) {
		t.Helper()
		out, err := runInit(t, cfg, append(flags, "-o", "json")...)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return got
	}
	if known := printed("--known-fleet", "earlier"); known.Fleet != "earlier" || known.Founded {
		t.Errorf("with --known-fleet: %+v", known)
	}
	first := printed()
	if first.Fleet == "" || first.Fleet == "earlier" || !first.Founded {
		t.Errorf("the first: %+v", first)
	}
	if again := printed(); again.Fleet != first.Fleet || again.Founded {
		t.Errorf("again: %+v; want fleet %s", again, first.Fleet)
	}
	if again := printed("--fleet", first.Fleet); again.Fleet != first.Fleet || again.Founded {
		t.Errorf("again, with --fleet: %+v", again)
	}
	if out, err := runInit(t, cfg, "--fleet", "another"); script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), "--fleet") || out != "" {
		t.Errorf("another fleet: %q, %v; want Invalid, of --fleet", out, err)
	}
	if out, err := runInit(t, unfounded(t, ""), "--fleet", "mine"); err != nil || out != "founded fleet mine\n" {
		t.Errorf("a fleet with a given id: %q, %v", out, err)
	}
	if _, err := runInit(t, cfg, "-o", "xml"); script.KindOf(err) != script.Invalid {
		t.Errorf("-o xml: %v", err)
	}
}
