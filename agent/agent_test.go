package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// echo is an engine whose programs return their source, or fail if that begins so.
type echo struct{}

func (echo) Name() string { return "echo" }

func (echo) Check(src engine.Source) error {
	if strings.HasPrefix(string(src.Code), "bad") {
		return &script.Error{Kind: script.Script, Message: "does not compile", Line: 1, Column: 1}
	}
	return nil
}

func (e echo) Compile(src engine.Source) (engine.Program, error) {
	return echoProgram(src.Code), e.Check(src)
}

type echoProgram string

func (p echoProgram) Run(_ context.Context, _ *engine.Invocation, res *engine.Result) error {
	if strings.HasPrefix(string(p), "fail") {
		return &script.Error{Kind: script.Script, Message: "it fails", Line: 2}
	}
	return res.Append(func(dst []byte) ([]byte, error) { return append(dst, p...), nil })
}

func (p echoProgram) OnResponse() bool { return false }

func (p echoProgram) Size() int { return len(p) }

func (echoProgram) Close() {}

// node is an agent that runs until it is stopped.
type node struct {
	*agent.Agent
	stop func()
}

func startNode(t *testing.T, r *registry, dir string, configure ...func(*agent.Config)) *node {
	t.Helper()
	return runNode(t, openNode(t, r, dir, configure...))
}

func openNode(t *testing.T, r *registry, dir string, configure ...func(*agent.Config)) *agent.Agent {
	t.Helper()
	cfg := agent.Config{
		Name: "node-1", Dir: dir, Registry: "unix:" + filepath.Join(r.dir, socketName), NATS: []string{"nats://" + r.addr},
		Trusted: seal.NewKeyring(publicOf(1)),
		Engines: []engine.Engine{echo{}}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}
	for _, c := range configure {
		c(&cfg)
	}
	a, err := agent.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func runNode(t *testing.T, a *agent.Agent) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return &node{Agent: a, stop: stop}
}

func (n *node) call(t *testing.T, ref string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var reply gateway.Reply
	if err := n.Executor().Execute(ctx, &gateway.Call{Script: ref}, &reply); err != nil {
		return "", err
	}
	return string(reply.Value(0)), nil
}

// eventually waits for ok, and beacons meanwhile.
func eventually(t *testing.T, r *registry, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for n := 0; !ok(); n++ {
		if n%20 == 0 {
			r.beacon()
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func (n *node) answers(t *testing.T, r *registry, ref, want string) {
	t.Helper()
	eventually(t, r, ref+" answers "+want, func() bool {
		got, err := n.call(t, ref)
		return err == nil && got == want
	})
}

func TestOneNode(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", "one")
	r.publish("route", "two")
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/route", "two")
	if !n.Ready() {
		t.Error("not ready")
	}
	eventually(t, r, "the registry is heard", func() bool { return n.Degraded(time.Now()) == "" })
	if why := n.Degraded(time.Now().Add(time.Minute)); !strings.Contains(why, "not heard for") {
		t.Errorf("a minute later without a word of the registry: degraded %q", why)
	}
	// Never active here: it is fetched when it is called.
	n.answers(t, r, "acme/route@1", "one")

	revision := r.publish("route", "three")
	r.publish("other", "more")
	n.answers(t, r, "acme/route", "three")
	n.answers(t, r, "acme/other", "more")
	eventually(t, r, "the position covers it", func() bool {
		at := n.Executor().Position()
		return at.Revision >= revision && at.Staleness >= 0
	})

	r.publish("route", "bad")
	last := r.publish("other", "after")
	eventually(t, r, "the revision", func() bool { return n.Executor().Position().Revision == last })
	n.answers(t, r, "acme/route", "three")
	n.stop()

	// Everything down: from disk.
	r.stop()
	n = startNode(t, r, dir)
	if !n.Ready() {
		t.Error("not ready from disk")
	}
	if why := n.Degraded(time.Now()); !strings.Contains(why, "since the start") {
		t.Errorf("with everything down: degraded %q", why)
	}
	for ref, want := range map[string]string{"acme/route": "three", "acme/other": "after", "acme/route@1": "one", "acme/route@2": "two"} {
		if got, err := n.call(t, ref); err != nil || got != want {
			t.Errorf("%s from disk: %q, %v", ref, got, err)
		}
	}
	if at := n.Executor().Position(); at.Staleness >= 0 {
		t.Errorf("claims to be current: %+v", at)
	}

	// What is published meanwhile comes when the registry is back.
	r.mute = true
	r.publish("route", "five")
	r.publish("new", "first")
	r.publish("new", "second")
	r.mute = false
	r.start()
	n.answers(t, r, "acme/route", "five")
	n.answers(t, r, "acme/new", "second")

	r.stop()
	if _, err := n.call(t, "acme/new@1"); script.KindOf(err) != script.Unavailable {
		t.Errorf("a version that is not here, with the registry down: %v", err)
	}
	if _, err := n.call(t, "acme/new@7"); script.KindOf(err) != script.NotFound {
		t.Errorf("a version that never was: %v", err)
	}
	if list := n.Executor().List(); len(list) != 3 {
		t.Errorf("list %+v", list)
	}
}

func TestAStateFolderThatRotted(t *testing.T) {
	r := newRegistry(t)
	for i := range 20 {
		r.publish(fmt.Sprint("s", i), fmt.Sprint("source ", i))
	}
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	for i := range 20 {
		n.answers(t, r, fmt.Sprint("acme/s", i), fmt.Sprint("source ", i))
	}
	eventually(t, r, "the cursor is kept", func() bool {
		_, err := os.Stat(filepath.Join(dir, "cursor"))
		return err == nil
	})
	n.stop()

	spoil := func(path string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil(filepath.Join(dir, "releases/acme/s3"))
	digits := strings.TrimPrefix(script.DigestOf([]byte("source 4")).String(), "sha256:")
	spoil(filepath.Join(dir, "blobs", digits[:2], digits))

	n = startNode(t, r, dir)
	for i := range 20 {
		n.answers(t, r, fmt.Sprint("acme/s", i), fmt.Sprint("source ", i))
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, name := range []string{"", "a b", "a.>", "*", "a..b", ".a", strings.Repeat("x", 300)} {
		if a, err := agent.Open(agent.Config{Name: name, Dir: t.TempDir(), Registry: "unix:x", Trusted: seal.TrustEverything()}); script.KindOf(err) != script.Invalid {
			t.Errorf("%q: %v, %v", name, a, err)
		}
	}
	dir := t.TempDir()
	first, err := agent.Open(agent.Config{Name: "n", Dir: dir, Registry: "unix:x", Trusted: seal.TrustEverything(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := agent.Open(agent.Config{Name: "n", Dir: dir, Registry: "unix:x", Trusted: seal.TrustEverything()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("two agents in one folder: %v", err)
	}
}
