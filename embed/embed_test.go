package embed_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/embed"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const greet = `function handle(name) return "Hello, " .. name end`

// TestAnEmbeddedAgent is one of the fleet: rollouts count it, changes reach it, and it serves without
// its registry, also after a start.
func TestAnEmbeddedAgent(t *testing.T) {
	w := localtest.Start(t, 1)
	w.Publish(t, localtest.Manifest("greet", greet), 1)
	a := w.Embed(t, "shop")
	says(t, a, "Hello, ann")
	w.Publish(t, localtest.Manifest("greet", strings.Replace(greet, "Hello", "Welcome", 1)), 2)
	says(t, a, "Welcome, ann")
	result, err := a.Call(t.Context(), "acme/greet@1", "ann")
	if err != nil || string(result.Values[0]) != `"Hello, ann"` || result.Version != 1 {
		t.Errorf("the version before: %v, %v", result, err)
	}
	if _, err := a.Call(t.Context(), "acme/none"); script.KindOf(err) != script.NotFound {
		t.Errorf("a script that is not there: %v", err)
	}
	if list := a.Scripts(); len(list) != 1 || list[0].Active.Number != 2 {
		t.Errorf("scripts: %v", list)
	}
	if degraded := a.Degraded(); degraded != "" {
		t.Error(degraded)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(a.Collector())
	if families, err := registry.Gather(); len(families) < 5 || err != nil {
		t.Errorf("%d metrics, %v", len(families), err)
	}

	cfg := w.Embedded(t, "shop")
	if err := w.Stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Stack.StopNATS()
	says(t, a, "Welcome, ann")
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Call(t.Context(), "acme/greet", "ann"); script.KindOf(err) != script.Unavailable {
		t.Errorf("a call after the end: %v", err)
	}
	again, err := embed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Ready(); err != nil {
		t.Error(err)
	}
	says(t, again, "Welcome, ann")
	if again.Degraded() == "" {
		t.Error("it does not say that the registry is gone")
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func says(t *testing.T, a *embed.Agent, want string) {
	t.Helper()
	result, err := a.Call(t.Context(), "acme/greet", "ann")
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := result.Decode(0, &got); err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestLimitsHold in a program, too: what a script takes ends with its own limits, and others go on.
func TestLimitsHold(t *testing.T) {
	w := localtest.Start(t, 0)
	a := w.Embed(t, "shop")
	w.Publish(t, localtest.Manifest("greet", greet), 1)
	for name, source := range map[string]string{
		"spins": `function handle() while true do end end`,
		"grows": `function handle() local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) .. i end end`,
		"nests": `function handle() local function f() return 1 + f() end return f() end`,
	} {
		w.Publish(t, localtest.Manifest(name, source), 1)
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				_, err := a.Call(t.Context(), "acme/"+name)
				switch script.KindOf(err) {
				case script.Limit, script.Timeout, script.Script, script.Overloaded:
				default:
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		calls.Wait()
		says(t, a, "Hello, ann")
	}
}

// TestConfigErrors name the field, as its JSON does.
func TestConfigErrors(t *testing.T) {
	for field, change := range map[string]func(*embed.Config){
		"state_dir":           func(c *embed.Config) { c.StateDir = "" },
		"registry":            func(c *embed.Config) { c.Registry = "" },
		"trusted_key":         func(c *embed.Config) { c.InsecureUnsigned = false },
		"insecure_unsigned":   func(c *embed.Config) { c.TrustedKeys = []string{"x.pub"} },
		"nats_url":            func(c *embed.Config) { c.InsecurePlaintext = false },
		"registry_token_file": func(c *embed.Config) { c.RegistryTokenFile = "none.token" },
		"tenants":             func(c *embed.Config) { c.Tenants = []string{"No Such"} },
		"cache_bytes":         func(c *embed.Config) { c.CacheBytes = -1 },
		"name":                func(c *embed.Config) { c.Name = "a b" },
	} {
		cfg := embed.Config{StateDir: t.TempDir(), Registry: "127.0.0.1:1", InsecureUnsigned: true, InsecurePlaintext: true, Logger: localtest.Logger(t)}
		change(&cfg)
		a, err := embed.Start(t.Context(), cfg)
		if err == nil {
			_ = a.Close(t.Context())
		}
		if e := script.AsError(err); err == nil || e.Field != field || strings.Contains(err.Error(), "--") {
			t.Errorf("%v, want %s", err, field)
		}
	}
}

// TestStartIsGivenUp with its context.
func TestStartIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	cfg := embed.Config{StateDir: t.TempDir(), Registry: "127.0.0.1:1", InsecureUnsigned: true, InsecurePlaintext: true, Logger: localtest.Logger(t)}
	a, err := embed.Start(ctx, cfg)
	if err == nil { // it was ready at once
		err = errors.Join(gone, a.Close(t.Context()))
	}
	if !errors.Is(err, gone) {
		t.Error(err)
	}
	a, err = embed.Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("the folder is not free: %v", err)
	}
	short, cancelShort := context.WithCancel(t.Context())
	cancelShort()
	if err := a.WaitReady(short); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
