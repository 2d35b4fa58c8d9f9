package rollout_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	schedules = flag.Int("rollout.schedules", 60, "random schedules of TestCrashingCandidates")
	seedFlag  = flag.Uint64("rollout.seed", 0, "their seed; 0: a random one")
)

// TestCrashingCandidates: whatever else happens, a candidate that ends its agents walks no further
// than the step in which it does; and one that does not goes live. Half of them go by zones, and a
// third are change sets of two scripts and a value.
func TestCrashingCandidates(t *testing.T) {
	seed := cmp.Or(*seedFlag, rand.Uint64())
	t.Logf("seed %d", seed)
	for n := range *schedules {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		ends := n%3 > 0
		t.Run(fmt.Sprintf("%d of seed %d, ends its agents: %v", n, seed, ends), func(t *testing.T) {
			play(t, 2+random.IntN(12), func(s *stage) { crash(s, random, ends) })
		})
	}
}

// zonesAtRandom puts the agents into two zones, and returns steps of a part of the one, or all of
// it, and then of the other.
func (s *stage) zonesAtRandom(random *rand.Rand, pause time.Duration) []script.Step {
	s.change(func() {
		s.divide(1)
		for _, agent := range s.agents[2:] {
			s.zones[agent] = []string{"a", "b"}[random.IntN(2)]
		}
	})
	first := script.Step{Selector: "zone=a", Pause: pause}
	if random.IntN(2) == 0 {
		first.Percent = 1 + random.IntN(99)
	}
	return []script.Step{first, {Selector: "pool=edge,zone=b", Pause: pause}}
}

// gatesAtRandom gives some of the steps a gate, which says at random whether it passes, if anything,
// and passes from time to time.
func (s *stage) gatesAtRandom(random *rand.Rand, steps []script.Step) {
	for i := range steps {
		if random.IntN(2) == 0 {
			steps[i].Gate = script.Gate{Kind: script.Webhook, Source: "ci"}
		}
	}
	var mu sync.Mutex
	own, n := rand.New(rand.NewPCG(random.Uint64(), 0)), 0 // of other goroutines
	s.outside.set(func(context.Context, gate.Question) gate.Answer {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%3 == 0 {
			return gate.Answer{Result: fleet.GatePasses}
		}
		return gate.Answer{Result: []fleet.GateResult{fleet.GatePasses, fleet.GateWaits, fleet.GateFails}[own.IntN(3)]}
	})
}

