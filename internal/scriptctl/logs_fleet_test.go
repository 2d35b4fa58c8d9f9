package scriptctl_test

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

const talker = `
apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: talker}
spec:
  tenantId: term
  limits: {timeout: 10s}
  source: |
    function handle(who)
      log.info("hello " .. who)
      log.warn("beta users: " .. kv.get("beta"))
    end
`

// TestLogsOfAFleet reads along with scripts on real agents, through an outage of NATS.
func TestLogsOfAFleet(t *testing.T) {
	stack, dir := startStack(t, 2)
	p := person{t, dir}
	p.must("kv", "put", "term/beta", "ann, bo")
	if out, code := p.publish(talker, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: w, Err: w},
			[]string{"logs", "-f", "term/talker", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	await := func(wants ...string) {
		t.Helper()
		for lines.Scan() {
			found := true
			for _, want := range wants {
				found = found && strings.Contains(lines.Text(), want)
			}
			if found {
				return
			}
		}
		t.Fatalf("the logs ended before %q", wants)
	}
	await("listening to term/talker")
	// Agents hear a moment later that somebody reads: who calls again and again is heard.
	call := func(agent string) func() {
		ctx, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			ticker := time.NewTicker(50 * time.Millisecond)
			defer ticker.Stop()
			for ctx.Err() == nil {
				p.run("", "call", "term/talker", `"you"`, "--agent", agent)
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		}()
		return func() { stop(); <-done }
	}
	for _, agent := range []string{"agent-1", "agent-2"} {
		quiet := call(agent)
		await(" "+agent+" INFO  term/talker@1 ", "hello you")
		await(" "+agent+" WARN  term/talker@1 ", "beta users: ann, bo")
		quiet()
	}
	stack.StopNATS()
	await("the registry has no connection to NATS")
	if err := stack.StartNATS(t.Context()); err != nil {
		t.Fatal(err)
	}
	await("listening again")
	quiet := call("agent-2")
	await(" agent-2 INFO  term/talker@1 ", "hello you")
	quiet()
	cancel()
	go io.Copy(io.Discard, r)
	if c := <-code; c != 0 {
		t.Errorf("exit code %d after an interrupt, want 0", c)
	}
}

// TestFollowSince shows lines of before first, then new ones, and each once.
func TestFollowSince(t *testing.T) {
	_, dir := startStack(t, 2)
	p := person{t, dir}
	p.must("kv", "put", "term/beta", "ann, bo")
	if out, code := p.publish(talker, "--wait"); code != 0 {
		t.Fatal(code, out)
	}
	p.must("call", "term/talker", `"early bird"`, "--agent", "agent-1")
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: w, Err: w},
			[]string{"logs", "-f", "term/talker", "--since", "1h", "--grep", "hello", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
	}
	next("listening to term/talker")
	next(" agent-1 INFO  term/talker@1 hello early bird")
	// It has asked for new lines before it showed those.
	for _, who := range []string{"one", "two"} {
		p.must("call", "term/talker", `"`+who+`"`, "--agent", "agent-2")
		next(" agent-2 INFO  term/talker@1 hello " + who)
	}
	cancel()
	go io.Copy(io.Discard, r)
	if c := <-code; c != 0 {
		t.Errorf("exit code %d after an interrupt, want 0", c)
	}
}
