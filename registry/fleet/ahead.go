package fleet

import (
	"container/heap"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// held is a report that names revisions which are not known here yet: agents follow the same
// feed, and can be faster. It is taken in when they are known. If they never are, it is a lie.
type held struct {
	report Report
	claims script.Revision
	at     time.Time
	size   int  // of the report
	place  int  // in the queue
	joins  bool // the agent is not known as one of the identity

	first script.Revision // that the speaker claimed and that is not known,
	since time.Time       // since then
}

// queue is a heap of reports that wait: the one that claims least is first.
type queue []*held

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].claims < q[j].claims }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	h := x.(*held)
	h.place = len(*q)
	*q = append(*q, h)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return h
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

func (h *held) enter(u *usage) {
	u.bytes += h.size
	if h.joins {
		u.joining++
	}
}

func (h *held) exit(u *usage) {
	u.bytes -= h.size
	if h.joins {
		u.joining--
	}
}

// hold keeps the report until what it names is known. That the agent reports is known already.
func (f *Fleet) hold(a *agent, r Report, at time.Time) {
	before := f.ahead[r.speaker()]
	f.unhold(r.speaker())
	h := &held{report: r, claims: r.claims(), size: r.size(), at: at, joins: a == nil || a.identity != r.Identity}
	h.first, h.since = h.claims, at
	if before != nil && before.first > f.head {
		h.first, h.since = before.first, before.since
	}
	f.ahead[r.speaker()] = h
	heap.Push(&f.queued, h)
	f.count(r.Identity, h.enter)
	if a != nil && !a.unknown && a.says(&r) {
		a.heard = at
	}
}

// unhold forgets the report of the speaker that waits, if one does.
func (f *Fleet) unhold(who speaker) {
	h := f.ahead[who]
	if h == nil {
		return
	}
	delete(f.ahead, who)
	heap.Remove(&f.queued, h.place)
	f.count(who.identity, h.exit)
}

// catchUp takes in the reports that waited for what is known now.
func (f *Fleet) catchUp() {
	for len(f.queued) > 0 && f.queued[0].claims <= f.head {
		h := f.queued[0]
		f.unhold(h.report.speaker())
		f.hear(h.report, h.at)
	}
}

// giveUpAhead drops the reports of what nobody has heard of for too long.
func (f *Fleet) giveUpAhead(now time.Time) {
	for who, h := range f.ahead {
		if now.Sub(h.since) >= f.cfg.UnknownAfter {
			f.unhold(who)
			f.ignored.Impossible++
		}
	}
}