// crash plays one schedule.
func crash(s *stage, random *rand.Rand, ends bool) {
	const pause = 30 * time.Second
	stop := s.conduct()
	defer func() { stop() }()
	inSet := random.IntN(3) == 0
	if inSet {
		s.live(route, lib)
	} else {
		s.publish(route, "1", nil)
		s.pass(2 * time.Second)
	}
	settings := careful()
	settings.Rollout.Steps = []script.Step{{Percent: 1 + random.IntN(40), Pause: pause}, {Percent: 60, Pause: pause}}
	if random.IntN(2) == 0 {
		settings.Rollout.Steps = s.zonesAtRandom(random, pause)
	}
	if !ends && random.IntN(2) == 0 { // the pass of the first step's gate is fresh when the second one is asked
		settings.Rollout.Steps[1].Pause = time.Second
	}
	if inSet {
		req := set(&settings.Rollout, "2", route, lib)
		req.Name = route.Script // as the buckets are those of the change set
		req.Scripts[random.IntN(2)].Settings = &script.Settings{Spec: settings.Spec}
		s.publishSet(req)
	} else {
		s.gatesAtRandom(random, settings.Rollout.Steps)
		s.publish(route, "2", settings)
	}

	started := map[string]time.Time{} // when an agent that runs the candidate began to
	back := map[string]time.Time{}    // when one that ended starts again
	// An agent in three gets away with it, but for the first one that runs it.
	spared := map[string]bool{}
	for _, agent := range s.agents {
		spared[agent] = agent != s.canary() && random.IntN(3) == 0
	}
	all, life := len(s.agents), 1
	var loud time.Time // when all agents are heard again
	for range 10 * 120 {
		s.pass(500 * time.Millisecond)
		now := time.Now()
		if random.IntN(200) == 0 { // another replica leads
			stop()
			s.pass(time.Duration(random.IntN(3)) * time.Second)
			stop = s.conduct()
		}
		s.change(func() {
			switch {
			case len(s.silent) > 0 && now.After(loud.Add(7*time.Second)):
				s.silent = map[string]time.Time{}
			case len(s.silent) > 0 && now.After(loud): // they come back one after the other
				for _, agent := range slices.Sorted(maps.Keys(s.silent)) {
					if random.IntN(8) == 0 {
						delete(s.silent, agent)
					}
				}
			case now.After(loud) && random.IntN(200) == 0: // NATS is away from most of them, who notice at different times
				loud = now.Add(5*time.Second + time.Duration(random.IntN(60))*time.Second)
				for i, agent := range random.Perm(all) {
					if i <= all/2 || random.IntN(2) == 0 {
						s.silent[fmt.Sprint("n", agent)] = now.Add(time.Duration(random.Int64N(int64(5 * time.Second))))
					}
				}
			}
			for agent, at := range back {
				if !now.Before(at) {
					delete(back, agent)
					life++
					s.agents, s.lives[agent] = append(s.agents, agent), fmt.Sprint("life ", life)
				}
			}
			r := s.releases[route]
			for _, agent := range slices.Clone(s.agents) {
				runs := r.Candidate != nil && r.RunsOn(s.who(agent)).Number == 2
				if !runs {
					delete(started, agent)
					continue
				}
				if started[agent].IsZero() {
					started[agent] = now.Add(time.Duration(random.Int64N(int64(pause - 2*time.Second))))
				}
				if ends && !spared[agent] && !now.Before(started[agent]) {
					delete(started, agent)
					s.agents = slices.DeleteFunc(slices.Clone(s.agents), func(a string) bool { return a == agent })
					if random.IntN(3) > 0 {
						back[agent] = now.Add(time.Duration(random.IntN(20)) * time.Second)
					}
				}
			}
		})
	}
	s.wantGated()
	if inSet {
		s.wantAllOrNothing()
	}
	story, _, _ := s.soFar()
	further := slices.ContainsFunc(story, func(line string) bool {
		return strings.Contains(line, " step 2:") || strings.HasSuffix(line, " live 2")
	})
	failed := slices.ContainsFunc(story, func(line string) bool { return strings.Contains(line, " failed ") })
	switch {
	case ends && (further || !failed && 2*len(s.agents) > all): // while most agents are unknown, nothing is decided
		s.t.Errorf("it ended its agents, and the story is\n %s", strings.Join(story, "\n "))
	case !ends && (failed || story[len(story)-1][strings.Index(story[len(story)-1], " "):] != " live 2"):
		s.t.Errorf("it ended none, and the story is\n %s", strings.Join(story, "\n "))
	}
}

// wantAllOrNothing fails if only a part of the change set is live, or was at any time.
func (s *stage) wantAllOrNothing() {
	s.t.Helper()
	r, l := s.release(route), s.release(lib)
	_, content, err := s.Value(s.t.Context(), access.Everybody("test"), flags, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	if live := r.Active.Number == 2; live != (l.Active.Number == 2) || live != (string(content) == "2") || live && r.Revision != l.Revision {
		s.t.Errorf("route runs %d since %d, lib %d since %d, and the value is %q", r.Active.Number, r.Revision, l.Active.Number, l.Revision, content)
	}
	if (r.Candidate == nil) != (l.Candidate == nil) || r.Candidate != nil && (r.Candidate.Failed == "") != (l.Candidate.Failed == "") {
		s.t.Errorf("the candidates are %+v and %+v", r.Candidate, l.Candidate)
	}
}
