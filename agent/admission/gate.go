// Package admission decides which calls run and which wait.
//
// A gate gives out a fixed number of turns on the machine's processors. As long as
// one is free, a call takes it and goes. Otherwise calls wait in their tenant's
// queue, and the next turn is for the tenant that has used the least processor time.
// A call that has a turn is asked to give it back, and goes on later, when a call
// arrives of a tenant that has used less, and after each slice as long as somebody
// waits: so what a call waits for is not how long others run, but how many tenants
// want to run.
//
// What counts as used is the tenant's pace. While it wants to run, its pace is the
// processor time that it gets; while it does not, it keeps up with those who do, but
// for a credit. So tenants that want to run all the time get equal shares, those that
// want less than that go before them, and nobody is made to pay for having used what
// nobody else wanted.
package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// patience is how long a call waits for its first turn when its caller sets no
	// deadline: longer than a busy processor makes it wait, and short enough that a
	// gateway still has somebody to answer.
	patience = time.Second
	// slice is how long a call keeps its turn while others wait.
	slice = time.Millisecond
	// credit is how far a tenant that comes back is behind those who are there.
	credit = 10 * time.Millisecond
)

// Config of a Gate.
type Config struct {
	// Running calls have a turn at once, and one more as long as none of them has had
	// its turn for a millisecond: most calls are over before. For the moment that a call
	// takes to notice that its turn was taken, one more may run.
	Running int
	// Waiting calls wait for one, calls that gave their turn back not counted; one
	// tenant's are at most half of them, or one.
	Waiting int
}

// Gate gives out turns. It is safe for concurrent use.
type Gate struct {
	running, waiting, perTenant int
	epoch                       time.Time
	standBack                   func()

	mu      sync.Mutex
	turns   []*Turn // those that were given out
	late    *Turn   // of a call from which it was taken, and that has not noticed
	tenants map[string]*tenant
	sweepAt int           // so many tenants call for a look at who is gone
	queues  []*tenant     // those with calls that wait
	fresh   int           // calls that wait and have not begun
	bounded int           // turns given out to tenants with a bucket
	pace    time.Duration // of those who get turns
	timer   *time.Timer   // calls tick, a slice after somebody needs it
	ticking bool
	stats   Stats
	refused [reasons]uint64
}

// Stats of a gate.
type Stats struct {
	Running int // calls that have a turn
	Waiting int // calls that wait for their first one
	Paused  int // calls that gave theirs back and wait to go on

	Pauses     uint64            // how often a turn was given back
	Used       time.Duration     // for how long turns were held, all together
	Overloaded map[string]uint64 // calls that were refused, or waited too long, by reason
}

// New returns a gate. It needs no closing: it has a timer while calls wait, and no
// goroutine of its own.
func New(cfg Config) *Gate {
	g := &Gate{
		running:   max(cfg.Running, 1),
		waiting:   max(cfg.Waiting, 1),
		perTenant: max(cfg.Waiting/2, 1),
		epoch:     time.Now(),
		standBack: standBack,
		tenants:   map[string]*tenant{},
		sweepAt:   firstSweep,
	}
	g.turns = make([]*Turn, 0, g.running)
	return g
}

// Call says for whom a turn is.
type Call struct {
	Tenant, Script string
	// Concurrency is how many calls of the script may be in progress; 0 means any number.
	Concurrency int
	// Timeout of the call, from when its engine binds the turn.
	Timeout time.Duration
	// Settings of the tenant.
	Settings *script.TenantSettings
	// Background calls begin only while a turn is free, and go on only while no other call wants to. Among them, too, the
	// tenant that has used the least comes first. They do not wait to begin: Enter refuses them. All calls of one Tenant are alike.
	Background bool
	// GoesOn is a call in the background that is part of what an earlier one began. It begins also if its
	// tenant has used up its processor time.
	GoesOn bool
}

// Enter returns nil when it is the call's turn; the caller then calls t.Leave, and
// may use t for another call after. It waits until ctx is done, or for a second. Its
// errors are *script.Error of kind Overloaded, or Timeout if ctx was done at first.
func (g *Gate) Enter(ctx context.Context, t *Turn, call *Call) error {
	if ctx.Err() != nil {
		return ended(ctx, script.Timeout, "before it began")
	}
	t.begin(ctx, g, *call)
	g.mu.Lock()
	now := g.now()
	if g.try(t, now) {
		g.mu.Unlock()
		return nil
	}
	if call.Background {
		g.mu.Unlock()
		return errBusy
	}
	if err := g.queue(t); err != nil {
		g.mu.Unlock()
		return err
	}
	g.dispatch(now)
	g.askFor(t, now)
	g.need()
	g.mu.Unlock()
	if !t.wait(patience) {
		return g.tooLong(t)
	}
	if t.refused != nil {
		return t.refused
	}
	return nil
}

