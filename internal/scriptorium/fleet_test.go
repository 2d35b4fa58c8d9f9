package scriptorium_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// mistaken is a fleet of one registry and one agent, as processes, whose registry is
// restarted with other flags.
type mistaken struct {
	t                     *testing.T
	dir                   string
	etcd                  etcdServer
	nats                  *embedded.NATS
	registry, admin, page string
	process, agent        *daemon
	client                *registryclient.Client
	caller                *agentclient.Client
	environment           []string // of the registry
}

// etcdServer is in the process of the test, or in one of its own.
type etcdServer interface {
	Endpoint() string
	Stop()
}

func (m *mistaken) startRegistry(flags ...string) {
	m.t.Helper()
	m.process = run(m.t, "registryd", append([]string{
		"--listen", m.registry, "--admin-address", m.admin, "--etcd-endpoints", m.etcd.Endpoint(), "--nats-url", m.nats.URL(),
		"--insecure-unsigned", "--insecure-anonymous", "--insecure-plaintext",
	}, flags...), m.environment...)
}

// restartRegistry starts the registry again, and waits until the client has left its backoff and reaches it.
func (m *mistaken) restartRegistry() {
	m.t.Helper()
	m.startRegistry()
	await(m.t, "the client reaches the registry", func() bool {
		_, err := m.client.Get(m.t.Context(), script.Name{Tenant: "acme", Script: "route"})
		return err == nil || script.KindOf(err) == script.NotFound
	})
}

func (m *mistaken) startAgent(flags ...string) {
	m.t.Helper()
	m.agent = run(m.t, "agentd", append([]string{
		"--name", "node", "--registry", m.registry, "--nats-url", m.nats.URL(), "--admin-address", m.page,
		"--socket-dir", m.dir, "--state-dir", filepath.Join(m.dir, "state"), "--insecure-unsigned", "--insecure-plaintext",
	}, flags...))
}

func (m *mistaken) stop(d *daemon) {
	m.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	if code := d.exit(m.t); code != 0 {
		m.t.Errorf("exit code %d", code)
	}
}

// awaitPage waits until a process's /readyz has the code and says so.
func (m *mistaken) awaitPage(address string, code int, says string) {
	m.t.Helper()
	await(m.t, says+" at "+address, func() bool {
		got, body := get(m.t.Context(), address, "/readyz")
		return got == code && strings.Contains(body, says)
	})
}

// answers returns what the script answers on the node, or the kind of the error.
func (m *mistaken) answers() string {
	result, err := m.caller.Call(m.t.Context(), "acme/route")
	if err != nil {
		return string(script.KindOf(err))
	}
	return string(result.Values[0])
}

func (m *mistaken) publish(source string) {
	m.t.Helper()
	m.publishAs("route", source)
}

func (m *mistaken) publishAs(name, source string) {
	m.t.Helper()
	if _, err := m.client.Publish(m.t.Context(), registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: name}, Source: []byte(source), Write: registryclient.Write{Author: "test"},
	}); err != nil {
		m.t.Fatal(err)
	}
}

func startMistaken(t *testing.T) *mistaken {
	t.Helper()
	etcd, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: filepath.Join(t.TempDir(), "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	return startMistakenOn(t, etcd)
}

func startMistakenOn(t *testing.T, etcd etcdServer) *mistaken {
	t.Helper()
	t.Cleanup(etcd.Stop)
	dir, err := os.MkdirTemp("", "mistaken") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &mistaken{t: t, dir: dir, etcd: etcd, registry: porttest.Address(t), admin: porttest.Address(t), page: porttest.Address(t)}
	var nats, dialed, connected error
	m.nats, nats = embedded.StartNATS(t.Context(), embedded.NATSConfig{Port: porttest.Port(t)})
	m.client, dialed = registryclient.Dial(m.registry)
	m.caller, connected = agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
	if err := errors.Join(nats, dialed, connected); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = m.client.Close(), m.caller.Close(); m.nats.Stop() })
	return m
}

