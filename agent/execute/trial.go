package execute

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Trials returns what runs the tests of candidates: calls that each name a version, which
// runs as any call does, but also if the script is disabled, or has yet to pass its tests.
// They are counted neither in the metrics of calls nor among those of the candidate. No
// gateway gets it.
func (x *Executor) Trials() gateway.Executor { return trials{x} }

type trials struct{ *Executor }

// Execute implements gateway.Executor.
func (t trials) Execute(ctx context.Context, asked *gateway.Call, reply *gateway.Reply) error {
	c := t.calls.Get().(*call)
	defer t.release(c)
	c.trial = true
	err := t.execute(ctx, c, asked, reply, true)
	t.answered(time.Now(), err, reply)
	return err
}

// note counts a call of what runs of the release, unless it ended for a reason that may not be the
// script's: its caller gave it up or has no more time, or it had too little of its own as
// it waited while others had its turn.
func note(ctx context.Context, release *cache.Release, err error, took, waited time.Duration) {
	kind := script.KindOf(err)
	if err != nil && ctx.Err() != nil || kind == script.Timeout && waited > 0 {
		return
	}
	release.Note(kind, took-waited)
}

// pick is find, for a call that may have a key. counts: it is among the calls that decide what becomes
// of the candidate, if it runs what Runs in the release. Where keys decide what calls run, these are
// the calls with keys that name no version: others do not come from the same users. An edition of a
// chain was picked when the chain began, and stays what it is, whatever its key runs by now.
func (x *Executor) pick(asked *gateway.Call, trial bool) (r *cache.Release, number uint64, counts bool, err error) {
	r, number, err = x.find(asked, trial)
	switch {
	case err != nil || trial || r.Candidate == nil:
		return r, number, false, err
	case r.Split == nil:
		return r, number, true, nil
	case r.Shadow != nil: // the shadow counts the calls of both versions
		return r, number, false, nil
	case number != 0:
		return r, number, false, nil
	}
	key := asked.KeyFrom(r.KeySource())
	runs := r.For(key)
	if asked.Edition != nil {
		return r, 0, key != "" && runs == r, nil
	}
	return runs, 0, key != "", nil
}
