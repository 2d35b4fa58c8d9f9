package agentclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// agent is an agent's socket that can be stopped and started again.
type agent struct {
	t      testing.TB
	path   string
	x      gateway.Executor
	server *grpcsock.Server
	served chan error
}

func startAgent(tb testing.TB, x gateway.Executor) *agent {
	tb.Helper()
	a := &agent{t: tb, path: filepath.Join(tb.TempDir(), "grpc.sock"), x: x}
	a.start()
	tb.Cleanup(a.stop)
	return a
}

func (a *agent) start() {
	a.t.Helper()
	l, err := gateway.Listen(a.path)
	if err != nil {
		a.t.Fatal(err)
	}
	server := grpcsock.New(grpcsock.Options{Executor: a.x, Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	a.server, a.served = server, served
	go func() { served <- server.Serve(l) }()
}

func (a *agent) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = a.server.Shutdown(ctx)
	if a.served != nil {
		<-a.served
		a.served = nil
	}
}

func newClient(tb testing.TB, path string, opts ...agentclient.Option) *agentclient.Client {
	tb.Helper()
	c, err := agentclient.New(path, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func TestCall(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	for _, target := range []string{a.path, "unix:" + a.path, "unix://" + a.path} {
		c := newClient(t, target)
		got, err := c.Call(t.Context(), "acme/echo", map[string]int{"a": 1}, json.RawMessage(`[ ]`), nil, "text", 2.5)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, v := range got.Values {
			texts = append(texts, string(v))
		}
		if text := strings.Join(texts, " "); text != `{"a":1} [ ] null "text" 2.5` {
			t.Errorf("got %s", text)
		}
		if got.Version != 7 || got.Digest != gatewaytest.DigestOf(script.Name{Tenant: "acme", Script: "echo"}) || got.Staleness != gatewaytest.Staleness {
			t.Errorf("got %+v", got)
		}
		var m map[string]int
		if err := got.Decode(0, &m); err != nil || m["a"] != 1 {
			t.Errorf("got %v, %v", m, err)
		}
		if err := got.Decode(3, &m); script.KindOf(err) != script.Invalid {
			t.Errorf("a string decoded into a map: %v", err)
		}
		if err := got.Decode(5, &m); script.KindOf(err) != script.Invalid {
			t.Errorf("the sixth of five: %v", err)
		}
	}
}

func TestErrors(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path)
	for _, kind := range []script.Kind{
		script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit, script.Overloaded,
		script.Denied, script.Invalid, script.Unavailable, script.Internal,
	} {
		_, err := c.Call(t.Context(), "acme/kind", string(kind))
		if e, ok := errors.AsType[*script.Error](err); !ok || e.Kind != kind || e.Message != "as asked for" {
			t.Errorf("%s came as %v", kind, err)
		}
	}
	_, err := c.Call(t.Context(), "acme/fail")
	if e := script.AsError(err); e.Kind != script.Script || e.Line != 3 {
		t.Errorf("error %+v", e)
	}
	if _, err := c.Call(t.Context(), "acme/echo", make(chan int)); script.KindOf(err) != script.Invalid {
		t.Errorf("a channel as an argument: %v", err)
	}
	if _, err := c.Call(t.Context(), "acme/echo", 1); err != nil {
		t.Errorf("after the errors: %v", err)
	}
}

func TestTraceparent(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path)
	got, err := c.Call(agentclient.ContextWithTraceparent(t.Context(), "00-ab"), "acme/trace")
	if err != nil || string(got.Values[0]) != `"00-ab"` {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestKey(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/key", gatewaytest.Key)
	c := newClient(t, startAgent(t, x).path)
	got, err := c.Call(agentclient.ContextWithKey(t.Context(), "ann"), "acme/key")
	if err != nil || string(got.Values[0]) != `{"allow":false,"body":"ann, no request"}` {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestDeadlines(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path, agentclient.WithTimeout(10*time.Millisecond))
	if _, err := c.Call(t.Context(), "acme/wait"); script.KindOf(err) != script.Timeout {
		t.Errorf("the client's own timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "acme/wait"); script.KindOf(err) != script.Timeout {
		t.Errorf("a deadline: %v", err)
	}
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelLate()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	because, giveUp := context.WithCancelCause(t.Context())
	giveUp(errors.New("the request was answered from the cache"))
	for _, tt := range []struct {
		ctx   context.Context
		says  string
		cause error
	}{
		{late, "the call's time ran out", context.DeadlineExceeded},
		{canceled, "the call was canceled by its caller", context.Canceled},
		{because, "the call was given up by its caller: the request was answered from the cache", context.Cause(because)},
	} {
		_, err := c.Call(tt.ctx, "acme/echo")
		if script.KindOf(err) != script.Timeout || err.Error() != tt.says || !errors.Is(err, tt.cause) {
			t.Errorf("a call got %v, want %q", err, tt.says)
		}
		if _, err := c.List(tt.ctx, agentclient.ListOptions{}); script.KindOf(err) != script.Timeout || err.Error() != tt.says {
			t.Errorf("a list got %v, want %q", err, tt.says)
		}
	}
	patient, cancelPatient := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelPatient()
	if _, err := c.Call(patient, "acme/echo", 1); err != nil {
		t.Errorf("after the timeouts: %v", err)
	}
}

func TestCancelWhileTheScriptRuns(t *testing.T) {
	x := gatewaytest.New()
	begun, ended := make(chan struct{}), make(chan struct{})
	x.Set("acme/slow", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	c := newClient(t, startAgent(t, x).path)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.Call(ctx, "acme/slow"); !errors.Is(err, context.Canceled) || script.KindOf(err) != script.Timeout {
		t.Errorf("error %v", err)
	}
	<-ended // the agent noticed
}

func TestManyCallers(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path, agentclient.WithConnections(2), agentclient.WithConcurrency(4))
	var callers sync.WaitGroup
	for caller := range 32 {
		callers.Go(func() {
			for i := range 100 {
				want := fmt.Sprintf("%d-%d", caller, i)
				result, err := c.Call(t.Context(), "acme/echo", want)
				if err != nil {
					t.Error(err)
					return
				}
				var got string
				if err := result.Decode(0, &got); err != nil || got != want {
					t.Errorf("got %q, want %q (%v)", got, want, err)
				}
			}
		})
	}
	callers.Wait()
}

func TestNoAgent(t *testing.T) {
	c := newClient(t, filepath.Join(t.TempDir(), "grpc.sock"))
	_, err := c.Call(t.Context(), "acme/echo")
	if script.KindOf(err) != script.Unavailable {
		t.Errorf("error %v", err)
	}
}

func TestBadTargets(t *testing.T) {
	if _, err := agentclient.New(""); script.KindOf(err) != script.Invalid {
		t.Errorf("error %v", err)
	}
	if _, err := agentclient.New("/x", agentclient.WithConnections(0)); script.KindOf(err) != script.Invalid {
		t.Errorf("error %v", err)
	}
}

// TestRestart: calls go on over an agent's restart, but for the moment without
// one, and none runs twice.
func TestRestart(t *testing.T) {
	x := gatewaytest.New()
	var runs atomic.Int64
	x.Set("acme/count", func(context.Context, *gateway.Call) ([][]byte, error) {
		runs.Add(1)
		return nil, nil
	})
	a := startAgent(t, x)
	c := newClient(t, a.path)
	var answered int64
	for range 5 {
		var burst sync.WaitGroup // leaves several idle streams behind
		for range 16 {
			burst.Go(func() {
				if _, err := c.Call(t.Context(), "acme/count"); err != nil {
					t.Errorf("while the agent ran: %v", err)
				}
			})
		}
		burst.Wait()
		answered += 16
		a.stop()
		if _, err := c.Call(t.Context(), "acme/count"); script.KindOf(err) != script.Unavailable {
			t.Errorf("while there was no agent: %v", err)
		}
		a.start()
		for {
			_, err := c.Call(t.Context(), "acme/count")
			if err == nil {
				answered++
				break
			}
			if script.KindOf(err) != script.Unavailable {
				t.Fatalf("after the restart: %v", err)
			}
		}
	}
	if runs.Load() != answered {
		t.Errorf("%d calls were answered, but %d ran", answered, runs.Load())
	}
}

// TestACallThatMayHaveRunIsNotRepeated kills the agent during a call.
func TestACallThatMayHaveRunIsNotRepeated(t *testing.T) {
	x := gatewaytest.New()
	var runs atomic.Int64
	begun := make(chan struct{}, 10)
	x.Set("acme/slow", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		runs.Add(1)
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	a := startAgent(t, x)
	c := newClient(t, a.path)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "acme/slow")
		failed <- err
	}()
	<-begun
	now, cancel := context.WithCancel(t.Context())
	cancel()
	_ = a.server.Shutdown(now) // ends what runs at once
	<-a.served
	a.start()
	if err := <-failed; err == nil {
		t.Error("the call succeeded")
	}
	if runs.Load() != 1 {
		t.Errorf("the call ran %d times", runs.Load())
	}
}

func TestList(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path)
	list, err := c.List(t.Context(), agentclient.ListOptions{Tenant: "acme"})
	if err != nil || len(list) == 0 {
		t.Fatalf("got %v, %v", list, err)
	}
	if s := list[0]; s.Name.String() != "acme/echo" || s.Active.Number != 7 || !s.Enabled || s.Trigger.Event != "http-request" {
		t.Errorf("got %+v", s)
	}
	if list, err := c.List(t.Context(), agentclient.ListOptions{Event: "other"}); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestClose(t *testing.T) {
	a := startAgent(t, gatewaytest.New())
	c := newClient(t, a.path)
	if _, err := c.Call(t.Context(), "acme/echo"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), "acme/echo"); err == nil {
		t.Error("a call after Close succeeded")
	}
}

func BenchmarkCall(b *testing.B) {
	c := newClient(b, startAgent(b, gatewaytest.New()).path)
	arg := json.RawMessage(`{"path":"/"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Call(b.Context(), "acme/echo", arg); err != nil {
			b.Fatal(err)
		}
	}
}
