package admission

import "time"

// acquireExtra reports whether a call of the tenant that begins may have a turn although all
// are given out.
func (g *Gate) acquireExtra(tn *tenant, now time.Duration) bool {
	return g.steal(tn, now) || g.spare(tn, now)
}

// spare reports whether a call that begins may have a turn more than there are: if all
// calls in progress began less than a slice ago, as most are over by then. Tick has it
// back after a slice; so the tenant's calls must be known to yield.
func (g *Gate) spare(tn *tenant, now time.Duration) bool {
	if len(g.turns) != g.running || g.late != nil || g.stats.Paused > 0 || !tn.yields || tn.background {
		return false
	}
	for _, t := range g.turns {
		if now-t.first >= slice {
			return false
		}
	}
	return true
}

// steal takes a turn for a call of the tenant from the call whose tenant has used the
// most, if that is more by a slice. The new call need not wait until the other has
// noticed: one processor more than there are turns is there for that, and so for one
// such call at a time.
func (g *Gate) steal(tn *tenant, now time.Duration) bool {
	if g.late != nil {
		return false
	}
	most := g.costliest(tn)
	if most == nil || !most.bound.Load() {
		return false
	}
	g.take(most, now)
	g.late = most
	most.state = late
	most.ask()
	return true
}

// askFor has the call that costs the others the most asked for its turn, if t waits
// and is the one that its tenant would get it for.
func (g *Gate) askFor(t *Turn, now time.Duration) {
	if t.state != waiting || t.tenant.next(now, g.running) != t {
		return
	}
	if most := g.costliest(t.tenant); most != nil {
		most.ask()
	}
}

// costliest returns the call that has a turn and whose tenant has used the most, and
// more than tn by a slice; nil if there is none. Those that are asked for it anyway
// do not count.
func (g *Gate) costliest(tn *tenant) (most *Turn) {
	for _, t := range g.turns {
		if !t.asked && (most == nil || t.tenant.cost() > most.tenant.cost()) {
			most = t
		}
	}
	if most == nil || most.tenant.cost() <= tn.cost()+slice {
		return nil
	}
	return most
}

// restore gives its turn back to the call that has not noticed that it has lost it.
// It may notice now, and then yields for nothing.
func (g *Gate) restore(now time.Duration) {
	t := g.late
	g.late = nil
	g.charge(t, now)
	g.give(t, now)
}
