package fleet

import "time"

// Sweep marks agents as unknown that have not reported for too long, and completes roll calls. Call it a few times a
// second.
func (f *Fleet) Sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.gathered(now)
	lost := false
	f.troubles = Troubled{}
	for _, g := range f.groups {
		g.late = 0
	}
	for _, a := range f.agents {
		f.miss(a, now)
		if !a.unknown && now.Sub(a.heard) >= f.cfg.UnknownAfter {
			f.unheard(a, now)
			f.disconnect(a)
			f.note(a.report.Agent)
			lost = true
		}
		f.countTrouble(a)
		switch {
		case f.expired(a, now) && f.drop(a):
			lost = true
		case f.late(a, now):
			a.group.late++
		}
	}
	f.noteOutages(now)
	for who, d := range f.departed {
		if now.Sub(d.at) >= departedFor {
			f.unDepart(who)
		}
	}
	f.forgetForeign(now)
	f.giveUpAhead(now)
	if now.Sub(f.trimmed) >= time.Minute {
		f.trimmed = now
		f.dropTombstones(now)
	}
	if lost {
		f.settle(now)
	}
	over := f.frozen != f.freeze.On(now)
	f.frozen = f.frozen != over
	if lost || over || f.clockIsSet(now) || f.counted && now.Sub(f.countedAt) >= countInterval {
		f.counted, f.countedAt = false, now
		f.touch()
	}
}

// clockIsSet reports whether somebody has set the clock since the last call. Timers do not follow the wall clock, so
// goroutines that wait for a stored time must read the clock again then.
func (f *Fleet) clockIsSet(now time.Time) bool {
	before := f.swept
	f.swept = now
	by := now.Round(0).Sub(before.Round(0)) - now.Sub(before) // wall clock minus monotonic clock
	return by.Abs() >= time.Second
}

// expired reports whether the agent has been unknown for DropAfter.
func (f *Fleet) expired(a *agent, now time.Time) bool {
	return a.unknown && now.Sub(a.heard) >= f.cfg.UnknownAfter+f.cfg.DropAfter
}

// drop removes an expired agent, and reports whether it did. If the memory has the agent, it is removed from the memory
// first: then all replicas remove it together.
func (f *Fleet) drop(a *agent) bool {
	if _, ok := f.memory.agents[a.report.Agent]; ok {
		f.note(a.report.Agent)
		return false
	}
	f.forget(a)
	return true
}
