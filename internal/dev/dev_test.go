package dev_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/dev"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience bounds every wait; nothing is measured by it.
const patience = 30 * time.Second

// session is a `scriptorium dev` that runs on a folder of its own.
type session struct {
	t       *testing.T
	scripts string
	state   string
	lines   chan string
	stop    func()
}

// start starts dev on the folders of old, or on new ones, and waits until all is live.
func start(t *testing.T, scripts, state string, change ...func(*dev.Config)) *session {
	t.Helper()
	s := begin(t, scripts, state, change...)
	if line := s.await(`live on every agent`); !allLive(line) {
		t.Errorf("started with %q", line)
	}
	return s
}

// begin starts dev.
func begin(t *testing.T, scripts, state string, change ...func(*dev.Config)) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	s := &session{t: t, scripts: scripts, state: state, lines: make(chan string, 1000)}
	done := make(chan error, 1)
	go func() {
		defer w.Close()
		cfg := dev.Config{
			Scripts: scripts, State: state, Agents: 3, Out: w,
			Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
		for _, f := range append(change, dev.Within(patience)) {
			f(&cfg)
		}
		done <- dev.Run(ctx, cfg)
	}()
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	stopped := false
	s.stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("dev ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("dev does not stop")
		}
	}
	t.Cleanup(s.stop)
	return s
}

// allLive reports whether the banner's line says that all scripts are live.
func allLive(line string) bool {
	counts := regexp.MustCompile(` (\d+) of (\d+) live`).FindStringSubmatch(line)
	return counts != nil && counts[1] == counts[2]
}

// await returns the first line from now on that matches.
func (s *session) await(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	var others []string
	for {
		select {
		case line := <-s.lines:
			if re.MatchString(line) {
				return line
			}
			others = append(others, line)
		case <-timeout:
			s.t.Fatalf("no line matches %s; there were:\n%s", pattern, strings.Join(others, "\n"))
		}
	}
}

func (s *session) write(name, text string) {
	s.t.Helper()
	// As an editor saves: another file that takes the old one's place.
	temporary := filepath.Join(s.scripts, "."+name+".swp")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(s.scripts, name)); err != nil {
		s.t.Fatal(err)
	}
}

// answers are what each agent answers.
func (s *session) answers(ref string) (all []string) {
	s.t.Helper()
	for _, agent := range []string{"agent-1", "agent-2", "agent-3"} {
		client, err := agentclient.New("unix:" + filepath.Join(s.state, agent, "grpc.sock"))
		if err != nil {
			s.t.Fatal(err)
		}
		defer client.Close()
		result, err := client.Call(s.t.Context(), ref)
		if err != nil {
			all = append(all, string(script.KindOf(err)))
			continue
		}
		all = append(all, string(result.Values[0]))
	}
	return all
}

func (s *session) wantAnswers(ref, want string) {
	s.t.Helper()
	for i, got := range s.answers(ref) {
		if got != want {
			s.t.Errorf("agent-%d answers %s with %s, want %s", i+1, ref, got, want)
		}
	}
}

func manifest(name, spec string) string {
	return "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata:\n  name: " + name + "\nspec:\n  tenantId: acme\n  limits: {timeout: 10s}\n" + spec
}

func returning(n string) string { return "function handle()\n  return " + n + "\nend\n" }

