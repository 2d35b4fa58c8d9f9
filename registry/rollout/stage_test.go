package rollout_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

type anySource struct{}

func (anySource) Name() string              { return "any" }
func (anySource) Check(engine.Source) error { return nil }

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// stage is a registry in memory whose agents follow it at once, and report each five
// seconds, by the clock of a bubble.
type stage struct {
	*registry.Registry
	t      *testing.T
	id     string
	fleet  *fleet.Fleet
	began  time.Time
	log    *lines
	logger *slog.Logger
	moves  []script.Change
	// failures are moves that were not made.
	failures int

	mu       sync.Mutex
	agents   []string
	releases map[script.Name]script.Release
	head     script.Revision
	sequence uint64
	// tests says what comes of the tests of a release on an agent, and calls what it
	// answers; both nil: they pass, and there are none.
	tests func(agent string, r *script.Release) (tested bool, err *script.Error)
	calls func(agent string) (all, failed uint64)
	// stepCalls says what the agents that run the candidate, or the active version, have counted
	// since the step began; nil: nothing.
	stepCalls func(candidate bool, since time.Duration) *script.StepCalls
	// failing says why an agent cannot activate route's release, and old which agents do
	// not know of candidates; none if they are nil.
	failing func(agent string) *script.Error
	old     func(agent string) bool
	lagging func(agent string) bool // agents on which the tenant's process lacks route's release, if it is not nil
	zones   map[string]string       // agents that have the label zone
	blind   func(agent string) bool // agents that do not know selectors, if it is not nil
	setless func(agent string) bool // agents that do not know change sets, if it is not nil
	keyless func(agent string) bool // agents that do not know steps by key or in the shadow, if it is not nil
	// shadow says what the agents of a shadow step have found since it began; nil: nothing.
	shadow func(since time.Duration) *script.ShadowCalls
	life   string               // the incarnation of all agents
	lives  map[string]string    // but for these
	silent map[string]time.Time // agents that are not heard from then on
	story  []string             // what became of candidates, and when
	looks  int

	outside *outside // what gates ask
	taken   []passed // steps with gates, and when the registry took what follows them

	advance func(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error)
}

// play runs the test on a stage with so many agents.
func play(t *testing.T, agents int, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		id, _ := store.Fleet(t.Context())
		gates := &outside{}
		s := &stage{
			outside: gates,
			t:       t, id: id, life: "1", lives: map[string]string{}, silent: map[string]time.Time{}, began: time.Now(), log: &lines{}, releases: map[script.Name]script.Release{},
			Registry: registry.New(registry.Config{Store: store, Engines: map[string]engine.Checker{"any": anySource{}}, DefaultEngine: "any", Gates: gates}),
			fleet:    fleet.New(fleet.Config{}),
		}
		s.logger = slog.New(slog.NewTextHandler(s.log, nil))
		s.advance = s.Registry.Advance
		for i := range agents {
			s.agents = append(s.agents, fmt.Sprint("n", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { registry.Follow(ctx, store, slog.New(slog.DiscardHandler), s.fleet, s) })
		running.Go(func() { s.beat(ctx) })
		s.fleet.RollCalled()
		test(s)
		cancel()
		running.Wait()
	})
}

// Reset and Apply make the stage a registry.Projection: that of its agents.
func (s *stage) Reset(state registry.State) { s.heard(state.Head, state.Releases) }

// Frozen implements registry.Freezing.
func (s *stage) Frozen(script.Freeze) { s.change(func() {}) }

// Apply has the agents report.
func (s *stage) Apply(t registry.Transaction) { s.heard(t.Revision, t.Releases) }

func (s *stage) heard(head script.Revision, releases []script.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = head
	for _, r := range releases {
		s.releases[r.Name] = r
		if r.Candidate == nil || r.Candidate.Running.IsZero() || r.Candidate.Failed != "" { // that its pause begins is no news
			s.story = append(s.story, s.chapter(&r))
		}
	}
	s.report()
}

// release is the script's release as the agents know it.
func (s *stage) release(name script.Name) script.Release {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releases[name]
}

