package agent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/agent/trial"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// newTester returns what tests candidates, by calls as gateways make them.
func (a *Agent) newTester() *trial.Tester {
	return trial.New(trial.Config{
		Execute: func(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
			return a.tests.Execute(ctx, call, reply)
		},
		Ended: func(err error) (ended, alone bool) {
			return errors.Is(err, worker.ErrEnded), errors.Is(err, worker.ErrEndedAlone)
		},
		Changed: func() { a.follower.TrialsChanged() },
		Log:     a.log,
	})
}

// told is a trial, and how much it matters to others.
type told struct {
	follow.Trial
	rank int
}

// The ranks: a rollout waits for the first.
const (
	rankTested  = iota
	rankCounted // it has come further: calls are what is looked at
	rankWaiting
	rankGivenUp
)

// trials are what has become of candidates here, for the status: what rollouts wait for
// first.
func (a *Agent) trials() []follow.Trial {
	candidates := a.state.table.Candidates()
	if len(candidates) == 0 {
		return nil
	}
	list := inOrder(candidates, a.state.tester.Results())
	if len(list) > follow.MaxTrials {
		a.tooMany.Do(func() {
			a.log.Warn("there are more candidates than a status tells of: rollouts of some wait until others are over",
				"candidates", len(list), "told", follow.MaxTrials)
		})
	}
	return list
}

// count sets what the counts of the candidate, which r runs, say.
func (t *told) count(r *cache.Release, besides *cache.StepCounts, found *shadow.Counts) {
	if r.Calls != nil {
		t.Calls, t.FailedCalls = r.Calls.Read()
		t.ProcessEnded = r.Calls.Ended()
	}
	if r.StepCalls != nil {
		t.StepCalls = r.StepCalls.Read()
	}
	if found != nil {
		t.Shadow = found.Read()
	}
	if besides != nil {
		t.ActiveCalls = besides.Read()
	}
}

// inOrder returns what the status reports of live releases with candidates, and of their
// tests, most important first. Passed tests rank lower once the candidate's steps have begun:
// earlier statuses have reported them.
func inOrder(candidates []*cache.Release, results []trial.Result) []follow.Trial {
	all := map[string]told{}
	for _, r := range results {
		t := told{Trial: follow.Trial{Key: wire.ReleaseKey(r.Script), Version: r.Version, Attempt: r.Attempt, Spec: r.Spec, Tested: r.Tested, Err: r.Err, Waiting: r.Waiting}}
		switch {
		case r.GivenUp:
			t.rank = rankGivenUp
		case !r.Tested:
			t.rank = rankWaiting
		}
		all[t.Key] = t
	}
	for _, r := range candidates {
		key := wire.ReleaseKey(r.Name)
		t, tested := all[key]
		besides, found := r.Besides(), r.Shadow
		r = r.OfCandidate()
		tested = tested && t.Version == r.Candidate.Version.Number && t.Attempt == r.Candidate.Attempt
		switch {
		case tested && t.rank == rankTested && t.Err == nil && r.Candidate.Step > 0:
			t.rank = rankCounted
		case r.Calls == nil && r.StepCalls == nil:
			continue
		case !tested:
			t = told{Trial: follow.Trial{Key: key, Version: r.Candidate.Version.Number, Attempt: r.Candidate.Attempt, Spec: r.Candidate.Version.Spec}, rank: rankCounted}
		}
		t.count(r, besides, found)
		if r.Calls != nil || r.StepCalls != nil {
			t.rank = min(t.rank, rankCounted)
		}
		all[key] = t
	}
	sorted := slices.SortedFunc(maps.Values(all), func(x, y told) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.Key, y.Key))
	})
	list := make([]follow.Trial, 0, len(sorted))
	for _, t := range sorted {
		list = append(list, t.Trial)
	}
	return list
}