func TestEditingTheFolder(t *testing.T) {
	scripts := t.TempDir()
	state := shortTempDir(t)
	if err := os.WriteFile(filepath.Join(scripts, "one.lua"), []byte(returning("1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scripts, "one.yaml"), []byte(manifest("one", "  sourceFile: one.lua\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, scripts, state)
	s.wantAnswers("acme/one", "1")

	s.write("one.lua", returning("2"))
	s.await(`^acme/one v2 sha256:[0-9a-f]{8} active on 3/3 agents in [0-9.]+ ms$`)
	s.wantAnswers("acme/one", "2")

	s.write("one.lua", "function handle()\n  return (\nend\n")
	s.await(`one\.lua:3(:\d+)?: .*end`)
	s.wantAnswers("acme/one", "2")

	s.write("two.yaml", manifest("two", "  source: |\n    function handle() return 22 end\n"))
	s.await(`^acme/two v1 .* active on 3/3`)
	s.wantAnswers("acme/two", "22")

	s.write("two.yaml", manifest("two", "  sourcce: x\n"))
	s.await(`two\.yaml:\d+:\d+: .*sourcce`)
	s.wantAnswers("acme/two", "22") // a broken manifest is not a removed one

	if err := os.Remove(filepath.Join(scripts, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	s.await(`^acme/two deleted on 3/3 agents$`)
	s.wantAnswers("acme/two", "NOTFOUND")

	s.write("one.lua", returning("3"))
	s.await(`^acme/one v3 `)
	s.wantAnswers("acme/one", "3")
}

func TestRestartContinues(t *testing.T) {
	scripts := t.TempDir()
	state := shortTempDir(t)
	for name, n := range map[string]string{"kept": "1", "removed": "2"} {
		text := manifest(name, "  source: |\n    function handle() return "+n+" end\n")
		if err := os.WriteFile(filepath.Join(scripts, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := start(t, scripts, state)
	first.write("kept.yaml", manifest("kept", "  source: |\n    function handle() return 10 end\n"))
	first.await(`^acme/kept v2 `)
	first.stop()

	if err := os.Remove(filepath.Join(scripts, "removed.yaml")); err != nil {
		t.Fatal(err)
	}
	second := start(t, scripts, state)
	second.wantAnswers("acme/kept", "10") // and the deletion was said before the banner
	second.wantAnswers("acme/kept@1", "1")
	second.wantAnswers("acme/removed", "NOTFOUND")
	second.write("kept.yaml", manifest("kept", "  source: |\n    function handle() return 30 end\n"))
	second.await(`^acme/kept v3 `) // its numbers go on
}

// TestAnotherFolder: what came from one folder is left alone by another.
func TestAnotherFolder(t *testing.T) {
	text := manifest("one", "  source: |\n    function handle() return 1 end\n")
	state, scripts := shortTempDir(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(scripts, "one.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, scripts, state).stop()

	other := start(t, t.TempDir(), state)
	other.wantAnswers("acme/one", "1")
	other.write("two.yaml", manifest("two", "  source: |\n    function handle() return 2 end\n"))
	other.await(`^acme/two v1 `)
	other.wantAnswers("acme/one", "1")
}

// TestDeletedByHand: a script that somebody deleted comes back when its manifest
// is saved.
func TestDeletedByHand(t *testing.T) {
	text := manifest("one", "  source: |\n    function handle() return 1 end\n")
	state, scripts := shortTempDir(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(scripts, "one.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, scripts, state)
	client, err := registryclient.Dial("unix:" + filepath.Join(state, "registry.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Delete(t.Context(), script.Name{Tenant: "acme", Script: "one"}, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	s.write("one.yaml", text) // the folder's first pass may have brought it back already
	s.await(`^acme/one v2 .* active on 3/3`)
	s.wantAnswers("acme/one", "1")
}

// TestDevDoesNotLiftAHold: a script that somebody holds stays where it is when its manifest is
// saved, and dev says so.
func TestDevDoesNotLiftAHold(t *testing.T) {
	scripts := t.TempDir()
	s := start(t, scripts, shortTempDir(t))
	s.write("one.yaml", manifest("one", "  source: function handle() return 1 end\n"))
	s.await(`^acme/one v1 .* active on 3/3`)
	client, err := registryclient.Dial("unix:" + filepath.Join(s.state, "registry.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, _, err := client.Pin(t.Context(), script.Name{Tenant: "acme", Script: "one"}, 1, registryclient.Write{Author: "ann", Note: "at night"}); err != nil {
		t.Fatal(err)
	}
	s.write("one.yaml", manifest("one", "  source: function handle() return 2 end\n"))
	s.await(`^acme/one v2 is stored; held at v1 by ann since .* \("at night"\): scriptctl release acme/one$`)
	s.wantAnswers("acme/one", "1")
}

// TestGates: a step waits for the source that the file names, whose answer decides.
func TestGates(t *testing.T) {
	var passes atomic.Bool
	asked := make(chan struct{}, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"pass": %t, "reason": "a build is red"}`, passes.Load())
		asked <- struct{}{}
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "gates.yaml")
	text := fmt.Appendf(nil, `sources: [{name: ci, webhook: %q, insecurePlaintext: true, tenants: ["*"]}]`, hook.URL)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir(), shortTempDir(t), func(cfg *dev.Config) { cfg.Gates = file })
	const gated = "  rollout: {steps: [{percent: 30, gate: {webhook: %s}}]}\n"
	s.write("one.yaml", manifest("one", "  source: function handle() return 1 end\n"))
	s.await(`^acme/one v1 .* active on 3/3`)
	s.write("one.yaml", manifest("one", "  source: function handle() return 2 end\n"+fmt.Sprintf(gated, "other")))
	s.await(`no gate webhook/other for tenant acme: name one of webhook/ci`)
	s.write("one.yaml", manifest("one", "  source: function handle() return 2 end\n"+fmt.Sprintf(gated, "ci")))
	<-asked
	if all := s.answers("acme/one"); !slices.Contains(all, "1") || !slices.Contains(all, "2") {
		t.Errorf("in the step the agents answer %v", all)
	}
	passes.Store(true)
	s.await(`^acme/one v2 .* active on 3/3`)
	s.wantAnswers("acme/one", "2")
}

// TestFailedCandidates: a version that does not pass its tests holds nothing up, and dev
// says why it is not live.
func TestFailedCandidates(t *testing.T) {
	scripts := t.TempDir()
	const tests = "  tests:\n  - {name: answers, expect: 1}\n"
	for name, n := range map[string]string{"good": "1", "bad": "2"} {
		text := manifest(name, "  source: function handle() return "+n+" end\n"+tests)
		if err := os.WriteFile(filepath.Join(scripts, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := begin(t, scripts, shortTempDir(t))
	s.await(`^acme/bad v1 was given up, and nothing is active: .*answers`)
	s.await(` 1 of 2 live on every agent`)
	s.write("good.yaml", manifest("good", "  source: function handle() return 3 end\n"+tests))
	s.await(`^acme/good v2 was given up, and v1 stays active: .*answers`)
	s.wantAnswers("acme/good", "1")
	s.write("bad.yaml", manifest("bad", "  source: function handle() return 1 end\n"+tests))
	s.await(`^acme/bad v2 .* active on 3/3`)
}

// TestStoppedAtTheStart: whoever stops it while it publishes is not shown a fault for each
// manifest that is left.
func TestStoppedAtTheStart(t *testing.T) {
	scripts := t.TempDir()
	for i := range 1000 {
		text := manifest(fmt.Sprint("s", i), "  source: function handle() return 1 end\n")
		if err := os.WriteFile(filepath.Join(scripts, fmt.Sprint(i, ".yaml")), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := begin(t, scripts, shortTempDir(t))
	s.await(`^publishing the 1000 manifests of |live on every agent`)
	s.stop()
	faults := 0
	for len(s.lines) > 0 {
		if line := <-s.lines; strings.Contains(line, ".yaml: ") {
			faults++
		}
	}
	if faults > 1 { // that which was under way
		t.Errorf("%d manifests are at fault", faults)
	}
}

// TestReadme: what README shows of the first minutes happens, with a copy of the examples.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\$ (sed -i '.*?' my-scripts/\S+).*\n(acme/greet v2 \S+ active on 3/3 agents) in `).FindStringSubmatch(string(readme))
	if shown == nil {
		t.Fatal("README shows no edit of a script and what comes of it")
	}
	work := t.TempDir()
	scripts := filepath.Join(work, "my-scripts")
	if err := os.CopyFS(scripts, os.DirFS("../../examples/scripts")); err != nil {
		t.Fatal(err)
	}
	s := start(t, scripts, shortTempDir(t))
	edit := exec.CommandContext(t.Context(), "sh", "-c", shown[1])
	edit.Dir = work
	if out, err := edit.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v, %s", shown[1], err, out)
	}
	s.await("^" + regexp.QuoteMeta(shown[2]) + " in ")
}

func TestOneFolderOneProcess(t *testing.T) {
	s := start(t, t.TempDir(), shortTempDir(t))
	err := dev.Run(t.Context(), dev.Config{Scripts: s.scripts, State: s.state, Agents: 1, Out: io.Discard, Log: slog.New(slog.DiscardHandler)})
	if e := script.AsError(err); e == nil || e.Field != "--state" || !strings.Contains(e.Message, "in use") {
		t.Errorf("a second process on the same folder: %v", err)
	}
}

// shortTempDir returns a folder whose path leaves room for a socket's.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dev")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
