package local_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
	"github.com/scriptorium-dev/scriptorium/script"
)

// told are the events that a follower got, as text.
type told struct {
	mu      sync.Mutex
	all     []string
	ids     map[string]bool
	doubled []string
}

func (f *told) add(e *script.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids[e.ID] {
		f.doubled = append(f.doubled, e.ID)
	}
	f.ids[e.ID] = true
	f.all = append(f.all, fmt.Sprintf("%s %s %s%s %v %s", e.Type, e.What, e.Tenant, e.Script, e.Subjects, e.Text))
}

// await waits for an event that has all of the words.
func (f *told) await(t *testing.T, words ...string) {
	t.Helper()
	deadline := time.After(2 * patience)
	for {
		f.mu.Lock()
		all := strings.Join(f.all, "\n")
		f.mu.Unlock()
		for line := range strings.Lines(all) {
			if containsAll(line, words) {
				return
			}
		}
		select {
		case <-deadline:
			t.Fatalf("no event has %q:\n%s", words, all)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// follow has the follower get the events of the whole fleet until the test is over.
func (s *stack) follow() *told {
	f := &told{ids: map[string]bool{}}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for e, err := range s.registry.FollowEvents(ctx, registryclient.EventFilter{}, func(error) {}) {
			if err != nil {
				s.t.Errorf("following the events ended: %v", err)
				return
			}
			f.add(&e)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

// TestEventsOfAgents: a real agent that cannot be heard is lost, and comes back; who follows the events
// hears of both, and of writes, once each, also over a restart of the registry.
func TestEventsOfAgents(t *testing.T) {
	needs.Time(t, "an agent is lost after 15 s")
	var link *netfault.Link
	s := start(t, local.WithAgents(func(cfg *agentd.Config) {
		if cfg.Name != "agent-2" {
			return
		}
		if link == nil {
			var err error
			link, err = netfault.Listen(t.Context(), netfault.Config{Name: cfg.Name, Upstreams: []string{strings.TrimPrefix(cfg.NATS[0], "nats://")}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = link.Close() })
		}
		cfg.NATS = []string{"nats://" + link.Addr()}
	}))
	f := s.follow()
	s.converge(s.publish(1).Release.Revision)
	f.await(t, "publish publish", "acmeroute")
	f.await(t, "key signing", "none was on record")

	link.Set(netfault.Fault{Mode: netfault.Cut})
	f.await(t, "agent lost", "agent-2")
	link.Heal()
	f.await(t, "agent back", "agent-2")

	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	if err := s.StopRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.StartRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	s.publish(2)
	if err := s.StopAgent(ctx, 3); err != nil {
		t.Fatal(err)
	}
	f.await(t, "agent left", "agent-3")
	settings := script.TenantSettings{Scripts: 1}
	if _, _, err := s.registry.SetTenant(ctx, "acme", &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.registry.Publish(ctx, registryclient.PublishRequest{
		Name: script.Name{Tenant: "acme", Script: "other"}, Source: edition(1), Write: registryclient.Write{Author: "test"},
	})
	if script.KindOf(err) != script.Limit {
		t.Fatalf("a script too many: %v", err)
	}
	f.await(t, "tenant settenant acme")
	f.await(t, "quota refused acme", "scripts: 1 of 1")

	f.mu.Lock()
	defer f.mu.Unlock()
	publishes := 0
	for _, line := range f.all {
		if strings.HasPrefix(line, "publish publish") {
			publishes++
		}
		if strings.HasPrefix(line, "agent lost") && !strings.Contains(line, "[agent-2]") {
			t.Errorf("others were lost, too: %s", line)
		}
	}
	if publishes != 2 || len(f.doubled) > 0 {
		t.Errorf("%d publishes, and twice %v:\n%s", publishes, f.doubled, strings.Join(f.all, "\n"))
	}
}
