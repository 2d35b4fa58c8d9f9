package rollout_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// still is a fleet of which nobody hears anything new, and a registry that notes what it is asked for.
type still struct {
	list []fleet.Candidacy

	mu   sync.Mutex
	made []string
}

func (s *still) Changed() <-chan struct{}                   { return nil }
func (s *still) Candidacies() []fleet.Candidacy             { return slices.Clone(s.list) }
func (s *still) GateAnswered(script.Name, fleet.GateAnswer) {}
func (s *still) Buckets(name script.Name) (c fleet.Candidacy, buckets []uint32, ok bool) {
	i := slices.IndexFunc(s.list, func(c fleet.Candidacy) bool { return c.Release.Name == name })
	return s.list[i], []uint32{1, 2, 3, 4}, true
}

func (s *still) note(names []string, move registry.Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(names)
	s.made = append(s.made, fmt.Sprintf("%s: step %d, running %v, promote %v, %s", strings.Join(names, " and "), move.Step, move.Running, move.Promote, move.Failed))
}

func (s *still) Advance(_ context.Context, req registry.AdvanceRequest) (registry.Result, error) {
	s.note([]string{req.Name.Script + " alone"}, req.Move)
	return registry.Result{}, nil
}

func (s *still) AdvanceSet(_ context.Context, req registry.AdvanceSetRequest) error {
	var names []string
	for _, m := range req.Moves {
		names = append(names, m.Name.Script)
	}
	s.note(names, req.Moves[0].Move)
	return nil
}

// ofSet is a candidate of a change set of route and lib, which is ready for the first of two steps.
func ofSet(name script.Name, changes ...func(c *fleet.Candidacy)) fleet.Candidacy {
	c := candidacy()
	next := *c.Release.Candidate
	next.Step, next.Threshold, next.Percent, next.Running = 0, 0, 0, time.Time{}
	next.Set = &script.Membership{Name: "cart", Attempt: 20, Scripts: []string{"lib", "route"}, Plan: c.Release.Settings.Rollout}
	c.Release.Name, c.Release.Candidate = name, &next
	for _, change := range changes {
		change(&c)
	}
	return c
}

func running(c *fleet.Candidacy) { c.Release.Candidate.Step, c.Release.Candidate.Threshold = 1, 1<<30 }

func failing(c *fleet.Candidacy) {
	c.Failure = &fleet.AgentFailure{Agent: "n1", Err: &script.Error{Kind: script.Script, Message: "boom"}}
}

func untested(c *fleet.Candidacy) { c.Passed = 0 }

func isNew(c *fleet.Candidacy) { c.Release.Active = c.Release.Candidate.Version }

// TestMovesOfChangeSets: what is asked for while a fleet, which says the same for all of it, has not heard of it.
func TestMovesOfChangeSets(t *testing.T) {
	for name, c := range map[string]struct {
		list []fleet.Candidacy
		want string
	}{
		"both are ready":                    {[]fleet.Candidacy{ofSet(route), ofSet(lib)}, "lib and route: step 1, running false, promote false, "},
		"one waits":                         {[]fleet.Candidacy{ofSet(route), ofSet(lib, untested)}, ""},
		"one cannot be read":                {[]fleet.Candidacy{ofSet(route)}, ""},
		"one is new, and takes no step":     {[]fleet.Candidacy{ofSet(route), ofSet(lib, isNew)}, "route: step 1, running false, promote false, "},
		"all are new":                       {[]fleet.Candidacy{ofSet(route, isNew), ofSet(lib, isNew)}, "lib and route: step 0, running false, promote true, "},
		"one fails":                         {[]fleet.Candidacy{ofSet(route), ofSet(lib, failing)}, "lib and route: step 0, running false, promote false, acme/lib: n1: boom"},
		"the agents of one step run it now": {[]fleet.Candidacy{ofSet(route, running), ofSet(lib, running, untested)}, "route alone: step 0, running true, promote false, "},
		// The next look waits until the fleet has heard of the move.
		"one fails meanwhile": {[]fleet.Candidacy{ofSet(route, running), ofSet(lib, failing)}, "route alone: step 0, running true, promote false, "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				<-time.After(time.Until(noon) + time.Hour)
				s := &still{list: c.list}
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				rollout.New(rollout.Config{Fleet: s, Registry: s, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
				if got := strings.Join(s.made, "; "); got != c.want {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
			})
		})
	}
}

// TestACandidateOfAChangeSet: what the rest of its change set makes of a candidate that is ready.
func TestACandidateOfAChangeSet(t *testing.T) {
	values := func(c *fleet.Candidacy) { c.Release.Candidate.Set.Values = []script.StagedValue{{Key: "flags"}} }
	frozen := freezing(script.Freeze{Except: []string{"acme/route"}}) // which no value of acme is excepted by
	for name, c := range map[string]struct {
		changes []func(c *fleet.Candidacy)
		want    registry.Move
		why     string
	}{
		"it is ready":                   {nil, registry.Move{Step: 1}, ""},
		"another one has left":          {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.Left = "acme/lib was deleted" }}, registry.Move{Failed: "acme/lib was deleted"}, ""},
		"another one cannot be read":    {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.Unread = "the record of acme/lib cannot be read" }}, registry.Move{}, "the record of acme/lib cannot be read, which is part of the change set cart"},
		"its values are frozen":         {[]func(c *fleet.Candidacy){values, frozen}, registry.Move{}, script.WaitsForThaw + "by ann since 2026-01-01 12:00 UTC"},
		"without values it is not":      {[]func(c *fleet.Candidacy){frozen}, registry.Move{Step: 1}, ""},
		"all agents are too old for it": {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.TooOld = 10 }}, registry.Move{}, "10 of 10 agents do not know change sets: upgrade agentd there"},
		"one agent is too old, of ten":  {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.TooOld = 1 }}, registry.Move{}, "1 of 10 agents do not know change sets: upgrade agentd there"},
		"one is too old, and may be":    {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.TooOld, c.Release.Candidate.Set.Plan.Tolerate = 1, script.Amount{Count: 1} }}, registry.Move{Step: 1}, ""},
		"its release has no plan":       {[]func(c *fleet.Candidacy){func(c *fleet.Candidacy) { c.Release.Settings.Rollout = script.Plan{} }}, registry.Move{Step: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := rollout.Next(ofSet(route, c.changes...), noon.Add(time.Second))
			if d.Move != c.want || d.Why != c.why {
				t.Errorf("%+v: %q, want %+v: %q", d.Move, d.Why, c.want, c.why)
			}
		})
	}
}
