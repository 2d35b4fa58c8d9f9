package hostile

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
)

// allowed are the agent's rules.
var allowed = []string{"--allow", "uid:0=*", "--allow", "uid:4001=acme,iso", "--allow", "uid:4002=acme,iso"}

const patience = time.Minute // bounds every wait; nothing is measured by it

// agent is the agent's process, and the rest of the fleet in this one.
type agent struct {
	t     *testing.T
	dir   string
	admin string // its address
	pid   int
	ended chan struct{}
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
	a := &agent{t: t, dir: filepath.Join(dir, "a"), admin: porttest.Address(t), ended: make(chan struct{})}
	a.start(append([]string{
		"agentd", "--name", "a", "--state-dir", filepath.Join(dir, "state"), "--socket-dir", a.dir, "--admin-address", a.admin,
		"--registry", stack.RegistryTarget(), "--nats-url", stack.NATSURL(), "--counter-metrics", "--log-format", "text",
	}, append(stack.AgentFlags(), allowed...)...))
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
				Settings: &script.Settings{Limits: script.Limits{Timeout: 10 * time.Second, StringBytes: mib, ResultBytes: mib}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (a *agent) start(args []string) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = a.t.Output(), a.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		close(a.ended)
	}()
	a.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-a.ended
	})
	for _, socket := range []string{"resp", "http", "grpc", "iso/resp", "iso/http", "iso/grpc"} {
		a.await(socket+" answers", func() bool { return os.Chmod(a.path(socket), 0o666) == nil && a.echo(socket) == nil })
	}
}

// path of a socket: "resp", or "iso/resp" for one of the tenant's own.
func (a *agent) path(socket string) string {
	if own, ok := strings.CutPrefix(socket, "iso/"); ok {
		return filepath.Join(a.dir, "tenants", "iso", own+".sock")
	}
	return filepath.Join(a.dir, socket+".sock")
}

// await waits until something is so.
func (a *agent) await(what string, so func() bool) {
	a.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-a.ended:
			a.t.Fatal("the agent has ended")
		case <-deadline.C:
			a.t.Fatalf("not in time: %s", what)
		}
	}
}

// processes returns the agent's process and those of tenants.
func (a *agent) processes() []int {
	pids := []int{a.pid}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.pid))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// resident returns the memory of a process in bytes.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// descriptors returns how many a process has.
func descriptors(pid int) int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(all)
}

// free has the agent give free memory back.
func (a *agent) free() {
	if err := unix.Kill(a.pid, unix.SIGUSR1); err != nil {
		a.t.Fatal(err)
	}
}

// get asks over HTTP on a connection of its own.
func get(network, address, path string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	client := http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Get("http://agent" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %.200s", path, resp.Status, body)
	}
	return string(body), err
}

// metric returns the sum of a metric of the agent.
func (a *agent) metric(name string) float64 {
	text, err := get("unix", a.path("http"), "/metrics")
	if err != nil {
		a.t.Errorf("read the metrics: %v", err)
		return 0
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); base == name {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum
}
