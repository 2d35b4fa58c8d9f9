package admission

import (
	"math"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// saved is for how long a tenant may save up processor time that it does not use.
const saved = time.Second

// firstSweep is how many tenants are known before the idle ones are forgotten.
const firstSweep = 1024

// tenant is who waits, runs, and pays. The gate's mutex guards it.
type tenant struct {
	pace       time.Duration // see the package's comment
	background bool          // it runs only while no other tenant wants to

	queue  []*Turn // in order of arrival, and of giving the turn back
	fresh  int     // of the queue, those that have not begun
	parked int     // of the queue, those that have

	yields bool // its calls give their turns back when they are asked

	inProgress  int            // calls that have begun
	scripts     map[string]int // of these, by script, for scripts that bound them
	concurrency int            // calls that may be in progress; 0 means any number

	rate   float64       // seconds of processor time for each second; 0 means no bound
	bucket time.Duration // what is left of them; negative if more was used
	filled time.Duration // when the bucket was filled up last
}

// tenant returns the tenant with the name, under these settings from now on.
func (g *Gate) tenant(name string, settings *script.TenantSettings, now time.Duration) *tenant {
	tn := g.tenants[name]
	if tn == nil {
		if len(g.tenants) >= g.sweepAt {
			g.sweep(now)
		}
		tn = &tenant{}
		g.tenants[name] = tn
	}
	if tn.inProgress == 0 && len(tn.queue) == 0 {
		tn.pace = max(tn.pace, g.pace-credit)
	}
	tn.concurrency = settings.Concurrency
	const thousandths = 1000
	rate := float64(settings.CPU) / thousandths
	if rate != tn.rate {
		tn.fill(now)
		if tn.rate == 0 {
			tn.bucket, tn.filled = tn.most(rate), now
		}
		tn.rate = rate
		tn.bucket = min(tn.bucket, tn.most(rate))
	}
	return tn
}

// cost is what tenants are compared by: the one with the lowest gets the next turn.
func (tn *tenant) cost() time.Duration {
	if tn.background {
		return math.MaxInt64/2 + tn.pace // more than any pace, also with a slice added
	}
	return tn.pace
}

// sweep forgets tenants of which nothing is left to remember.
func (g *Gate) sweep(now time.Duration) {
	for name, tn := range g.tenants {
		tn.fill(now)
		if tn.inProgress == 0 && len(tn.queue) == 0 && tn.pace <= g.pace-credit &&
			tn.bucket == tn.most(tn.rate) {
			delete(g.tenants, name)
		}
	}
	g.sweepAt = max(firstSweep, 2*len(g.tenants))
}

// most is what the bucket holds at a rate.
func (*tenant) most(rate float64) time.Duration { return time.Duration(rate * float64(saved)) }

// fill adds to the bucket what came in since it was filled last.
func (tn *tenant) fill(now time.Duration) {
	if tn.rate == 0 {
		return
	}
	tn.bucket = min(tn.bucket+time.Duration(tn.rate*float64(now-tn.filled)), tn.most(tn.rate))
	tn.filled = now
}

// drain takes what was used out of the bucket.
func (tn *tenant) drain(used, now time.Duration) {
	if tn.rate == 0 {
		return
	}
	tn.fill(now)
	tn.bucket -= used
}

// Charge has the tenant pay for work for which it had no turn.
func (g *Gate) Charge(name string, settings *script.TenantSettings, used time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.tenant(name, settings, now).drain(used, now)
}

// empty reports whether the tenant has used up its processor time.
func (tn *tenant) empty(now time.Duration) bool {
	if tn.rate == 0 {
		return false
	}
	tn.fill(now)
	return tn.bucket <= 0
}

// starves reports whether the tenant has used up its processor time, so that the call does not go on. One
// in the background that has begun does, if no other call wants its turn: those after it wait longer.
func (tn *tenant) starves(t *Turn, now time.Duration) bool {
	goesOn := tn.background && (t.begun || t.call.GoesOn)
	return !goesOn && tn.empty(now)
}

// begin counts a call that begins.
func (tn *tenant) begin(t *Turn) {
	tn.inProgress++
	if t.call.Concurrency > 0 {
		if tn.scripts == nil {
			tn.scripts = map[string]int{}
		}
		tn.scripts[t.call.Script]++
	}
}

// end is for a call that has begun and is over.
func (tn *tenant) end(t *Turn) {
	tn.inProgress--
	if t.call.Concurrency == 0 {
		return
	}
	if tn.scripts[t.call.Script]--; tn.scripts[t.call.Script] == 0 {
		delete(tn.scripts, t.call.Script)
	}
}

// blocks says which bound keeps the call from having a turn; free if none does.
func (tn *tenant) blocks(t *Turn, now time.Duration) reason {
	switch {
	case tn.starves(t, now):
		return cpu
	case t.begun:
		return free
	case tn.concurrency > 0 && tn.inProgress >= tn.concurrency:
		return tenantConcurrency
	case t.call.Concurrency > 0 && tn.scripts[t.call.Script] >= t.call.Concurrency:
		return scriptConcurrency
	}
	return free
}

// next returns the first call in the queue that may have a turn, or nil. Calls begin
// only while no more than parked gave theirs back: what is begun must come to its end
// before its time is up.
func (tn *tenant) next(now time.Duration, parked int) *Turn {
	for _, t := range tn.queue {
		if (t.begun || tn.parked <= parked) && tn.blocks(t, now) == free {
			return t
		}
	}
	return nil
}

// newest returns the last call in the queue that has not begun; there is one.
func (tn *tenant) newest() *Turn {
	for _, t := range slices.Backward(tn.queue) {
		if !t.begun {
			return t
		}
	}
	return nil
}
