// Package trial tests candidates: it runs the tests of a script's new version on this
// agent, once for each attempt, in the background, and keeps what came of them.
package trial

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
	"github.com/scriptorium-dev/scriptorium/script/expect"
)

// Config of a Tester.
type Config struct {
	// Execute runs a call of a test, which names a version. It is not to panic.
	Execute func(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error
	// Ended reports whether an error of Execute says that what ran the call ended
	// meanwhile: the script may be why. alone says that nothing else may be. Nil means that
	// no error does.
	Ended func(err error) (ended, alone bool)
	// Changed is called when what Results returns has changed, from any goroutine; may be
	// nil.
	Changed func()
	// Tenants whose scripts are tested at once; 0 means 4. Of each, one test runs at a time.
	Tenants int

	Log *slog.Logger // nil means slog.Default()
}

// Result is what has come of an attempt.
type Result struct {
	Script  script.Name
	Version uint64
	Attempt uint64
	Spec    script.Digest // of what the version runs with
	// Tested says that it is over. Passed then means that Err is nil; else that is of the
	// first test that failed, which its field names: "tests[ping]".
	Tested bool
	Err    *script.Error
	// Waiting is what the next test ended with last, if that says nothing of it, so that it
	// is tried again later.
	Waiting *script.Error
	// GivenUp says that the registry has given the candidate up.
	GivenUp bool
}

// Tester tests the candidates of one agent. It is safe for concurrent use.
type Tester struct {
	cfg    Config
	queued chan struct{} // holds an element for each goroutine of Run that may look at turns

	mu    sync.Mutex // guards what follows, and the attempts in it, but for their tests and tried
	of    map[script.Name]*attempt
	turns turns
}

// attempt at the tests of a candidate. Whoever has its turn alone uses tests and tried.
type attempt struct {
	Result
	digest script.Digest      // of the version
	set    *script.Membership // of the candidate
	tests  []script.Test      // that are still to pass, the first being the next
	tried  tried              // of the next
	again  *time.Timer        // until it comes into the queue again
	// cancel ends the calls of the attempt that runs.
	cancel context.CancelFunc
	over   bool // another is in its place, or none
}

// tried is how often the next test of an attempt ended without saying whether it passes.
type tried struct {
	times  int // for whatever reason
	faults int // timeouts, and those of the engine
	ends   int // of what ran it
	alone  int // of these, without anything else that ran
}

// New returns a tester of no candidates.
func New(cfg Config) *Tester {
	if cfg.Tenants == 0 {
		cfg.Tenants = 4
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(error) (ended, alone bool) { return false, false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Tester{cfg: cfg, queued: make(chan struct{}, cfg.Tenants), of: map[script.Name]*attempt{}, turns: newTurns()}
}

// Live says which releases are live from now on, and which scripts are gone. Candidates
// that have tests and have not been tested yet are, once Run runs.
func (t *Tester) Live(releases []*script.Release, gone []script.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range gone {
		t.end(name)
	}
	for _, r := range releases {
		t.take(r)
	}
}

// take takes in a release. t.mu is held.
func (t *Tester) take(r *script.Release) {
	c, before := r.Candidate, t.of[r.Name]
	if before != nil && c != nil && before.is(c) {
		before.GivenUp = c.Failed != ""
		if before.GivenUp && !before.Tested {
			t.end(r.Name)
		}
		return
	}
	t.end(r.Name)
	if c == nil || c.Failed != "" || c.Frozen != "" || len(c.Spec.Tests) == 0 {
		return
	}
	a := &attempt{
		Result: Result{Script: r.Name, Version: c.Version.Number, Attempt: c.Attempt, Spec: specOf(c)},
		digest: c.Version.Digest, set: c.Set, tests: c.Spec.Tests,
	}
	t.of[r.Name] = a
	t.enqueue(a)
}

// is reports whether the attempt is that of the candidate. A registry that lost its store may
// give out a number again.
func (a *attempt) is(c *script.Candidate) bool {
	return a.Version == c.Version.Number && a.Attempt == c.Attempt && a.digest == c.Version.Digest && a.Spec == specOf(c) && a.set.Same(c.Set)
}

// specOf returns the digest of what the candidate runs with.
func specOf(c *script.Candidate) script.Digest {
	if c.Version.Spec.IsZero() { // a registry of before does not say it
		return script.Version{}.With(c.Spec).Spec
	}
	return c.Version.Spec
}

// end forgets the attempt of the script, and stops it. t.mu is held.
func (t *Tester) end(name script.Name) {
	a := t.of[name]
	if a == nil {
		return
	}
	delete(t.of, name)
	a.over = true
	if a.again != nil {
		a.again.Stop()
	}
	if a.cancel != nil {
		a.cancel()
	}
}

// Run tests until ctx is done, and returns when no test runs any more.
func (t *Tester) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for range t.cfg.Tenants {
		running.Go(func() {
			for {
				a, within := t.next(ctx)
				if a == nil {
					return
				}
				t.test(within, a)
				t.leave(a)
			}
		})
	}
	running.Wait()
	return nil
}

// Results returns what has come of the candidates that have tests, in no particular order.
func (t *Tester) Results() []Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Result, 0, len(t.of))
	for _, a := range t.of {
		list = append(list, a.Result)
	}
	return list
}

