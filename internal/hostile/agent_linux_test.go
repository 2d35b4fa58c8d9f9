package hostile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Users of the machine, and what the agent grants them.
const (
	good     = 0    // all tenants
	bad      = 4001 // the tenants acme and iso
	worse    = 4002 // the same
	stranger = 4003 // none

	crowdFirst, crowd = 4010, 8 // users with the same tenants as bad
)

// allowed are the agent's rules.
func allowed() []string {
	rules := []string{"--allow", "uid:0=*"}
	users := []int{bad, worse}
	for i := range crowd {
		users = append(users, crowdFirst+i)
	}
	for _, user := range users {
		rules = append(rules, "--allow", fmt.Sprintf("uid:%d=acme,iso", user))
	}
	return rules
}

const patience = time.Minute // bounds every wait; nothing is measured by it

// agent is the agent's process, and the rest of the fleet in this one.
type agent struct {
	*victim
	dir  string
	port string // the address of the HTTP port
}

// startAgent starts an agent with the tenants acme and shop, and iso, which has a process.
func startAgent(t *testing.T) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "hostile") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // other users connect
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	stack, err := local.Start(t.Context(), dir, 0, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	publish(t, stack.RegistryTarget())
	a := &agent{dir: filepath.Join(dir, "a"), victim: newVictim(t), port: porttest.Address(t)}
	a.metrics = func() (string, error) { return get("unix", a.path("http"), "/metrics") }
	a.start(append([]string{
		"agentd", "--name", "a", "--state-dir", filepath.Join(dir, "state"), "--socket-dir", a.dir, "--admin-address", a.admin,
		"--registry", stack.RegistryTarget(), "--nats-url", stack.NATSURL(), "--counter-metrics", "--log-format", "text",
		"--http-listen", a.port, "--http-callers", callersFile(t, dir),
	}, append(stack.AgentFlags(), allowed()...)...))
	for _, socket := range []string{"resp", "http", "grpc", "spop", "iso/resp", "iso/http", "iso/grpc", "iso/spop"} {
		a.await(socket+" answers", func() bool { return os.Chmod(a.path(socket), 0o666) == nil && a.echo(socket) == nil })
	}
	a.await("the port answers", func() bool { return a.echo("port") == nil })
	return a
}

func publish(t *testing.T, registry string) {
	t.Helper()
	client, err := registryclient.Dial(registry)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := client.SetTenant(t.Context(), "iso", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"echo": `function handle(a) counter.add("calls") return a end`,
		"big":  `function handle() return string.rep("x", 1000000) end`,
	} {
		for _, tenant := range []string{"acme", "shop", "iso"} {
			if _, err := client.Publish(t.Context(), registryclient.PublishRequest{
				Name: script.Name{Tenant: tenant, Script: name}, Source: []byte(source), Write: registryclient.Write{Author: "test"},
				Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: 10 * time.Second, StringBytes: mib, ResultBytes: mib}}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// path of a socket: "resp", or "iso/resp" for one of the tenant's own.
func (a *agent) path(socket string) string {
	if own, ok := strings.CutPrefix(socket, "iso/"); ok {
		return filepath.Join(a.dir, "tenants", "iso", own+".sock")
	}
	return filepath.Join(a.dir, socket+".sock")
}
