package local_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	agents   = 3
	patience = 30 * time.Second // bounds every wait; nothing is measured by it
)

var name = script.Name{Tenant: "acme", Script: "route"}

// stack is a running stack with a client for each part.
type stack struct {
	*local.Stack
	t        *testing.T
	dir      string
	registry *registryclient.Client
	agents   []*agentclient.Client
}

func start(t *testing.T, opts ...local.Option) *stack {
	t.Helper()
	dir, err := os.MkdirTemp("", "local") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return startIn(t, dir, opts...)
}

func startIn(t *testing.T, dir string, opts ...local.Option) *stack {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	inner, err := local.Start(t.Context(), dir, agents, log, append(opts, local.WithWorkers("worker"))...)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{Stack: inner, t: t, dir: dir}
	t.Cleanup(s.stop)
	if s.registry, err = registryclient.Dial(s.RegistryTarget()); err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		client, err := agentclient.New("unix:" + filepath.Join(s.AgentDir(i+1), "grpc.sock"))
		if err != nil {
			t.Fatal(err)
		}
		s.agents = append(s.agents, client)
	}
	return s
}

func (s *stack) stop() {
	if s.Stack == nil {
		return
	}
	for _, client := range s.agents {
		_ = client.Close()
	}
	_ = s.registry.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	s.Stack = nil
}

// edition is a source whose every answer names the edition twice, so that a
// mixture of two editions shows.
func edition(n int) []byte {
	return fmt.Appendf(nil, "local n = %d\nfunction other() return %d end\nfunction handle() return {n, other()} end\n", n, n)
}

func answer(n int) string { return fmt.Sprintf("[%d,%d]", n, n) }

func (s *stack) publish(n int) registryclient.Published {
	s.t.Helper()
	p, err := s.registry.Publish(s.t.Context(), registryclient.PublishRequest{
		Name: name, Source: edition(n), Write: registryclient.Write{Author: "test"},
		// A busy machine may keep a call waiting for longer than the default.
		Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}},
	})
	if err != nil {
		s.t.Fatalf("publish edition %d: %v", n, err)
	}
	return p
}

// converge waits until the registry says that all agents run the release.
func (s *stack) converge(revision script.Revision) {
	s.t.Helper()
	s.convergeOf(name, revision)
}

func (s *stack) convergeOf(name script.Name, revision script.Revision) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last registryclient.FleetStatus
	for fleet, err := range s.registry.WatchStatus(ctx, name) {
		if err != nil {
			s.t.Fatalf("not converged at %d: %v; last: %+v", revision, err, last)
		}
		last = fleet
		for _, one := range fleet.Scripts {
			if one.Release.Revision >= revision && one.Converged && one.Active == agents {
				return
			}
		}
	}
}

func (s *stack) answers(want string) {
	s.t.Helper()
	for i, client := range s.agents {
		result, err := client.Call(s.t.Context(), name.String())
		if err != nil {
			s.t.Errorf("agent-%d: %v", i+1, err)
		} else if got := string(result.Values[0]); got != want {
			s.t.Errorf("agent-%d answers %s, want %s", i+1, got, want)
		}
	}
}

// awaitAnswer waits until an agent answers as wanted.
func (s *stack) awaitAnswer(i int, want string) {
	s.t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for {
		result, err := s.agents[i].Call(s.t.Context(), name.String())
		if err == nil && string(result.Values[0]) == want {
			return
		}
		select {
		case <-timeout:
			s.t.Fatalf("agent-%d does not answer %s: %+v, %v", i+1, want, result, err)
		case <-ticker.C:
		}
	}
}

// TestConvergedMeansActivated: once the registry says so, every call on every
// agent is answered by the new version.
func TestConvergedMeansActivated(t *testing.T) {
	s := start(t)
	for n := 1; n <= 30; n++ {
		p := s.publish(n)
		s.converge(p.Release.Revision)
		s.answers(answer(n))
	}
}

// TestEditUnderLoad: calls that are in flight while a script changes are
// answered, by one version each.
func TestEditUnderLoad(t *testing.T) {
	s := start(t)
	s.converge(s.publish(1).Release.Revision)
	var (
		calls   atomic.Int64
		highest [agents]atomic.Int64
		stop    = make(chan struct{})
		running sync.WaitGroup
	)
	for i, client := range s.agents {
		for range 4 {
			running.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					floor := highest[i].Load()
					result, err := client.Call(t.Context(), name.String())
					if err != nil {
						t.Errorf("agent-%d: %v", i+1, err)
						return
					}
					var pair []int64
					if err := result.Decode(0, &pair); err != nil || len(pair) != 2 || pair[0] != pair[1] || uint64(pair[0]) != result.Version {
						t.Errorf("agent-%d: version %d answers %s", i+1, result.Version, result.Values[0])
						return
					}
					if pair[0] < floor {
						t.Errorf("agent-%d went back from version %d to %d", i+1, floor, pair[0])
						return
					}
					for old := floor; pair[0] > old && !highest[i].CompareAndSwap(old, pair[0]); old = highest[i].Load() {
					}
					calls.Add(1)
				}
			})
		}
	}
	for n := 2; n <= 50; n++ {
		s.converge(s.publish(n).Release.Revision)
	}
	close(stop)
	running.Wait()
	if calls.Load() < 50 {
		t.Errorf("only %d calls were made: no load", calls.Load())
	}
	s.answers(answer(50))
}

