package fleet

import (
	"time"
)

// Sighting is a change of an agent.
type Sighting struct {
	Agent string
	What  News
}

// News is the kind of a change.
type News string

// The kinds of changes.
const (
	Joined        News = "joined"
	Left          News = "left" // after a shutdown
	Lost          News = "lost" // the agent is unknown
	Back          News = "back" // after it was lost
	DriftFound    News = "found"
	DriftRepaired News = "repaired"
)

// presence is the last reported state of an agent.
type presence int

const (
	unseen presence = iota
	isHere
	isLost
)

// Observe calls see with each sighting from now on. It first calls see with those that the previous leader may have
// missed: the memory does not have them yet. see is called with the fleet locked, and must not call the Fleet. A nil see
// stops this.
//
// Call Observe when the memory is recalled.
func (f *Fleet) Observe(see func(Sighting)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.see = see
	for name, known := range f.memory.agents {
		a := f.agents[name]
		switch {
		case a == nil || known.fleet != f.id:
		case a.presence == isLost && known.connected:
			f.sight(name, Lost)
		case a.presence == isHere && !known.connected:
			f.sight(name, Back)
		}
	}
}

// sight calls the observer, if there is one. f.mu is held.
func (f *Fleet) sight(agent string, what News) {
	if f.see != nil {
		f.see(Sighting{Agent: agent, What: what})
	}
}

// seen records that the agent is here, and which drifts it reports.
func (f *Fleet) seen(a *agent, r *Report) {
	switch a.presence {
	case isLost:
		f.sight(r.Agent, Back)
	case unseen:
		if f.isRecalled() { // before that, the memory may have the agent
			f.sight(r.Agent, Joined)
		}
	}
	a.presence = isHere
	found, repaired := a.report.Drifts, a.report.RepairedDrifts
	switch {
	case a.report.Incarnation == "" || a.remembered: // nobody knows which of them are new
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

// miss records that the agent is lost if it has not reported for too long.
func (f *Fleet) miss(a *agent, now time.Time) {
	if a.presence == isHere && now.Sub(a.heard) >= f.cfg.UnknownAfter {
		a.presence = isLost
		f.sight(a.report.Agent, Lost)
	}
}

// remind sets the presence of an agent that has not reported here, from the memory.
func (a *agent) remind(connected bool) {
	a.presence = isLost
	if connected {
		a.presence = isHere
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
