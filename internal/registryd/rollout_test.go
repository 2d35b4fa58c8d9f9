package registryd_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// crew is some agents that follow the events of one script, test its candidates at once,
// and report.
type crew struct {
	*agent
	names    []string
	sequence uint64
	// tests says why the candidate's tests fail on the agent; nil if they do not.
	tests func(agent string) *scriptv1.Error

	mu      sync.Mutex
	saw     []string // what each release made of the candidate
	release script.Release
	calls   func(agent string) (all, failed uint64) // of the candidate; nil for none
}

// newCrew returns a crew of ten, which is heard until the test ends.
func newCrew(t *testing.T, a *agent, tests func(agent string) *scriptv1.Error) *crew {
	t.Helper()
	c := &crew{agent: a, tests: tests}
	for i := range 10 {
		c.names = append(c.names, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.follow(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}

func (c *crew) follow(ctx context.Context) error {
	var fleet string
	var release script.Release
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for {
		select {
		case e := <-c.events:
			if e.GetRevision() <= int64(release.Revision) {
				continue // it came again, from the next leader
			}
			fleet = e.GetFleet()
			var err error
			if release, err = releaseOf(e); err != nil {
				return err
			}
			c.see(&release)
		case <-c.rolls:
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
		if fleet == "" {
			continue
		}
		for _, name := range c.names {
			if err := c.send(c.status(fleet, name, &release)); err != nil {
				return err
			}
		}
	}
}

func releaseOf(e *eventv1.Event) (script.Release, error) {
	var entry eventv1.Entry
	if _, err := seal.TrustEverything().Open(e.GetEntries()[0], &entry); err != nil {
		return script.Release{}, err
	}
	r, _, err := wire.ToReleaseObject(entry.GetObject())
	return r, err
}

func (c *crew) status(fleet, name string, r *script.Release) *eventv1.Status {
	c.sequence++
	m := &eventv1.Status{Fleet: fleet, Agent: name, Incarnation: "1", Sequence: c.sequence, ActivatedRevision: int64(r.Revision)}
	if candidate := r.Candidate; candidate != nil {
		m.Trials = []*eventv1.Trial{{
			Key: "releases/" + r.Name.String(), Version: candidate.Version.Number, Attempt: candidate.Attempt,
			Spec: candidate.Version.Spec[:], Tested: true, Error: c.tests(name),
		}}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.calls != nil && r.RunsOn(script.Agent{Name: name}).Number == candidate.Version.Number {
			m.Trials[0].Calls, m.Trials[0].FailedCalls = c.calls(name)
		}
	}
	return m
}

// last returns the release that was seen last.
func (c *crew) last() script.Release {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release
}

// see notes how many of the crew run the candidate.
func (c *crew) see(r *script.Release) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release = *r
	switch candidate := r.Candidate; {
	case candidate == nil:
		c.saw = append(c.saw, fmt.Sprint("live ", r.Active.Number))
	case candidate.Failed == "" && !candidate.Running.IsZero(): // that its pause begins is no news
	case candidate.Failed != "":
		c.saw = append(c.saw, "failed: "+candidate.Failed)
	default:
		run := 0
		for _, name := range c.names {
			if r.RunsOn(script.Agent{Name: name}).Number == candidate.Version.Number {
				run++
			}
		}
		c.saw = append(c.saw, fmt.Sprintf("step %d: %d", candidate.Step, run))
	}
}

// sees waits until the crew has seen this, and nothing else.
func (c *crew) sees(t *testing.T, want ...string) {
	t.Helper()
	if got, all := c.story(t, want), strings.Join(want, ", "); got != all {
		t.Errorf("the agents saw %s; want %s", got, all)
	}
}

// sawFirst waits until the agents saw that much, whatever they saw since.
func (c *crew) sawFirst(t *testing.T, want ...string) {
	t.Helper()
	if got, all := c.story(t, want), strings.Join(want, ", "); !strings.HasPrefix(got, all) {
		t.Errorf("the agents saw %s; want %s, and more", got, all)
	}
}

// story returns what the agents saw, once that is as much as is wanted.
func (c *crew) story(t *testing.T, want []string) string {
	t.Helper()
	story := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return strings.Join(c.saw, ", ")
	}
	all := strings.Join(want, ", ")
	eventually(t, all, func() bool { return len(story()) >= len(all) })
	return story()
}

func passes(string) *scriptv1.Error { return nil }

// roll publishes a version that is tested, and rolled out in steps of 20 and 50 percent;
// the first takes as long as it says.
func (c *client) roll(t *testing.T, source string, first time.Duration) {
	t.Helper()
	if _, err := c.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Author: "ann", Name: "route", Source: []byte(source),
		Settings: wire.FromSettings(script.Settings{
			Spec: script.Spec{
				Tests: []script.Test{{Name: "it works"}},
			},
			Rollout: script.Plan{Steps: []script.Step{{Percent: 20, Pause: first}, {Percent: 50, Pause: 50 * time.Millisecond}}},
		}),
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRollout: what passes its tests on all agents goes through its steps, and is live.
func TestRollout(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	d, c := start(t, cfg)
	crew.joins(t, c)
	c.publish(t, "route", "return 1")
	c.roll(t, "return 2", 50*time.Millisecond)
	crew.sees(t, "live 1", "step 0: 0", "step 1: 2", "step 2: 5", "live 2")

	history, err := c.History(t.Context(), &registryv1.HistoryRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range history.GetEntries() {
		lines = append(lines, fmt.Sprintf("%s by %s: %d/%d", e.GetChange(), e.GetAuthor(), e.GetVersion(), e.GetCandidate()))
	}
	if got := strings.Join(lines, ", "); got != "promote by scriptorium: 2/0, advance by scriptorium: 1/2, advance by scriptorium: 1/2, advance by scriptorium: 1/2, advance by scriptorium: 1/2, publish by ann: 1/2, publish by ann: 1/0" {
		t.Errorf("history: %s", got)
	}
	eventually(t, "the new version converges", func() bool {
		status, err := c.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
		return err == nil && status.GetStatus().GetScripts()[0].GetConverged() && status.GetStatus().GetScripts()[0].GetRollout() != nil
	})
	_, metrics := admin(t, d, "/metrics")
	for _, line := range []string{
		`scriptorium_registry_candidate_moves_total{move="advance",outcome="made"} 4`,
		`scriptorium_registry_candidate_moves_total{move="promote",outcome="made"} 1`,
		`scriptorium_registry_candidate_moves_total{move="abort",outcome="failed"} 0`,
		`scriptorium_registry_candidates{state="testing"} 0`,
		`scriptorium_registry_candidates{state="rolling_out"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

// TestATestThatFails on one agent ends the candidate, and what ran before runs on.
func TestATestThatFails(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), func(agent string) *scriptv1.Error {
		if agent != "n3" {
			return nil
		}
		return &scriptv1.Error{Kind: "SCRIPT", Field: "tests[it works]", Message: "want 1, got 2"}
	})
	d, c := start(t, cfg)
	crew.joins(t, c)
	c.publish(t, "route", "return 1")
	c.roll(t, "return 2", 0)
	crew.sees(t, "live 1", "step 0: 0", "failed: n3: tests[it works]: want 1, got 2")
	status, err := c.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	s := status.GetStatus().GetScripts()[0]
	if s.GetConverged() || s.GetRelease().GetActive().GetNumber() != 1 || s.GetTrials().GetFailed() != 1 || s.GetFailed() != 1 {
		t.Errorf("status: %v", s)
	}
	if _, metrics := admin(t, d, "/metrics"); !strings.Contains(metrics, `scriptorium_registry_candidates{state="failed"} 1`) {
		t.Error("metrics lack the candidate that failed")
	}
}

// TestTheNextLeaderGoesOn where the last one left off: one that stopped, and one that
// does not know yet that it leads no more.
func TestTheNextLeaderGoesOn(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	first, c := start(t, cfg)
	crew.joins(t, c)
	leads(t, first)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	second, _ := start(t, other)
	c.publish(t, "route", "return 1")
	c.roll(t, "return 2", 2*time.Second)
	crew.sawFirst(t, "live 1", "step 0: 0", "step 1: 2")
	stop(t, first)
	leads(t, second)
	story := []string{"live 1", "step 0: 0", "step 1: 2", "step 2: 5", "live 2"}
	crew.sees(t, story...)

	third := cfg
	third.Listen = []string{socket(dir(t))}
	_, c = start(t, third)
	c.roll(t, "return 3", 2*time.Second)
	crew.sawFirst(t, append(story, "step 0: 0", "step 1: 2")...)
	depose(t, cfg)
	crew.sees(t, append(story, "step 0: 0", "step 1: 2", "step 2: 5", "live 3")...)
}

// depose takes the lease of the replica that leads, as if it had died.
func depose(t *testing.T, cfg registryd.Config) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: cfg.EtcdEndpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.Get(t.Context(), cfg.EtcdPrefix+"/leader", clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("nobody leads: %v, %v", resp, err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}
