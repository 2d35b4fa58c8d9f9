package local_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// endless is a try on the agent that takes as long as one may.
func endless(of script.Name, agent string) registryclient.TryRequest {
	return registryclient.TryRequest{
		Name: of, Source: []byte("function handle() while true do end end"), Agent: agent, Timeout: time.Minute,
		Settings: &script.Settings{Spec: script.Spec{Limits: script.MaxLimits()}}, Calls: args(strings.Fields(strings.Repeat("1 ", 50))...),
	}
}

// triesNoted counts the tries in the audit trail.
func (s *stack) triesNoted(ctx context.Context, of script.Name) (n int) {
	s.t.Helper()
	for e, err := range s.registry.Audit(ctx, registryclient.AuditFilter{Name: script.Name{Tenant: of.Tenant}}) {
		if err == nil && e.Change == script.ChangeTry {
			n++
		}
	}
	return n
}

// TestWhatRunsATryStops: the caller learns which part has stopped.
func TestWhatRunsATryStops(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	s.connected(ctx)
	for i, c := range []struct {
		stop func(context.Context) error
		says string
	}{
		{func(ctx context.Context) error { return s.StopAgent(ctx, 2) }, "agent-2"},
		{s.StopRegistry, "this registry is stopping"},
	} {
		agent := []string{"agent-2", "agent-1"}[i]
		ended := make(chan error, 1)
		go func() {
			_, err := s.registry.Try(ctx, endless(name, agent))
			ended <- err
		}()
		if !eventually(ctx, func() bool { return s.triesNoted(ctx, name) == i+1 }) {
			t.Fatalf("nothing is tried on %s", agent)
		}
		if err := c.stop(ctx); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		if script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "in time") {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}

// TestManyTriesLeaveRoom: of a tenant that tries as much as it can, few run and are noted, and others try theirs meanwhile.
func TestManyTriesLeaveRoom(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	s.connected(ctx)
	hostile := script.Name{Tenant: "shop", Script: "hostile"}
	flood, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	refused := make(chan error, 1000)
	for range cap(refused) {
		all.Go(func() {
			_, err := s.registry.Try(flood, endless(hostile, "agent-1"))
			refused <- err
		})
	}
	for n := range 100 { // by now there are many
		if err := <-refused; script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "of a tenant at a time") {
			t.Fatalf("try %d is refused with %v", n, err)
		}
	}
	found, err := s.registry.Try(ctx, registryclient.TryRequest{
		Name: name, Source: []byte("function handle(r) return r end"), Agent: "agent-2", Settings: &script.Settings{Spec: patient()}, Calls: args(`1`),
	})
	if err != nil || len(found.Calls) != 1 || found.Calls[0].Err != nil {
		t.Errorf("of another tenant: %+v, %v", found, err)
	}
	if n := s.triesNoted(ctx, hostile); n == 0 || n > 50 {
		t.Errorf("of 1000 tries %d are noted", n)
	}
	end()
	all.Wait()
}
