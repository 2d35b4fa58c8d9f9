package admission

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// state of a turn.
type state uint8

const (
	out     state = iota // it neither waits nor runs
	waiting              // in its tenant's queue
	running              // it was given out
	late                 // it was taken, and the call has not noticed
)

// Turn is one call's turn: what Enter gives, and Leave gives back. The zero Turn is
// ready for use, and one can be used for call after call. It must not be copied.
type Turn struct {
	gate    *Gate
	ctx     context.Context
	call    Call
	granted chan struct{} // has one element each time that a wait ended well, or by refused
	timer   *time.Timer
	clock   time.Duration // when the engine's began, by the gate's
	waited  time.Duration // between its turns
	used    time.Duration // of its turns; guarded by gate.mu until it leaves

	breathAt time.Duration // when it stands back next, at the earliest

	// set is how the engine is asked; it is there once bound is true. Who asks first
	// stores wanted, then looks at bound; who binds stores bound, then looks at wanted.
	set    func()
	bound  atomic.Bool
	wanted atomic.Bool

	// Guarded by gate.mu.
	tenant  *tenant
	state   state
	begun   bool // it had its first turn
	asked   bool // to give this turn back
	bounded bool // it is counted in gate.bounded
	refused *script.Error
	first   time.Duration // when its first turn began
	since   time.Duration // when its present turn began
	charged time.Duration // until when its tenant has paid
}

var _ engine.Turn = (*Turn)(nil)

// begin makes t ready for a call.
func (t *Turn) begin(ctx context.Context, g *Gate, call Call) {
	t.gate, t.ctx, t.call = g, ctx, call
	t.waited, t.used, t.begun, t.refused = 0, 0, false, nil
	t.bound.Store(false)
}

// Bind is engine.Turn's. The engine's clock has begun: a call that then waits for its
// whole timeout in vain has outlived it.
func (t *Turn) Bind(ask func()) {
	t.set, t.clock = ask, t.gate.now()
	t.breathAt = t.clock + breath
	t.bound.Store(true)
	if t.wanted.Load() {
		ask()
	}
}

// ask asks for the turn. The gate's mutex is held, and the call is running: so it
// cannot be another one that is asked.
func (t *Turn) ask() {
	t.asked = true
	t.wanted.Store(true)
	if t.bound.Load() {
		t.set()
	}
}

// Yield is engine.Turn's. It gives up waiting when the call's context is done, or its
// timeout has passed since Bind: the call then has no turn, and its engine, which looks
// at both, ends it. So nothing runs that nobody pays for but its end.
func (t *Turn) Yield() {
	g := t.gate
	g.mu.Lock()
	if t.state != running && t.state != late {
		g.mu.Unlock()
		return
	}
	now := g.now()
	t.asked = false
	t.wanted.Store(false)
	g.settle(now)
	if t.state == running && len(g.queues) == 0 && len(g.turns) <= g.running && !t.tenant.starves(t, now) {
		g.mu.Unlock()
		return
	}
	g.stats.Pauses++
	g.end(t, now)
	g.add(t)
	g.dispatch(now)
	if t.tenant.background {
		g.resume(now)
	}
	g.need()
	g.mu.Unlock()
	t.wait(t.clock + t.call.Timeout - now)
	t.waited += g.now() - now
}

// breath is how long a call runs before it lets other threads have its processor.
const breath = 200 * time.Microsecond

// Breathe is engine.Turn's. A turn is one of a processor's that other threads of the
// machine want as well: those that read requests and write answers, of this process
// and of the callers'. A kernel may leave them waiting for several milliseconds behind
// a thread that computes, but not behind one that stands back. Beside others that
// compute as well it keeps a third of the processor.
func (t *Turn) Breathe() {
	g := t.gate
	now := g.now()
	if now < t.breathAt {
		return
	}
	g.standBack()
	back := g.now()
	t.breathAt = back + max(breath, (back-now)/2)
}

// Waited returns for how long the call waited to go on, since it began.
func (t *Turn) Waited() time.Duration { return t.waited }

// Used returns for how long the call had a turn, once it has left.
func (t *Turn) Used() time.Duration { return t.used }

// Leave gives the turn back for good. It is called once, when the call is over.
func (t *Turn) Leave() {
	g := t.gate
	g.mu.Lock()
	now := g.now()
	g.end(t, now)
	t.tenant.end(t)
	t.tenant.yields = t.bound.Load()
	if len(g.queues) > 0 {
		g.settle(now)
		g.dispatch(now)
	}
	g.mu.Unlock()
	t.ctx, t.set, t.tenant, t.call = nil, nil, nil, Call{}
}

// wait waits until the call, which is in the queue, gets its turn or is refused, or
// ctx is done, or the time is over. Without an answer it is out of the queue.
func (t *Turn) wait(most time.Duration) (answered bool) {
	if t.timer == nil {
		t.timer = time.NewTimer(most)
	} else {
		t.timer.Reset(most)
	}
	defer t.timer.Stop()
	select {
	case <-t.granted:
		return true
	case <-t.ctx.Done():
	case <-t.timer.C:
	}
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.state != waiting { // since then
		<-t.granted
		return true
	}
	t.gate.remove(t)
	return false
}