// chapter is what a release makes of its candidate: "1m0s step 1: 2 of 10 run 2".
func (s *stage) chapter(r *script.Release) string {
	now := time.Since(s.began).Round(time.Second)
	switch c := r.Candidate; {
	case c == nil:
		return fmt.Sprintf("%v live %d", now, r.Active.Number)
	case c.Failed != "":
		return fmt.Sprintf("%v failed %s", now, c.Failed)
	case c.Frozen != "":
		return fmt.Sprintf("%v frozen %d", now, c.Version.Number)
	}
	run, keyed, shadows := 0, 0, 0
	for _, a := range s.agents {
		switch {
		case r.RunsOn(s.who(a)).Number == r.Candidate.Version.Number:
			run++
		case s.keys(a, r) > 0:
			keyed++
		case s.shadows(a, r):
			shadows++
		}
	}
	if shadows > 0 {
		return fmt.Sprintf("%v step %d: %d of %d shadow %d", now, r.Candidate.Step, shadows, len(s.agents), r.Candidate.Version.Number)
	}
	if keyed > 0 {
		return fmt.Sprintf("%v step %d: %d of %d run %d, and %d for keys", now, r.Candidate.Step, run, len(s.agents), r.Candidate.Version.Number, keyed)
	}
	if n := len(r.Candidate.Lost); n > 0 {
		return fmt.Sprintf("%v step %d: %d of %d run %d, %d lost", now, r.Candidate.Step, run, len(s.agents), r.Candidate.Version.Number, n)
	}
	return fmt.Sprintf("%v step %d: %d of %d run %d", now, r.Candidate.Step, run, len(s.agents), r.Candidate.Version.Number)
}

func (s *stage) report() {
	for _, a := range s.agents {
		s.sequence++
		if from, silent := s.silent[a]; silent && !time.Now().Before(from) {
			continue
		}
		r := fleet.Report{Fleet: s.id, Agent: a, Incarnation: cmp.Or(s.lives[a], s.life), Sequence: s.sequence, Activated: s.head, Trials: s.trials(a), Selects: !s.isBlind(a), Sets: s.setless == nil || !s.setless(a), Keys: !s.isKeyless(a), Shadows: !s.isKeyless(a)}
		if zone := s.zones[a]; zone != "" {
			r.Labels = map[string]string{"zone": zone, "pool": "edge"}
		}
		if s.failing != nil && s.failing(a) != nil {
			r.Failures = []fleet.Failure{{Name: route, Revision: s.releases[route].Revision, Err: s.failing(a)}}
		}
		if s.lagging != nil && s.lagging(a) {
			r.Lags = map[string]script.Revision{route.Tenant: s.releases[route].Revision - 1}
		}
		s.fleet.Heard(r)
	}
}

func (s *stage) isKeyless(agent string) bool { return s.keyless != nil && s.keyless(agent) }

// keys are those whose calls run the release's candidate on the agent.
func (s *stage) keys(agent string, r *script.Release) uint32 {
	if s.isKeyless(agent) {
		return 0
	}
	return r.KeysOn(s.who(agent))
}

// shadows reports whether the agent runs the release's candidate in the shadow of calls.
func (s *stage) shadows(agent string, r *script.Release) bool {
	return !s.isKeyless(agent) && r.ShadowsOn(s.who(agent)) > 0
}

func (s *stage) isBlind(agent string) bool { return s.blind != nil && s.blind(agent) }

// who is the agent as it sees itself.
func (s *stage) who(agent string) script.Agent {
	who := script.Agent{Name: agent}
	if zone := s.zones[agent]; zone != "" && !s.isBlind(agent) {
		who.Labels = map[string]string{"zone": zone, "pool": "edge"}
	}
	return who
}

// canary is the agent that runs a candidate of route first, of zone a if there are zones.
func (s *stage) canary() string {
	first := slices.DeleteFunc(slices.Clone(s.agents), func(agent string) bool { return s.zones != nil && s.zones[agent] != "a" })
	return slices.MinFunc(first, func(a, b string) int { return cmp.Compare(script.Bucket(a, route), script.Bucket(b, route)) })
}

// lose takes agents from the stage: they are not heard again.
func (s *stage) lose(lost func(agent string) bool) {
	s.change(func() { s.agents = slices.DeleteFunc(slices.Clone(s.agents), lost) })
}

// waitsFor returns how many agents route's candidate waits for, and the first of them.
func (s *stage) waitsFor() string {
	t := s.fleet.Status(fleet.Filter{Tenant: route.Tenant, Script: route.Script}).Scripts[0].Trials
	if t == nil {
		return "there is no candidate"
	}
	return fmt.Sprint(t.Waiting, t.WaitingFor)
}

