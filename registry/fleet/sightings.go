package fleet

import (
	"time"
)

// Sighting is news of an agent.
type Sighting struct {
	Agent string
	What  News
}

// News is what became of an agent.
type News string

// The news.
const (
	Joined        News = "joined"
	Left          News = "left" // in good order
	Lost          News = "lost" // it is unknown
	Back          News = "back" // after it was lost
	DriftFound    News = "found"
	DriftRepaired News = "repaired"
)

// presence is what was told of an agent last.
type presence int

const (
	untold presence = iota
	isHere
	isLost
)

// Observe has see be called with each sighting from now on, and before that with those that a replica before
// this one may not have told of: the memory does not have them yet. It is called with the fleet locked and
// must not call back. nil ends it.
//
// Call it once everything is recalled.
func (f *Fleet) Observe(see func(Sighting)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.see = see
	for name, known := range f.memory.agents {
		a := f.agents[name]
		switch {
		case a == nil || known.fleet != f.id:
		case a.told == isLost && known.connected:
			f.sight(name, Lost)
		case a.told == isHere && !known.connected:
			f.sight(name, Back)
		}
	}
}

func (f *Fleet) sight(agent string, what News) {
	if f.see != nil {
		f.see(Sighting{Agent: agent, What: what})
	}
}

// seen notes that the agent is here, and what its report says of drifts.
func (f *Fleet) seen(a *agent, r *Report) {
	switch a.told {
	case isLost:
		f.sight(r.Agent, Back)
	case untold:
		if f.isRecalled() { // else it may be one that is known
			f.sight(r.Agent, Joined)
		}
	}
	a.told = isHere
	found, repaired := a.report.Drifts, a.report.RepairedDrifts
	switch {
	case a.report.Incarnation == "" || a.remembered: // nobody knows how many of them are news
		return
	case a.report.Incarnation != r.Incarnation:
		found, repaired = 0, 0
	}
	if r.Drifts > found {
		f.sight(r.Agent, DriftFound)
	}
	if r.RepairedDrifts > repaired {
		f.sight(r.Agent, DriftRepaired)
	}
}

// miss notes that the agent is lost if it is unheard for too long.
func (f *Fleet) miss(a *agent, now time.Time) {
	if a.told == isHere && now.Sub(a.heard) >= f.cfg.UnknownAfter {
		a.told = isLost
		f.sight(a.report.Agent, Lost)
	}
}

// remind notes what others may have told of the agent, which was not heard here.
func (a *agent) remind(connected bool) {
	a.told = isLost
	if connected {
		a.told = isHere
	}
}

func (f *Fleet) isRecalled() bool {
	select {
	case <-f.memory.recalled:
		return true
	default:
		return false
	}
}