// errBusy is the error of a background call that cannot begin now.
var errBusy = &script.Error{Kind: script.Overloaded, Field: "background", Message: "no turn is free for a call in the background"}

// try gives the call a turn if it need not wait for one.
func (g *Gate) try(t *Turn, now time.Duration) bool {
	full := len(g.turns) >= g.running
	if full {
		g.settle(now)
	}
	t.tenant = g.tenant(t.call.Tenant, t.call.Settings, now)
	t.tenant.background = t.call.Background
	mayGo := len(t.tenant.queue) == 0 && (!t.tenant.background || !g.before(t.tenant)) && t.tenant.blocks(t, now) == free
	if !mayGo || full && !g.acquireExtra(t.tenant, now) {
		return false
	}
	g.give(t, now)
	return true
}

// before reports whether a tenant that waits comes before one in the background that begins.
func (g *Gate) before(tn *tenant) bool {
	return slices.ContainsFunc(g.queues, func(other *tenant) bool { return other.cost() <= tn.cost() })
}

// tooLong returns the error of a call that has waited for its first turn in vain.
func (g *Gate) tooLong(t *Turn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	why := t.tenant.blocks(t, g.now())
	switch {
	case t.ctx.Err() == nil && why == free:
		return g.refuse(t, processors)
	case t.ctx.Err() == nil:
		return g.refuse(t, why)
	}
	g.refused[caller]++
	err := ended(t.ctx, script.Overloaded, "while it waited for its turn")
	if why != free {
		err.Field, err.Message = why.field(), err.Message+"; "+why.message(g, t)
	}
	return err
}

// now returns the time since the gate was made.
func (g *Gate) now() time.Duration { return time.Since(g.epoch) }

// queue puts a new call behind those that wait, or refuses it. When there is no room
// at all, the tenant with the most waiting calls makes some.
func (g *Gate) queue(t *Turn) *script.Error {
	if t.tenant.fresh >= g.perTenant {
		return g.refuse(t, tenantFull)
	}
	if g.fresh >= g.waiting {
		longest := g.longest()
		if longest == nil || longest.fresh <= t.tenant.fresh+1 {
			return g.refuse(t, allFull)
		}
		last := longest.newest()
		g.remove(last)
		last.refused = g.refuse(last, crowdedOut)
		last.granted <- struct{}{}
	}
	g.add(t)
	return nil
}

// longest returns the tenant with the most calls that wait and have not begun.
func (g *Gate) longest() (longest *tenant) {
	for _, tn := range g.queues {
		if longest == nil || tn.fresh > longest.fresh {
			longest = tn
		}
	}
	return longest
}

// add puts a call at the end of its tenant's queue.
func (g *Gate) add(t *Turn) {
	if len(t.tenant.queue) == 0 {
		g.queues = append(g.queues, t.tenant)
	}
	if t.granted == nil {
		t.granted = make(chan struct{}, 1)
	}
	t.state = waiting
	t.tenant.queue = append(t.tenant.queue, t)
	if t.begun {
		t.tenant.parked++
		if !t.tenant.background { // nothing else waits because of it
			g.stats.Paused++
		}
		return
	}
	t.tenant.fresh++
	g.fresh++
}

// remove takes a call out of its tenant's queue.
func (g *Gate) remove(t *Turn) {
	tn := t.tenant
	tn.queue = without(tn.queue, t)
	if len(tn.queue) == 0 {
		g.queues = without(g.queues, tn)
	}
	t.state = out
	if t.begun {
		tn.parked--
		if !tn.background {
			g.stats.Paused--
		}
		return
	}
	tn.fresh--
	g.fresh--
}

// without removes v from s, which has it, and keeps the others' order.
func without[E comparable](s []E, v E) []E {
	i := slices.Index(s, v)
	return slices.Delete(s, i, i+1)
}

// give gives a turn to a call that does not wait.
func (g *Gate) give(t *Turn, now time.Duration) {
	t.state, t.since, t.charged, t.asked = running, now, now, false
	t.wanted.Store(false)
	g.turns = append(g.turns, t)
	g.pace = max(g.pace, t.tenant.pace)
	if !t.begun {
		t.begun, t.first = true, now
		t.tenant.begin(t)
	}
	if t.tenant.rate > 0 {
		t.bounded = true
		g.bounded++
	}
	g.need()
}

// take takes the turn from a call that has one.
func (g *Gate) take(t *Turn, now time.Duration) {
	g.charge(t, now)
	i := slices.Index(g.turns, t)
	last := len(g.turns) - 1
	g.turns[i] = g.turns[last]
	g.turns[last] = nil
	g.turns = g.turns[:last]
	t.state = out
	if t.bounded {
		t.bounded = false
		g.bounded--
	}
}