// test runs the next test of an attempt, and sees that it goes on.
func (t *Tester) test(ctx context.Context, a *attempt) {
	next := a.tests[0]
	err, sure := t.run(ctx, a, next)
	switch {
	case ctx.Err() != nil: // it is over, or the agent stops
	case !sure:
		t.later(a, next, err)
	case err != nil || len(a.tests) == 1:
		t.finish(a, err)
	default:
		t.goOn(a)
	}
}

// goOn has the attempt go on with the test after the one that has passed, when it is its
// tenant's turn again.
func (t *Tester) goOn(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !a.over {
		a.tests, a.tried, a.Waiting = a.tests[1:], tried{}, nil
		t.turns.putFirst(a)
	}
}

// How often a test is tried whose end may not be the script's doing.
const (
	maxFaults = 3  // timeouts, which the other calls of a busy node may be the reason for, and errors of the engine
	maxAlone  = 2  // ends of the tenant's process while nothing else ran
	maxEnds   = 10 // of them all: who ran beside it is in quarantine by then, if that was the reason
)

// run runs one test, and returns why it failed. sure says that this is what it comes to,
// and need not be tried again.
func (t *Tester) run(ctx context.Context, a *attempt, next script.Test) (_ *script.Error, sure bool) {
	var reply gateway.Reply
	call := gateway.Call{Script: script.Ref{Name: a.Script, Version: a.Version}.String(), Args: [][]byte{expect.Argument(next)}}
	err := t.cfg.Execute(ctx, &call, &reply)
	verdict := expect.Check(next, &reply, err)
	if verdict == nil {
		return nil, true
	}
	a.tried.times++
	switch kind := script.KindOf(err); {
	case err == nil || kind == script.Script || kind == script.Limit || kind == script.Invalid:
		return verdict, true
	case kind == script.Timeout || kind == script.Internal:
		a.tried.faults++
		return verdict, a.tried.faults >= maxFaults
	}
	ended, alone := t.cfg.Ended(err)
	if ended {
		a.tried.ends++
	}
	if ended && alone {
		a.tried.alone++
	}
	return verdict, a.tried.alone >= maxAlone || a.tried.ends >= maxEnds
}

// Bounds of the pause before a test is tried again.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 10 * time.Second
)

// later has the attempt go on after a pause, in which others have their turn.
func (t *Tester) later(a *attempt, next script.Test, err *script.Error) {
	pause := min(pauseMax, pauseMin<<min(a.tried.times-1, 10))
	level := slog.LevelDebug
	if pause == pauseMax && pauseMin<<min(a.tried.times-2, 10) < pauseMax {
		level = slog.LevelWarn // once
	}
	t.cfg.Log.Log(context.Background(), level, "a test of a candidate cannot be run; it is tried again, and the rollout waits for it",
		"script", a.Script.String(), "version", a.Version, "test", next.Name, "tried", a.tried.times, "error", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.over {
		return
	}
	a.Waiting = err
	a.again = time.AfterFunc(pause, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !a.over {
			t.enqueue(a)
		}
	})
}

// finish notes what came of an attempt.
func (t *Tester) finish(a *attempt, err *script.Error) {
	t.mu.Lock()
	over := a.over
	if !over {
		a.Tested, a.Err, a.Waiting, a.tests = true, err, nil, nil
	}
	t.mu.Unlock()
	if over {
		return
	}
	if err != nil {
		t.cfg.Log.Warn("a candidate fails a test here", "script", a.Script.String(), "version", a.Version, "attempt", a.Attempt, "error", err)
	} else {
		t.cfg.Log.Debug("a candidate passes its tests here", "script", a.Script.String(), "version", a.Version, "attempt", a.Attempt)
	}
	t.cfg.Changed()
}
