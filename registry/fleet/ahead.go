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
	if r.Session != other.Session {
		return r.Session > other.Session
	}
	return r.Incarnation == other.Incarnation && r.Sequence >= other.Sequence
}

// hold keeps the report until what it names is known. That the agent reports is known already.
func (f *Fleet) hold(a *agent, r Report, at time.Time) {
	f.ahead[r.speaker()] = held{report: r, at: at}
	if a != nil && !a.unknown && a.says(&r) {
		a.heard = at
	}
}

// catchUp takes in the reports that waited for what is known now.
func (f *Fleet) catchUp() {
	for who, e := range f.ahead {
		if e.report.claims() <= f.head {
			delete(f.ahead, who)
			f.hear(e.report, e.at)
		}
	}
}

// giveUpAhead drops the reports of what nobody has heard of for too long.
func (f *Fleet) giveUpAhead(now time.Time) {
	for who, e := range f.ahead {
		if now.Sub(e.at) >= f.cfg.UnknownAfter {
			delete(f.ahead, who)
			f.ignored.Impossible++
		}
	}
}
