package scriptorium_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/process"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestMain is the scriptorium command when it is asked to be, so that the tests
// can start real processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		process.Main(command())
	}
	waitMostly()
	os.Exit(m.Run())
}

// waitMostly has three times as many tests run at a time as there are processors, unless -parallel says how many:
// they wait for reports, leases and pauses of processes.
func waitMostly() {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

const patience = 2 * time.Minute // bounds every wait; nothing is measured by it

// daemon is a process of ours.
type daemon struct {
	cmd    *exec.Cmd
	output *obstest.Output
}

// run starts the command with flags as arguments and more as variables.
func run(t *testing.T, command string, flags []string, environment ...string) *daemon {
	t.Helper()
	d := &daemon{output: &obstest.Output{}}
	d.cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{command}, flags...)...)
	d.cmd.Env = append(os.Environ(), environment...)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		if t.Failed() {
			t.Logf("%s %v said:\n%s", command, flags, d.output)
		}
	})
	return d
}

// found founds the fleet with registryd init.
func found(t *testing.T, flags ...string) {
	t.Helper()
	if code := run(t, "registryd", append([]string{"init"}, flags...)).exit(t); code != 0 {
		t.Fatalf("registryd init exits with %d", code)
	}
}

// exit waits for the process and returns its exit code.
func (d *daemon) exit(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	defer timer.Stop()
	_ = d.cmd.Wait()
	return d.cmd.ProcessState.ExitCode()
}

// get returns the status and body of an admin page, "" while nobody listens.
func get(ctx context.Context, address, path string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestDaemons runs two registries and two agents as processes on a real etcd and
// NATS, configured by flags and by variables.
func TestDaemons(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir, err := os.MkdirTemp("", "daemons") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	etcd, err := embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	nats, err := embedded.StartNATS(ctx, embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)

	registry, admin := porttest.Address(t), porttest.Address(t)
	first := run(t, "registryd", []string{"--listen", registry, "--admin-address", admin, "--insecure-unsigned", "--insecure-anonymous", "--insecure-plaintext"},
		"SCRIPTORIUM_ETCD_ENDPOINTS="+etcd.Endpoint(), "SCRIPTORIUM_NATS_URL="+nats.URL())
	await(t, "the registry says that nobody founded a fleet", func() bool {
		code, body := get(ctx, admin, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "run `registryd init`")
	})
	found(t, "--etcd-endpoints", etcd.Endpoint(), "--insecure-plaintext")
	await(t, "the registry is ready", func() bool { code, _ := get(ctx, admin, "/readyz"); return code == http.StatusOK })

	var agents []*daemon
	var clients []*agentclient.Client
	var admins []string
	for i := range 2 {
		sockets := filepath.Join(dir, fmt.Sprint(i))
		address := porttest.Address(t)
		agents = append(agents, run(t, "agentd", []string{"--name", fmt.Sprintf("node-%d", i), "--registry", registry, "--insecure-unsigned", "--insecure-plaintext"},
			"SCRIPTORIUM_NATS_URL="+nats.URL(), "SCRIPTORIUM_SOCKET_DIR="+sockets,
			"SCRIPTORIUM_STATE_DIR="+filepath.Join(sockets, "state"), "SCRIPTORIUM_ADMIN_ADDRESS="+address))
		admins = append(admins, address)
		client, err := agentclient.New("unix:" + filepath.Join(sockets, "grpc.sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	for i, address := range admins {
		await(t, fmt.Sprintf("agent %d is ready", i), func() bool { code, _ := get(ctx, address, "/readyz"); return code == http.StatusOK })
	}

	client, err := registryclient.Dial(registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	name := script.Name{Tenant: "acme", Script: "route"}
	if _, err := client.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: []byte("function handle() return 42 end"), Write: registryclient.Write{Author: "test"},
	}); err != nil {
		t.Fatal(err)
	}
	for i, agent := range clients {
		await(t, fmt.Sprintf("agent %d answers", i), func() bool {
			result, err := agent.Call(ctx, name.String())
			return err == nil && string(result.Values[0]) == "42"
		})
	}
	for _, page := range append(admins, admin) {
		if code, body := get(ctx, page, "/metrics"); code != http.StatusOK || !strings.Contains(body, "\nscriptorium_") {
			t.Errorf("%s/metrics: %d, and no metric of ours", page, code)
		}
	}

	// SIGTERM drains and exits with 0; the agent says good-bye, so that nobody
	// waits for it.
	if err := agents[1].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := agents[1].exit(t); code != 0 {
		t.Errorf("the agent exits with %d after SIGTERM", code)
	}
	await(t, "the agent is forgotten", func() bool {
		status, err := client.Status(ctx, name)
		return err == nil && status.Connected == 1 && status.Scripts[0].Converged
	})
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.exit(t); code != 0 {
		t.Errorf("the registry exits with %d after SIGTERM", code)
	}
	if result, err := clients[0].Call(ctx, name.String()); err != nil || string(result.Values[0]) != "42" {
		t.Errorf("without a registry: %v, %v", result, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, tt := range []struct {
		name        string
		command     string
		flags       []string
		environment string
		says        string
	}{
		{name: "unknown command", command: "nonsense", says: "nonsense"},
		{name: "an argument too many", command: "agentd", flags: []string{"nonsense"}, says: "nonsense"},
		{name: "unknown flag", command: "agentd", flags: []string{"--nonsense"}, says: "--nonsense"},
		{name: "no registry", command: "agentd", flags: []string{"--state-dir", t.TempDir()}, says: "--registry: is required"},
		{name: "bad variable", command: "registryd", environment: "SCRIPTORIUM_DRAIN_TIMEOUT=soon", says: "SCRIPTORIUM_DRAIN_TIMEOUT"},
		{name: "bad log format", command: "registryd", flags: []string{"--log-format=xml"}, says: "--log-format"},
		{name: "negative size", command: "agentd", flags: []string{"--registry=x:1", "--cache-bytes=-1"}, says: "--cache-bytes"},
		{name: "bad NATS", command: "agentd", flags: []string{"--registry=x:1", "--nats-url=foo://x"}, says: "--nats-url"},
		{name: "bad tenants", command: "agentd", flags: []string{"--registry=x:1", "--tenants=A"}, says: "--tenants"},
		{name: "bad access rule", command: "agentd", flags: []string{"--registry=x:1", "--state-dir", t.TempDir(), "--allow=who"}, says: "who"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var environment []string
			if tt.environment != "" {
				environment = []string{tt.environment}
			}
			d := run(t, tt.command, tt.flags, environment...)
			if code := d.exit(t); code != 2 || !strings.Contains(d.output.String(), tt.says) {
				t.Errorf("exit code %d, want 2, and %q in:\n%s", code, tt.says, d.output)
			}
		})
	}
}
