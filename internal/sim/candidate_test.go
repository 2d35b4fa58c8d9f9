package sim

import (
	"context"
	"math/rand/v2"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// withPlan gives some publishes a plan, so that their versions become candidates.
func withPlan(wr write, seed uint64) write {
	r := rand.New(rand.NewPCG(seed, 6))
	if wr.change != script.ChangePublish || r.IntN(3) > 0 {
		return wr
	}
	wr.planned = true
	wr.settings.Rollout.Steps = []script.Step{{Percent: 10}, {Percent: 50}}
	if r.IntN(2) == 0 {
		wr.settings.Rollout.Steps = []script.Step{{Selector: "zone=a", Percent: 50}, {Percent: 10}, {Selector: "zone=a"}, {Selector: "zone=b"}}
	}
	if r.IntN(4) == 0 {
		wr.settings.Tests = []script.Test{{Name: "answers"}}
	}
	return wr
}

// moveCandidate makes the next thing become of a candidate, as its plan or a person may.
func (w *world) moveCandidate(st step) {
	r := rand.New(rand.NewPCG(st.seed, 7))
	server := w.anyServer(r)
	var there []script.Release
	for _, name := range w.truth.names() {
		if last, _ := w.truth.asOf(name, 1<<62); last.release.Candidate != nil {
			there = append(there, last.release)
		}
	}
	if server == nil || len(there) == 0 {
		return
	}
	cur := there[r.IntN(len(there))]
	ctx, cancel := context.WithTimeout(server.life, writeTimeout)
	defer cancel()
	var err error
	var what any
	switch kind := r.IntN(8); {
	case kind < 3:
		steering := []registry.Steering{registry.Promote, registry.Abort, registry.Retry}[kind]
		what = steering
		_, err = server.registry.Steer(ctx, registry.SteerRequest{
			Write: registry.Write{Name: cur.Name, Author: "writer", By: access.Everybody("sim")}, Steering: steering,
		})
	case cur.Candidate.Set != nil:
		what, err = w.moveSet(ctx, server.registry, cur, kind == 3, r.Uint32())
	default:
		move := registry.Move{Promote: true}
		switch c := cur.Candidate; {
		case kind == 3:
			move = registry.Move{Failed: "it is not wanted"}
		case !cur.Untried() && c.Step < len(cur.Settings.Rollout.Steps):
			move = registry.Move{Step: c.Step + 1, Threshold: max(1, r.Uint32())}
		}
		what = move
		_, err = server.registry.Advance(ctx, registry.AdvanceRequest{Name: cur.Name, At: cur.Revision, Move: move})
	}
	w.log("#%d candidate %d of %s at revision %d: %+v: %v", st.number, cur.Candidate.Version.Number, cur.Name, cur.Revision, what, err)
}

// checkRuns finds out whether the live release runs what the agent is to run.
func (a *agent) checkRuns(r *cache.Release, made commit) {
	if want := made.release.RunsOn(a.who()); r.Runs.Number != want.Number || !r.Runs.SameProgram(want) || r.Untried() != made.release.Untried() {
		a.w.violate("%s runs version %d of %s at revision %d, and is to run %d", a.name, r.Runs.Number, r.Name, r.Revision, want.Number)
	}
}

// timid agents run no candidates.
func timid(p *process) followState { return &activeAlone{process: p} }

type activeAlone struct{ *process }

// Commit implements follow.State.
func (t *activeAlone) Commit(put []follow.Item, removed []string) error {
	err := t.process.Commit(put, removed)
	for _, item := range put {
		if err == nil && item.Object.Release != nil && item.Sealed != nil {
			t.table.Update([]*cache.Release{cache.NewRelease(*item.Object.Release)}, nil)
		}
	}
	return err
}
