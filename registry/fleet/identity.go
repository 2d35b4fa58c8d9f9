package fleet

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// speaker is an identity that reports for an agent. What one says orders nothing of another.
type speaker struct{ agent, identity string }

func (r *Report) speaker() speaker { return speaker{r.Agent, r.Identity} }

// says reports whether the report is of the incarnation that was heard last.
func (a *agent) says(r *Report) bool {
	return a.report.Incarnation == r.Incarnation && a.report.Identity == r.Identity
}

// claimed reports whether the agent belongs to another identity than the report: the first one
// keeps the name for as long as it is heard, and nobody else says that the agent leaves.
func (f *Fleet) claimed(a *agent, r *Report, now time.Time) bool {
	if a == nil || a.report.Identity == "" || a.report.Identity == r.Identity {
		return false
	}
	return r.Leaving || now.Sub(a.heard) < f.cfg.UnknownAfter
}

// departure is an agent that said that it leaves: neither what is still under way from
// that incarnation, nor what an older one said, brings it back.
type departure struct {
	incarnation string
	session     script.Revision
	at          time.Time
}

// departedFor is how long departures are known: for longer than sessions last.
const departedFor = 30 * time.Minute

func (f *Fleet) depart(a *agent, r *Report, at time.Time) {
	who := r.speaker()
	delete(f.ahead, who)
	if len(f.departed) < f.cfg.MaxAgents {
		f.departed[who] = departure{incarnation: r.Incarnation, session: r.Session, at: at}
	}
	if a != nil {
		f.forget(a)
		f.settle(f.now())
		f.touch()
	}
}

// accepts reports whether r is newer than what is known. Sequences order what was said in one
// session: the next one begins anew, so that a huge number shuts nobody out for long.
func (f *Fleet) accepts(a *agent, r *Report, now time.Time) bool {
	if d, ok := f.departed[r.speaker()]; ok && (d.incarnation == r.Incarnation || r.Session < d.session) {
		return false
	}
	if e, ok := f.ahead[r.speaker()]; ok && e.report.overtakes(r) {
		return false
	}
	if a == nil {
		return true
	}
	if r.Session < a.report.Session {
		return false // somebody repeats what was said before
	}
	if a.says(r) {
		return r.Session > a.report.Session || r.Sequence > a.report.Sequence
	}
	for _, old := range a.before {
		// Two agents of one name: the newer one counts while it is heard.
		if old == r.Incarnation && !a.unknown && now.Sub(a.heard) < f.cfg.UnknownAfter {
			return false
		}
	}
	return true
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
