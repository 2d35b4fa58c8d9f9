package embed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/embed"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTwoAgents are two of the fleet. Each goes on when the other is closed, and they share no folder.
func TestTwoAgents(t *testing.T) {
	w := localtest.Start(t, 0)
	one, two := w.Embed(t, "one"), w.Embed(t, "two")
	w.Publish(t, localtest.Manifest("greet", greet), 2)
	says(t, one, "Hello, ann")
	says(t, two, "Hello, ann")

	same := w.Embedded(t, "two")
	same.Name, same.StateDir = "three", same.StateDir+"/../two/."
	if third, err := embed.Start(t.Context(), same); err == nil {
		t.Error("two agents have one folder", third.Close(t.Context()))
	} else if e := script.AsError(err); e.Kind != script.Invalid || e.Field != "state_dir" || !strings.Contains(e.Message, "in use by another agent") || !strings.Contains(e.Message, "this one") || !strings.Contains(e.Message, "own") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	w.Publish(t, localtest.Manifest("greet", strings.Replace(greet, "Hello", "Welcome", 1)), 2)
	says(t, one, "Welcome, ann")
	says(t, two, "Welcome, ann")

	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Publish(t, localtest.Manifest("greet", strings.Replace(greet, "Hello", "Good day", 1)), 1)
	says(t, two, "Good day, ann")
}

// TestCloseWhileCallsRun: each call ends with its result or says that the agent is closed. Nothing stays.
func TestCloseWhileCallsRun(t *testing.T) {
	w := localtest.Start(t, 0)
	w.Publish(t, localtest.Manifest("greet", greet), 0)
	w.Publish(t, localtest.Manifest("spins", `function handle() while true do end end`), 0)
	cycle(t, w) // what the first agent of a process starts for all stays
	before := localtest.Hold()
	for range 3 {
		cycle(t, w)
	}
	localtest.Settle(t, before)
}

// cycle starts an agent, and closes it twice while calls run.
func cycle(t *testing.T, w *localtest.World) {
	t.Helper()
	a := start(t, w.Embedded(t, "shop"))
	gate, err := middleware.New(a, middleware.Rule{Script: "acme/greet"})
	if err != nil {
		t.Fatal(err)
	}
	var calls, begun sync.WaitGroup
	refused := make(chan struct{}, 3)
	for _, call := range []func() error{
		func() error { _, err := a.Call(t.Context(), "acme/greet", "ann"); return err },
		func() error { _, err := a.Call(t.Context(), "acme/spins"); return err },
		func() error { return reasonOf(gate.Decide(nil, get(t), "192.0.2.7")) },
	} {
		begun.Add(1)
		calls.Go(func() {
			for first := true; ; first = false {
				err := call()
				if first {
					begun.Done()
				}
				switch kind := script.KindOf(err); {
				case err == nil, kind == script.Timeout, kind == script.Limit, kind == script.Script, kind == script.Overloaded, kind == script.Invalid:
				case kind == script.Unavailable:
					refused <- struct{}{}
					return
				default:
					t.Errorf("a call fails: %v", err)
					return
				}
			}
		})
	}
	begun.Wait()
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(func() {
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	calls.Wait()
	closed(t, a)
}

// reasonOf returns the reason of a decision as an error.
func reasonOf(d *middleware.Decision) error {
	if d.Reason == "" {
		return nil
	}
	return script.Errorf(script.Kind(d.Reason), "", "no decision")
}

// closed tests that a closed agent refuses all clearly.
func closed(t *testing.T, a *embed.Agent) {
	t.Helper()
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("closed again: %v", err)
	}
	for what, call := range map[string]func() error{
		"a call":     func() error { _, err := a.Call(t.Context(), "acme/greet", "ann"); return err },
		"an old one": func() error { _, err := a.Call(t.Context(), "acme/greet@1", "ann"); return err },
		"Execute":    func() error { return a.Execute(t.Context(), &gateway.Call{Script: "acme/greet"}, new(gateway.Reply)) },
		"Ready":      a.Ready,
		"WaitReady":  func() error { return a.WaitReady(t.Context()) },
		"Degraded":   func() error { return script.Errorf(script.Unavailable, "", "%s", a.Degraded()) },
		"a decision": func() error {
			_, err := a.Decide(t.Context(), &middleware.Rule{Script: "acme/greet"}, &middleware.Request{Request: get(t)})
			return err
		},
	} {
		if err := call(); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "the agent is closed") {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	_, _, _ = a.Scripts(), a.Position(), a.Name()
}

// TestCloseInAHurry: Close gives up a call in flight. The call ends by its own limits, and the folder is free at once.
func TestCloseInAHurry(t *testing.T) {
	w := localtest.Start(t, 0)
	a := start(t, w.Embedded(t, "shop"))
	w.Publish(t, localtest.Manifest("spins", `function handle() while true do end end`), 1)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Call(context.WithoutCancel(t.Context()), "acme/spins")
		ended <- err
	}()
	for running(t, a) == 0 {
		runtime.Gosched()
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for range 2 {
		if err := a.Close(ctx); !errors.Is(err, gone) || !strings.Contains(err.Error(), "calls were in flight") {
			t.Errorf("closed with %v", err)
		}
	}
	again := start(t, w.Embedded(t, "shop"))
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
	switch err := <-ended; script.KindOf(err) {
	case script.Timeout, script.Limit, script.Unavailable:
	default:
		t.Errorf("the call in flight: %v", err)
	}
}

// TestCloseWithoutTime: Close says that calls were in flight only if some were, such as after a start that
// took too long.
func TestCloseWithoutTime(t *testing.T) {
	w := localtest.Start(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		a, err := embed.Start(t.Context(), w.Embedded(t, "shop"))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(ctx); err != nil {
			t.Fatalf("closed with %v", err)
		}
		if a, err = embed.Start(ctx, w.Embedded(t, "shop")); err == nil {
			_ = a.Close(ctx) // it was current already
		} else if strings.Contains(err.Error(), "in flight") {
			t.Fatalf("started with %v", err)
		}
	}
}

// start starts an agent that the test closes.
func start(t *testing.T, cfg embed.Config) *embed.Agent {
	t.Helper()
	a, err := embed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// running returns how many calls run, as the metric says.
func running(t *testing.T, a *embed.Agent) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "scriptorium_agent_calls_running" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no metric says how many calls run")
	return 0
}

func get(t *testing.T) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.example/", http.NoBody)
}
