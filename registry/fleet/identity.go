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
// keeps the name for as long as it is heard, or a candidate waits for it, and nobody else says that
// the agent leaves.
func (f *Fleet) claimed(a *agent, r *Report, now time.Time) bool {
	if a == nil || a.report.Identity == "" || a.report.Identity == r.Identity {
		return false
	}
	return r.Leaving || now.Sub(a.heard) < f.cfg.UnknownAfter || a.report.Incarnation != r.Incarnation && f.awaited(a, now)
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
	f.unhold(who)
	f.unDepart(who)
	if len(f.departed) < f.cfg.MaxAgents && (who.identity == "" || f.usage[who.identity].departed < f.ofOne()) {
		f.departed[who] = departure{incarnation: r.Incarnation, session: r.Session, at: at}
		f.count(who.identity, func(u *usage) { u.departed++ })
	}
	if a != nil {
		f.sight(r.Agent, Left)
		if a.report.Incarnation == r.Incarnation {
			f.gone(a, f.now())
		} else {
			f.ended(a)
		}
		f.forget(a)
		f.settle(f.now())
		f.touch()
	}
}

// unDepart forgets that the agent has left, if it has.
func (f *Fleet) unDepart(who speaker) {
	if _, ok := f.departed[who]; ok {
		delete(f.departed, who)
		f.count(who.identity, func(u *usage) { u.departed-- })
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

// usage is what an identity has of what is bounded.
type usage struct {
	agents   int
	joining  int // reports that wait, of agents that it has not yet
	departed int
	bytes    int // of what its agents report
}

// count changes what the identity has.
func (f *Fleet) count(identity string, change func(*usage)) {
	change(&f.total)
	u := f.usage[identity]
	if change(&u); u == (usage{}) {
		delete(f.usage, identity)
		return
	}
	f.usage[identity] = u
}

// ofOne is how many agents one identity has at most.
func (f *Fleet) ofOne() int { return max(1, f.cfg.MaxAgents/2) }

// hasRoom reports whether the agent can be known as one of the report's identity; nil is one
// that is not known.
func (f *Fleet) hasRoom(a *agent, r *Report) bool {
	if a != nil && a.identity == r.Identity {
		return true
	}
	if h := f.ahead[r.speaker()]; h != nil && h.joins {
		return true
	}
	u := f.usage[r.Identity]
	return (a != nil || len(f.agents)+f.total.joining < f.cfg.MaxAgents) && (r.Identity == "" || u.agents+u.joining < f.ofOne())
}

// identify notes whose agent it is, and how much it reports; nothing of one that is forgotten.
func (f *Fleet) identify(a *agent, identity string, size int) {
	if a.size > 0 {
		f.count(a.identity, func(u *usage) { u.agents, u.bytes = u.agents-1, u.bytes-a.size-a.kept })
	}
	a.identity, a.size = identity, size
	if size > 0 {
		f.count(identity, func(u *usage) { u.agents, u.bytes = u.agents+1, u.bytes+size+a.kept })
	}
}

// fits reports whether there is room for what the report says, in place of what the agent has
// said, which nil has not. A report that waits does not replace anything yet.
func (f *Fleet) fits(a *agent, r *Report) bool {
	more := r.size()
	if r.claims() <= f.head {
		more -= r.stepCalls()
		if a != nil && a.identity == r.Identity {
			more -= a.size
		}
	}
	if h := f.ahead[r.speaker()]; h != nil {
		more -= h.size
	}
	return more <= 0 || f.hasBytes(r.Identity, more)
}

// hasBytes reports whether so much more can be kept of what agents of the identity report.
func (f *Fleet) hasBytes(identity string, more int) bool {
	return f.total.bytes+more <= f.cfg.MaxReported && (identity == "" || f.usage[identity].bytes+more <= f.cfg.MaxReported/2)
}

// keep counts bytes that candidacies keep of what the agent counted, or do not keep any more. It
// reports false, and counts nothing, if there is no room.
func (f *Fleet) keep(a *agent, bytes int) bool {
	if bytes > 0 && !f.hasBytes(a.identity, bytes) {
		f.ignored.TooLarge++
		return false
	}
	a.kept += bytes
	if a.size > 0 {
		f.count(a.identity, func(u *usage) { u.bytes += bytes })
	}
	return true
}

// size is about how many bytes the report takes in memory.
func (r *Report) size() int {
	const fixed, each = 512, 192 // of the report, and of each failure and trial
	size := fixed + len(r.Fleet) + len(r.Agent) + len(r.Incarnation) + len(r.Identity) + len(r.Software) + len(r.Tenants.String()) + len(r.Held) + 16*len(r.Activations)
	for key, value := range r.Labels {
		size += len(key) + len(value) + 32
	}
	if r.Disk != nil {
		size += 64 + len(r.Disk.Fault)
	}
	for _, key := range r.DiskKeys {
		size += len(key) + 16
	}
	ofError := func(err *script.Error) int {
		if err == nil {
			return 0
		}
		return len(err.Kind) + len(err.Field) + len(err.Message)
	}
	for i := range r.Failures {
		one := &r.Failures[i]
		size += each + len(one.Name.Tenant) + len(one.Name.Script) + ofError(one.Err)
	}
	for i := range r.Trials {
		one := &r.Trials[i]
		size += each + len(one.Name.Tenant) + len(one.Name.Script) + len(one.Waiting) + ofError(one.Err)
	}
	for tenant := range r.Lags {
		size += len(tenant) + 64
	}
	return size + r.stepCalls()
}

// stepCalls is about how many bytes of size are of the trials' StepCalls. Of a report that is taken
// in, the candidacies keep them.
func (r *Report) stepCalls() (size int) {
	for i := range r.Trials {
		size += sizeOf(r.Trials[i].StepCalls) + sizeOf(r.Trials[i].ActiveCalls)
	}
	return size
}

// sizeOf is about how many bytes the calls take in memory.
func sizeOf(calls *script.StepCalls) int {
	if calls == nil {
		return 0
	}
	return 192 + 8*cap(calls.Buckets)
}