func TestWithoutNATS(t *testing.T) {
	s := start(t, local.WithNATSPort(porttest.Port(t)))
	s.converge(s.publish(1).Release.Revision)
	s.StopNATS()
	s.publish(2)
	for i := range agents {
		s.awaitAnswer(i, answer(2)) // by polling
	}
	if err := s.StartNATS(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.converge(s.publish(3).Release.Revision)
	s.answers(answer(3))
}

func TestWithoutRegistry(t *testing.T) {
	s := start(t, local.WithNATSPort(porttest.Port(t)))
	s.converge(s.publish(1).Release.Revision)
	s.StopNATS()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(s.StopRegistry(ctx), s.StopAgent(ctx, 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAgent(2); err != nil {
		t.Fatal(err)
	}
	s.answers(answer(1)) // agent-2 from its disk

	if err := errors.Join(s.StartNATS(ctx), s.StartRegistry(ctx)); err != nil {
		t.Fatal(err)
	}
	s.converge(s.publish(2).Release.Revision)
	s.answers(answer(2))
}

// TestMissedWhileAway: what happened while an agent was down reaches it,
// deletions included.
func TestMissedWhileAway(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	gone := script.Name{Tenant: "acme", Script: "gone"}
	if _, err := s.registry.Publish(ctx, registryclient.PublishRequest{
		Name: gone, Source: []byte("function handle() return 1 end"), Write: registryclient.Write{Author: "test"},
	}); err != nil {
		t.Fatal(err)
	}
	s.converge(s.publish(1).Release.Revision)
	if err := s.StopAgent(ctx, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.registry.Delete(ctx, gone, registryclient.Write{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	last := s.publish(2).Release.Revision
	if err := s.StartAgent(3); err != nil {
		t.Fatal(err)
	}
	s.converge(last)
	s.answers(answer(2))
	for i, client := range s.agents {
		if result, err := client.Call(ctx, gone.String()); script.KindOf(err) != script.NotFound {
			t.Errorf("agent-%d still runs a deleted script: %v, %v", i+1, result, err)
		}
	}
}

// TestAnyVersion: a retained version runs by its number, also on an agent that
// never had it active; one that is not retained is not found.
func TestAnyVersion(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	if err := s.StopAgent(ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.publish(1)
	s.publish(2)
	last := s.publish(3).Release.Revision
	if err := s.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	s.converge(last)
	for i, client := range s.agents {
		for n := 1; n <= 3; n++ {
			result, err := client.Call(ctx, fmt.Sprintf("%s@%d", name, n))
			if err != nil {
				t.Errorf("agent-%d, version %d: %v", i+1, n, err)
			} else if got := string(result.Values[0]); got != answer(n) {
				t.Errorf("agent-%d, version %d answers %s", i+1, n, got)
			}
		}
		if _, err := client.Call(ctx, name.String()+"@4"); script.KindOf(err) != script.NotFound {
			t.Errorf("agent-%d, version 4: %v", i+1, err)
		}
	}
}

// TestLargeSource: a source that is too large for an event is fetched.
func TestLargeSource(t *testing.T) {
	s := start(t)
	source := "-- " + strings.Repeat("x", 500<<10) + "\nfunction handle() return 'large' end\n"
	settings := script.Settings{Spec: patient()}
	settings.Limits.SourceBytes = script.MaxSourceBytes
	p, err := s.registry.Publish(t.Context(), registryclient.PublishRequest{
		Name: name, Source: []byte(source), Settings: &settings, Write: registryclient.Write{Author: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.converge(p.Release.Revision)
	s.answers(`"large"`)
}

// TestStartAgain: everything continues after all of it was stopped.
func TestStartAgain(t *testing.T) {
	s := start(t)
	s.publish(1)
	s.converge(s.publish(2).Release.Revision)
	dir := s.dir
	s.stop()
	s = startIn(t, dir)
	for i := range agents {
		s.awaitAnswer(i, answer(2))
	}
	p := s.publish(3)
	if p.Version.Number != 3 {
		t.Errorf("the number after 2 is %d", p.Version.Number)
	}
	s.converge(p.Release.Revision)
}
