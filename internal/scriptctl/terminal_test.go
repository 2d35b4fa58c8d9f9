package scriptctl_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

const manifestA = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: a}
spec: {tenantId: term, limits: {timeout: 10s}, source: "function handle() return 1 end"}
`

// person runs scriptctl as somebody at a terminal does.
type person struct {
	t   *testing.T
	dir string // of the fleet
}

func (p person) run(answer string, args ...string) (out string, code int) {
	p.t.Helper()
	var buf obstest.Output
	code = scriptctl.Run(p.t.Context(), scriptctl.Streams{
		In: strings.NewReader(answer), Out: &buf, Err: &buf,
		InTerminal: true, OutTerminal: true, ErrTerminal: true,
		Size: func() (int, int) { return 100, 24 },
	}, append(args, "--registry", "unix:"+filepath.Join(p.dir, "registry.sock"), "--author", "ada"))
	return buf.String(), code
}

func (p person) publish(manifest string, flags ...string) (out string, code int) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "m.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.run("", append([]string{"publish", "-f", file}, flags...)...)
}

func TestDeleteAsks(t *testing.T) {
	p := person{t, startFleet(t, 1)}
	if out, code := p.publish(manifestA, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	for _, answer := range []string{"\n", "n\n", "no\n", "", "yess\n"} {
		out, code := p.run(answer, "delete", "term/a")
		if code != 1 || !strings.Contains(out, "Delete term/a, active in v1, with its 1 versions? [y/N]") || !strings.Contains(out, "error: term/a was not deleted") {
			t.Errorf("answer %q: exit code %d, %s", answer, code, out)
		}
	}
	if out, code := p.run("Y\n", "delete", "term/a"); code != 0 || !strings.Contains(out, "term/a deleted") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if out, code := p.run("y\n", "delete", "term/a"); code != 3 {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestWaitWithoutAgents(t *testing.T) {
	p := person{t, startFleet(t, 0)}
	out, code := p.publish(manifestA, "--wait", "--timeout", "3s")
	if code != 7 || !strings.Contains(out, "error: term/a: no agent is connected after 3s: start one, or do not --wait") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestDiffInColour(t *testing.T) {
	p := person{t, startFleet(t, 0)}
	p.publish(manifestA)
	p.publish(strings.Replace(manifestA, "return 1", "return 2", 1))
	out, code := p.run("", "diff", "term/a")
	if code != 0 || !strings.Contains(out, "\x1b[32m+function handle() return 2 end\x1b[0m\n") {
		t.Errorf("exit code %d, %q", code, out)
	}
	t.Setenv("NO_COLOR", "1")
	if out, _ := p.run("", "diff", "term/a"); strings.Contains(out, "\x1b") {
		t.Errorf("coloured in spite of NO_COLOR: %q", out)
	}
}

const manifestFailing = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: a}
spec:
  tenantId: term
  source: "function handle() return 2 end"
  tests: [{name: answers, expect: "a text that is longer than the hundred columns of the terminal which prints the reason"}]
`

// TestLongReason: the table fits the terminal, and "rollout status" has the whole reason.
func TestLongReason(t *testing.T) {
	p := person{t, startFleet(t, 3)}
	if out, code := p.publish(manifestA, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	if out, code := p.publish(manifestFailing, "--wait"); code != 7 {
		t.Fatal(code, out)
	}
	out, _ := p.run("", "status", "term/a")
	row := strings.Split(out, "\n")[1]
	if !strings.Contains(row, "3/3 ") || !strings.Contains(row, "candidate v2 failed") || !strings.Contains(row, "…") || utf8.RuneCountInString(row) > 100 {
		t.Errorf("status: %q", row)
	}
	out, _ = p.run("", "rollout", "status", "term/a")
	if !strings.Contains(out, `which prints the reason", got 2`) || !strings.Contains(out, ", attempt 1\n") || !strings.Contains(out, "\nactive:      v1 on 3/3 agents\n") ||
		strings.Count(out, ": tests[answers]: want") < 2 {
		t.Errorf("rollout status: %s", out)
	}
	if _, code := p.run("", "rollback", "term/a", "--wait"); code != 0 {
		t.Fatal(code)
	}
}

const manifestGarbling = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: a}
spec:
  tenantId: term
  source: "function handle() error('\\27[2J\\194\\155') end -- \e[2J \u009b2J"
  config: {a: "\u009b2J"}
  tests: [{name: answers}]
