package fleet

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// held is a report that names revisions which are not known here yet: agents follow the same
// feed, and can be faster. It is taken in when they are known. If they never are, it is a lie.
type held struct {
	report Report
	at     time.Time
}

// claims returns the highest revision that the report says to know of.
func (r *Report) claims() script.Revision {
	highest := r.Activated
	for i := range r.Failures {
		highest = max(highest, r.Failures[i].Revision)
	}
	for i := range r.Trials {
		highest = max(highest, script.Revision(min(r.Trials[i].Attempt, uint64(never)))) // attempts are numbered by revisions
	}
	return highest
}

// overtakes reports whether r is newer than another report of the agent.
func (r *Report) overtakes(other *Report) bool {
	if r.Incarnation == other.Incarnation {
		return r.Sequence >= other.Sequence
	}
	return r.Session > other.Session
}

// hold keeps the report until what it names is known. That the agent reports is known already.
func (f *Fleet) hold(a *agent, r Report, at time.Time) {
	f.ahead[r.Agent] = held{report: r, at: at}
	if a != nil && !a.unknown && a.report.Incarnation == r.Incarnation {
		a.heard = at
	}
}

// catchUp takes in the reports that waited for what is known now.
func (f *Fleet) catchUp() {
	for name, e := range f.ahead {
		if e.report.claims() <= f.head {
			delete(f.ahead, name)
			f.hear(e.report, e.at)
		}
	}
}

// giveUpAhead drops the reports of what nobody has heard of for too long.
func (f *Fleet) giveUpAhead(now time.Time) {
	for name, e := range f.ahead {
		if now.Sub(e.at) >= f.cfg.UnknownAfter {
			delete(f.ahead, name)
			f.ignored.Impossible++
		}
	}
}

// hasRoom reports whether one more agent of the identity can be known. Reports that wait count
// as agents.
func (f *Fleet) hasRoom(identity string) bool {
	known := len(f.agents) + len(f.ahead)
	return known < f.cfg.MaxAgents && (identity == "" || f.identity[identity] < max(1, f.cfg.MaxAgents/2))
}

// identify notes whose agent it is.
func (f *Fleet) identify(a *agent, identity string) {
	if a.identity == identity {
		return
	}
	if a.identity != "" {
		if f.identity[a.identity]--; f.identity[a.identity] == 0 {
			delete(f.identity, a.identity)
		}
	}
	if a.identity = identity; identity != "" {
		f.identity[identity]++
	}
}
