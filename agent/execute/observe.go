package execute

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Observer sees the calls of an executor. It is safe for concurrent use.
type Observer interface {
	// Ended is called once for each call that is no trial, on the goroutine of the call, before
	// the caller has the answer. It returns at once, and keeps no reference to what e refers to. An error,
	// a *script.Error, becomes the answer in place of the results.
	Ended(ctx context.Context, e *Ended) error
}

// Ended is a call that has ended.
type Ended struct {
	Call  *gateway.Call
	Reply *gateway.Reply
	// Err is the *script.Error that the call ended with, or nil.
	Err error
	// Kind of Err; "" if the call succeeded.
	Kind script.Kind
	// Release that the call was of; nil if none was found.
	Release *cache.Release
	Start   time.Time
	// Took includes the time that the call waited for its turn.
	Took time.Duration
	// Ran is the time that it had a turn on a processor.
	Ran time.Duration
	// Decisions is the decision log of the called version, if the agent found one.
	Decisions *script.Decisions
	// Unknown: that version did not run, and the agent does not know its Decisions. These are of another version.
	Unknown bool
	// Settings are the tenant's; nil if the call did not get so far.
	Settings *script.TenantSettings
	// Used is what the program used; zero if it did not run.
	Used engine.Used
}

// observe shows the call to all observers, and returns what it ends with.
func (x *Executor) observe(ctx context.Context, c *call, asked *gateway.Call, reply *gateway.Reply, err error, start, end time.Time) error {
	if len(x.observers) == 0 {
		return err
	}
	e := &c.ended
	e.Call, e.Reply, e.Start, e.Took = asked, reply, start, end.Sub(start)
	return e.Show(ctx, x.observers, err)
}

// Show shows the call, which ended with the error, to the observers, and returns what it ends with.
func (e *Ended) Show(ctx context.Context, observers []Observer, err error) error {
	e.setError(err)
	for _, o := range observers {
		if instead := o.Ended(ctx, e); instead != nil {
			e.setError(instead)
			e.Reply.Result.Reset()
		}
	}
	return e.Err
}

// Unrun returns a call that has ended without an executor, of the release if that is not nil.
func Unrun(asked *gateway.Call, reply *gateway.Reply, release *cache.Release, start time.Time) *Ended {
	e := &Ended{Call: asked, Reply: reply, Start: start, Took: time.Since(start)}
	ref, _ := script.ParseRef(asked.Script) // what is none names no version
	e.of(asked, release, ref.Version)
	return e
}

// of notes the release that was found, and what the version of it that is called says of records: the
// one with the number, or the one that the call's key runs if that is 0.
func (e *Ended) of(asked *gateway.Call, r *cache.Release, number uint64) {
	if e.Release = r; r == nil {
		return
	}
	if number == 0 {
		if r.Split != nil && editionOf(asked) == nil {
			r = r.For(asked.KeyFrom(r.KeySource()))
		}
		number = r.Runs.Number
	}
	with, known := r.Here(number)
	if e.Decisions, e.Unknown = with.Decisions, !known; !known {
		e.Decisions = r.Decisions
	}
}

func (e *Ended) setError(err error) {
	if e.Err = err; err == nil {
		e.Kind = ""
		return
	}
	e.Kind = kindOf(err)
}
