package fleet

import "time"

// maxForeign is how many agents of other fleets are known by name.
const maxForeign = 1000

// foreigner is an agent that belongs to another fleet, as it last reported: it keeps what
// that fleet gave it, and takes nothing of this one.
type foreigner struct {
	agent Agent
	heard time.Time
}

// hearForeign takes in a report of an agent of another fleet. It changes nothing but the
// list of agents.
func (f *Fleet) hearForeign(r *Report) {
	a := f.agents[r.Agent]
	if f.claimed(a, r, f.now()) {
		f.ignored.OtherIdentity++
		return
	}
	if !f.accepts(a, r, f.now()) {
		f.ignored.Stale++
		return
	}
	f.ignored.Foreign++
	if r.Leaving || r.Fleet == "" { // an agent without a fleet will belong to this one
		delete(f.foreign, r.Agent)
		return
	}
	if _, known := f.foreign[r.Agent]; !known && len(f.foreign) >= maxForeign {
		return
	}
	f.foreign[r.Agent] = foreigner{heard: f.now(), agent: Agent{
		Name: r.Agent, Fleet: r.Fleet, Labels: r.Labels, Software: r.Software, Activated: r.Activated,
		Tenants: r.Tenants, DiskKeys: r.DiskKeys, Drifts: r.Drifts, Disk: r.Disk,
	}}
}

// forgetForeign drops the agents of other fleets that are not heard any more.
func (f *Fleet) forgetForeign(now time.Time) {
	for name, a := range f.foreign {
		if now.Sub(a.heard) >= f.cfg.UnknownAfter {
			delete(f.foreign, name)
		}
	}
}

// listed returns the agent of the name as the list has it. One that belongs to another fleet
// now is one of that.
func (l *lags) listed(name string) Agent {
	own := l.fleet.agents[name]
	if other, ok := l.fleet.foreign[name]; ok && (own == nil || own.heard.Before(other.heard)) {
		a := other.agent
		a.UnheardFor = max(0, l.now.Sub(other.heard))
		return a
	}
	return l.describe(own)
}