`

// TestNobodyGarblesATerminal: what a publisher or a script has written cannot move the cursor of who
// looks at it.
func TestNobodyGarblesATerminal(t *testing.T) {
	p := person{t, startFleet(t, 1)}
	p.publish(manifestA, "--wait")
	if out, code := p.publish(manifestGarbling, "--wait"); code != 7 || strings.ContainsAny(out, "\u009b") {
		t.Fatalf("exit code %d, %q", code, out)
	}
	t.Setenv("SCRIPTORIUM_AGENT", filepath.Join(p.dir, "agent-1", "grpc.sock"))
	t.Setenv("NO_COLOR", "1")
	for _, args := range [][]string{
		{"diff", "term/a", "1", "2"},
		{"call", "term/a@2"},
		{"status"},
		{"get", "term/a"},
		{"get", "term/a@2"},
		{"list"},
		{"rollout", "status", "term/a"},
		{"rollout", "explain", "term/a"},
		{"history", "term/a"},
		{"hold", "term/a", "--note", "why"},
		{"rollout", "approve", "term/a"},
		{"release", "term/a"},
		{"pin", "term/a", "7"},
	} {
		out, _ := p.run("", args...)
		if strings.ContainsAny(out, "\x1b\u009b") || out == "" {
			t.Errorf("%v: %q", args, out)
		}
	}
}

// TestStatusOnANarrowTerminal: no line is wider than the terminal, and the reason has room.
func TestStatusOnANarrowTerminal(t *testing.T) {
	p := person{t, startFleet(t, 1)}
	if out, code := p.publish(manifestA, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	if out, code := p.publish(strings.Replace(manifestA, "return 1 end\"", "return 2 end\", rollout: {steps: [{percent: 10, approval: true}]}", 1)); code != 0 {
		t.Fatal(code, out)
	}
	for width, want := range map[int]string{80: "STATUS", 200: "P99"} {
		var buf obstest.Output
		scriptctl.Run(t.Context(), scriptctl.Streams{
			In: strings.NewReader(""), Out: &buf, Err: &buf, OutTerminal: true, Size: func() (int, int) { return width, 24 },
		}, []string{"status", "--registry", "unix:" + filepath.Join(p.dir, "registry.sock")})
		out := buf.String()
		heading, _, _ := strings.Cut(out, "\n")
		if !strings.Contains(heading, want) || !strings.Contains(out, "candidate v2 ") {
			t.Errorf("%d columns:\n%s", width, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d runes on %d columns: %s", n, width, line)
			}
		}
	}
}

// watch runs "status --watch" until it printed a line with each of want, in
// turn; each step happens before its line is waited for.
func watch(t *testing.T, dir string, terminal bool, steps []func(), want []string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{
			In: strings.NewReader(""), Out: w, Err: w, OutTerminal: terminal, ErrTerminal: terminal,
			Size: func() (int, int) { return 120, 24 },
		}, []string{"status", "--watch", "term", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	for i, line := range want {
		go steps[i]()
		for lines.Scan() && !strings.Contains(lines.Text(), line) {
		}
		if !strings.Contains(lines.Text(), line) {
			t.Fatalf("the watch ended before %q", line)
		}
	}
	cancel()
	go io.Copy(io.Discard, r)
	if c := <-code; c != 0 {
		t.Errorf("exit code %d after an interrupt, want 0", c)
	}
}

func TestWatch(t *testing.T) {
	p := person{t, startFleet(t, 1)}
	if out, code := p.publish(manifestA, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	nothing := func() {}
	publish := func() { p.publish(strings.Replace(manifestA, "return 1", "return 2", 1)) }
	release := func() { p.run("", "release", "term/a") }
	pin := func() { p.run("", "pin", "term/a", "1") }
	disable := func() { p.run("", "disable", "term/a") }
	remove := func() { p.run("", "delete", "term/a", "--yes") }
	watch(t, p.dir, false,
		[]func(){nothing, publish, pin},
		[]string{"term/a v1 sha256:", "term/a v2 sha256:", "on 1/1 agents"})
	watch(t, p.dir, true,
		[]func(){nothing, release},
		[]string{"SCRIPT ", "term/a  v2       sha256:"})
	watch(t, p.dir, false,
		[]func(){nothing, disable, remove},
		[]string{"term/a v2", "disabled on 1/1 agents", "term/a is gone"})
}