// TestAnotherFleetEmptiesNoAgent: a registry with a mistyped --etcd-prefix serves nothing;
// with a fleet there, the agent keeps its own and says so. It changes its fleet when it is
// started for that.
func TestAnotherFleetEmptiesNoAgent(t *testing.T) {
	t.Parallel()
	m := startMistaken(t)
	prefix := func(name string) []string {
		return []string{"--etcd-endpoints", m.etcd.Endpoint(), "--insecure-plaintext", "--etcd-prefix", name}
	}
	found(t, append(prefix("/right"), "--fleet", "first")...)
	m.startRegistry("--etcd-prefix", "/right")
	m.startAgent()
	m.awaitPage(m.admin, http.StatusOK, `"ready":true`)
	m.publish("function handle() return 1 end")
	await(t, "the agent answers", func() bool { return m.answers() == "1" })

	m.stop(m.process)
	m.startRegistry("--etcd-prefix", "/wrong")
	m.awaitPage(m.admin, http.StatusServiceUnavailable, "no fleet at etcd prefix /wrong/: run `registryd init`, or correct --etcd-prefix")
	m.awaitPage(m.page, http.StatusOK, "the registry was not heard for")
	if got := m.answers(); got != "1" {
		t.Errorf("with a registry without a fleet the agent answers %s", got)
	}

	found(t, append(prefix("/wrong"), "--fleet", "second")...)
	m.awaitPage(m.admin, http.StatusOK, `"ready":true`)
	m.awaitPage(m.page, http.StatusOK, "the registry serves fleet second; this agent belongs to fleet first: run agentd --adopt-fleet second to change it")
	await(t, "the registry lists the agent as foreign", func() bool {
		for agent, err := range m.client.Agents(t.Context(), true) {
			if err == nil && agent.Name == "node" && agent.Foreign == "first" {
				return true
			}
		}
		return false
	})
	if got := m.answers(); got != "1" {
		t.Errorf("with the registry of another fleet the agent answers %s", got)
	}
	if _, metrics := get(t.Context(), m.page, "/metrics"); strings.Contains(metrics, `scriptorium_agent_messages_refused_total{reason="other_fleet"} 0`) {
		t.Error("the agent does not count what it refuses")
	}

	m.publish("function handle() return 2 end")
	m.stop(m.agent)
	m.startAgent("--adopt-fleet", "second")
	await(t, "the agent has changed its fleet", func() bool { return m.answers() == "2" })
	await(t, "the registry lists the agent as its own", func() bool {
		for agent, err := range m.client.Agents(t.Context(), false) {
			return err == nil && agent.Name == "node" && agent.Foreign == "" && agent.Behind == 0
		}
		return false
	})
}

// TestLostRecordsEmptyNoAgent: somebody deletes all releases in etcd, and the registry starts
// again. The agent keeps what it runs, also when it starts again itself, and runs what is
// published then. It lets go of the rest when an administrator accepts the loss.
func TestLostRecordsEmptyNoAgent(t *testing.T) {
	t.Parallel()
	m := startMistaken(t)
	found(t, "--etcd-endpoints", m.etcd.Endpoint(), "--insecure-plaintext")
	m.startRegistry()
	m.startAgent()
	m.awaitPage(m.admin, http.StatusOK, `"ready":true`)
	m.publish("function handle() return 1 end")
	const others = 14
	for i := range others {
		m.publishAs(fmt.Sprint("s", i), "function handle() return 1 end")
	}
	last := fmt.Sprintf("acme/s%d", others-1)
	await(t, "the agent has them all", func() bool { _, err := m.caller.Call(t.Context(), last); return err == nil })

	e := etcdtest.Client(t, m.etcd.Endpoint())
	if deleted, err := e.Delete(t.Context(), "/scriptorium/releases/", clientv3.WithPrefix()); err != nil || deleted.Deleted != others+1 {
		t.Fatalf("deleted %v: %v", deleted, err)
	}
	m.stop(m.process)
	m.restartRegistry()
	const held = "would remove 15 of 15 live releases"
	m.awaitPage(m.page, http.StatusOK, held)
	m.stop(m.agent)
	m.startAgent()
	m.awaitPage(m.page, http.StatusOK, held)
	m.publishAs("new", "function handle() return 1 end")
	await(t, "the agent runs what is new", func() bool { _, err := m.caller.Call(t.Context(), "acme/new"); return err == nil })
	if got := m.answers(); got != "1" {
		t.Errorf("the agent answers %s", got)
	}
	await(t, "the registry knows", func() bool {
		for agent, err := range m.client.Agents(t.Context(), true) {
			return err == nil && agent.Name == "node" && strings.Contains(agent.Held, held)
		}
		return false
	})
	if _, err := m.client.AcceptLoss(t.Context(), others+1, "ann", "a test"); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent lets go of them", func() bool { return m.answers() == string(script.NotFound) })
}