// end takes the turn from a call that knows, if it has one.
func (g *Gate) end(t *Turn, now time.Duration) {
	switch t.state {
	case running:
		g.take(t, now)
	case late:
		g.late = nil
		g.charge(t, now)
		t.state = out
	}
}

// charge has the call's tenant pay for the turn so far.
func (g *Gate) charge(t *Turn, now time.Duration) {
	used := now - t.charged
	t.charged = now
	g.stats.Used += used
	t.used += used
	t.tenant.pace = max(t.tenant.pace+used, g.pace-credit)
	if t.tenant.pace > g.pace && !g.deprives(t.tenant, now) {
		g.pace = t.tenant.pace
	}
	t.tenant.drain(used, now)
}

// deprives reports whether a call waits that could have what the tenant uses.
func (g *Gate) deprives(tn *tenant, now time.Duration) bool {
	return slices.ContainsFunc(g.queues, func(other *tenant) bool {
		return (tn.background || !other.background) && other.next(now, g.running) != nil
	})
}

// settle charges all calls that have a turn, so that who has used how much can be
// compared.
func (g *Gate) settle(now time.Duration) {
	for _, t := range g.turns {
		g.charge(t, now)
	}
}

// dispatch gives out the turns that are free.
func (g *Gate) dispatch(now time.Duration) {
	for len(g.turns) < g.running {
		t := g.pick(now)
		if g.late != nil && (t == nil && !g.late.tenant.background || t != nil && g.late.tenant.cost() < t.tenant.cost()) {
			g.restore(now)
			continue
		}
		if t == nil {
			return
		}
		g.grant(t, now)
	}
	if t := g.pick(now); t != nil && !t.begun && g.spare(t.tenant, now) {
		g.grant(t, now)
	}
}

// grant gives a turn to a call that waits.
func (g *Gate) grant(t *Turn, now time.Duration) {
	g.remove(t)
	g.give(t, now)
	t.granted <- struct{}{}
}

// resume lets a call in the background go on, if a turn is free that no other call wants. It is called once in a slice, and when
// one in the background yields: the next call takes the turn away again, and each change of hands costs that call.
func (g *Gate) resume(now time.Duration) {
	if t := g.parked(now); t != nil && len(g.turns) < g.running && g.late == nil {
		g.grant(t, now)
	}
}

// parked returns the call in the background that is to go on next, or nil if none can.
func (g *Gate) parked(now time.Duration) (next *Turn) {
	for _, tn := range g.queues {
		if !tn.background || next != nil && tn.pace >= next.tenant.pace {
			continue
		}
		if t := tn.next(now, g.running); t != nil {
			next = t
		}
	}
	return next
}

// pick returns the call that is to run next, or nil if none may. Calls in the background resume elsewhere.
func (g *Gate) pick(now time.Duration) (next *Turn) {
	for _, tn := range g.queues {
		if tn.background {
			continue
		}
		tn.pace = max(tn.pace, g.pace-credit) // it may have waited for something else
		if next != nil && tn.pace >= next.tenant.pace {
			continue
		}
		if t := tn.next(now, g.running); t != nil {
			next = t
		}
	}
	return next
}

// need has tick called in a slice, if there is something to do for it.
func (g *Gate) need() {
	if g.ticking || len(g.queues) == 0 && g.bounded == 0 && len(g.turns) <= g.running {
		return
	}
	g.ticking = true
	if g.timer == nil {
		g.timer = time.AfterFunc(slice, g.tick)
		return
	}
	g.timer.Reset(slice)
}

// tick asks for the turns of calls that had theirs for a slice and for which others
// wait, and of those whose tenants' buckets are empty.
func (g *Gate) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ticking = false
	now := g.now()
	g.settle(now)
	g.dispatch(now)
	g.resume(now)
	next := cmp.Or(g.pick(now), g.parked(now))
	oneTooMany := len(g.turns) > g.running // it was lent for a slice
	wanted := len(g.queues)
	if oneTooMany {
		wanted++
	}
	for _, t := range g.turns {
		hadSlice := now-t.since >= slice
		hasTurnOfNext := next != nil && next.tenant.cost() <= t.tenant.cost()
		switch {
		case t.asked:
			wanted--
		case t.tenant.starves(t, now):
			t.ask()
		case wanted > 0 && hadSlice && (oneTooMany || hasTurnOfNext):
			t.ask()
			wanted--
		}
	}
	g.need()
}

// refuse counts a refusal and returns its error.
func (g *Gate) refuse(t *Turn, why reason) *script.Error {
	g.refused[why]++
	return &script.Error{Kind: script.Overloaded, Field: why.field(), Message: why.message(g, t) + ": try again"}
}

// Stats returns what the gate does and did.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Running, s.Waiting = len(g.turns), g.fresh
	s.Overloaded = make(map[string]uint64, len(g.refused))
	for why, n := range g.refused[free+1:] {
		s.Overloaded[Reasons()[why]] = n
	}
	return s
}