func (s *stage) trials(agent string) (trials []fleet.Trial) {
	for _, r := range s.releases {
		c := r.Candidate
		if c == nil || s.old != nil && s.old(agent) || c.Set != nil && s.setless != nil && s.setless(agent) {
			continue
		}
		trial := fleet.Trial{Name: r.Name, Version: c.Version.Number, Attempt: c.Attempt, Spec: c.Version.Spec, Tested: true}
		if s.tests != nil {
			trial.Tested, trial.Err = s.tests(agent, &r)
		}
		keyed := s.keys(agent, &r) > 0 || s.shadows(agent, &r)
		if s.shadow != nil && s.shadows(agent, &r) {
			trial.Shadow = s.shadow(time.Since(c.Since))
			trial.Shadow.Step = c.Step
		}
		runs := keyed || r.RunsOn(s.who(agent)).Number == c.Version.Number
		if s.calls != nil && runs {
			trial.Calls, trial.FailedCalls = s.calls(agent)
		}
		if s.stepCalls != nil && c.Step > 0 && c.Failed == "" {
			trial.StepCalls = s.stepCalls(runs, time.Since(c.Since))
			trial.StepCalls.Step = c.Step
			if keyed {
				trial.ActiveCalls = s.stepCalls(false, time.Since(c.Since))
				trial.ActiveCalls.Step = c.Step
			}
		}
		trials = append(trials, trial)
	}
	return trials
}

// change changes how agents behave, and has them report.
func (s *stage) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.report()
}

// soFar returns a copy of the story, the moves that were made, and the number of looks.
func (s *stage) soFar() (story []string, moves []script.Change, looks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.story), slices.Clone(s.moves), s.looks
}

func (s *stage) beat(ctx context.Context) {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
			s.fleet.Sweep()
			if n%20 == 0 {
				s.change(func() {})
			}
		case <-ctx.Done():
			return
		}
	}
}

// Advance and Candidacies count and replace what the controller asks for.
func (s *stage) Advance(ctx context.Context, req registry.AdvanceRequest) (registry.Result, error) {
	s.mu.Lock()
	r, now := s.releases[req.Name], time.Now()
	s.mu.Unlock()
	result, err := s.advance(ctx, req)
	step, ok := r.StepOf()
	if err == nil && ok && r.Revision == req.At && !step.Gate.IsZero() && (req.Move.Step > 0 || req.Move.Promote) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = append(s.taken, passed{r.Candidate.Attempt, r.Candidate.Step, now})
	}
	return result, err
}

type counted struct {
	*fleet.Fleet
	s *stage
}

func (c counted) Candidacies() []fleet.Candidacy {
	c.s.mu.Lock()
	c.s.looks++
	c.s.mu.Unlock()
	return c.Fleet.Candidacies()
}

// conduct runs a controller until stop is called.
func (s *stage) conduct() (stop func()) {
	c := rollout.New(rollout.Config{
		Fleet: counted{s.fleet, s}, Registry: s, Gates: s.outside, Log: s.logger,
		Moved: func(m script.Change, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				s.failures++
				return
			}
			s.moves = append(s.moves, m)
		},
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// careful goes by two steps, after a test.
func careful() *script.Settings {
	return &script.Settings{
		Spec: script.Spec{
			Tests: []script.Test{{Name: "it works"}},
		},
		Rollout: script.Plan{
			Steps:           []script.Step{{Percent: 10, Pause: time.Minute}, {Percent: 50, Pause: 10 * time.Minute}},
			MaxErrorPercent: new(5.0), MinCalls: new(0),
		},
	}
}

func (s *stage) publish(name script.Name, source string, settings *script.Settings) script.Release {
	s.t.Helper()
	result, err := s.Publish(s.t.Context(), registry.PublishRequest{
		Write:  registry.Write{Name: name, Author: "ann", By: access.Everybody("test")},
		Source: []byte(source), Settings: settings,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return result.Release
}

// pass lets time pass.
func (s *stage) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// want compares the story of all candidates so far.
func (s *stage) want(story ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.story, story) {
		s.t.Errorf("the story is\n %s\nwant\n %s\n%s", strings.Join(s.story, "\n "), strings.Join(story, "\n "), s.log)
	}
}
