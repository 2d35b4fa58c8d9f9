package scriptctl_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/script"
)

var update = flag.Bool("update", false, "rewrite what the scripts in testdata expect")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"scriptctl":           program,
		"kubectl-scriptorium": program,
	})
}

func program() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := scriptctl.RunProgram(ctx, scriptctl.Standard(), os.Args[0], os.Args[1:])
	stop()
	os.Exit(code)
}

// startFleet starts a real registry (on etcd and NATS) and its agents, and
// returns the folder with their sockets once they are connected.
func startFleet(t *testing.T, agents int) string {
	t.Helper()
	_, dir := startStack(t, agents)
	return dir
}

// gates returns a file with the source webhook/ci of the tenant roll. It lets all scripts pass but the
// script shut.
func gates(t *testing.T) string {
	t.Helper()
	ci := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Script string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, `{"pass": %t, "reason": "the calendar says so\u001b[2J"}`, asked.Script != "shut")
	}))
	t.Cleanup(ci.Close)
	file := filepath.Join(t.TempDir(), "gates.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "sources: [{name: ci, webhook: %q, insecurePlaintext: true, tenants: [roll]}]", ci.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// startStack is startFleet for those who stop and start parts of it.
func startStack(t *testing.T, agents int) (stack *local.Stack, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sc") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stack, err = local.Start(t.Context(), dir, agents, slog.New(slog.DiscardHandler), local.WithGates(gates(t)), local.WithNATSPort(porttest.Port(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	awaitConnected(t, stack, agents)
	return stack, dir
}

// awaitConnected waits until the registry hears so many agents.
func awaitConnected(t *testing.T, stack *local.Stack, agents int) {
	t.Helper()
	client, err := registryclient.Dial(stack.RegistryTarget())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for fleet, err := range client.WatchStatus(t.Context(), script.Name{}) {
		if err != nil {
			t.Fatal(err)
		}
		if fleet.Connected == agents {
			break
		}
	}
}

// TestScripts runs the scripts in testdata against one fleet. Each uses tenants
// of its own.
func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestScriptsAlone runs those that change something for all tenants, one by one, against another
// fleet.
func TestScriptsAlone(t *testing.T) { runScripts(t, "testdata/alone") }

func runScripts(t *testing.T, scripts string) {
	t.Helper()
	dir := startFleet(t, 2)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SCRIPTORIUM_REGISTRY", "unix:"+filepath.Join(dir, "registry.sock"))
			env.Setenv("SCRIPTORIUM_AUTHOR", "ada")
			env.Setenv("FLEET", dir)
			env.Setenv("EXAMPLES", examples)
			env.Setenv("TZ", "UTC")
			env.Setenv("BAD", "not \xff text")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "await": await},
	})
}

// wantCode is "code N COMMAND…": the command exits with the code.
func wantCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	err := ts.Exec("sh", append([]string{"-c", `"$@" || code=$?; echo "${code:-0}" >exit.code`, "sh"}, args[1:]...)...)
	ts.Check(err)
	if got := ts.ReadFile("exit.code"); got != args[0]+"\n" {
		ts.Fatalf("exit code %swant %s", got, args[0])
	}
}

// await is "await PATTERN COMMAND…": the command is run until a line of its output
// matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND…")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(30 * time.Second)
	for {
		ts.Check(ts.Exec(args[1], args[2:]...))
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if pattern.MatchString(out) {
			return
		}
		select {
		case <-again.C:
		case <-late:
			ts.Fatalf("%q does not come, but\n%s", args[0], out)
		}
	}
}
