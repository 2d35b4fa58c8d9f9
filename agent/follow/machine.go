package follow

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The times of the protocol.
const (
	silence    = 3 * time.Second        // without a beacon, until the registry is polled
	pollEvery  = time.Second            // give or take half
	syncJitter = 200 * time.Millisecond // before a sync that many agents may want at once
	backoffMin = 250 * time.Millisecond // after a sync that failed
	backoffMax = 5 * time.Second
	retryMax   = time.Second // between attempts at a release that failed
	// batchEvents is how many events are applied, and made durable, together.
	batchEvents = 256
)

type jobKind int

const (
	jobApply jobKind = iota
	jobSync
	jobRetry
)

// job is what the machine wants done, from the cursor on.
type job struct {
	kind   jobKind
	cursor Cursor
	events []*eventv1.Event
}

// outcome of a job. After an error the cursor is that of the job.
type outcome struct {
	kind   jobKind
	began  time.Time
	cursor Cursor
	err    error

	// How the applier is left behind.
	changed  bool
	failures []*eventv1.Failure
	retryAt  time.Time
}

// machine decides what to do next from what it is told. It does nothing
// itself, knows no clock, and is used by one goroutine.
type machine struct {
	cursor  Cursor
	random  *rand.Rand
	metrics *metrics

	synced bool // since the start: nothing is applied before that
	busy   bool // a job is in progress
	missed bool // messages are known to be lost

	events []*eventv1.Event // waiting, in order of revision
	bytes  int

	heard       time.Time       // when the last beacon came
	announced   script.Revision // the highest head that a beacon named since the last sync
	announcedAt time.Time
	due         time.Time // of the sync that is wanted; zero: none is
	poll        time.Time // of the sync that is done if no beacon comes before
	failed      int       // syncs in a row
	current     time.Time // when the cursor was last known to be the newest
}

func (m *machine) start(now time.Time) {
	m.heard = now
	m.due = now
}

// event takes in an event, wherever it belongs.
func (m *machine) event(now time.Time, e *eventv1.Event) {
	if m.foreign(e.GetFleet()) {
		return
	}
	if script.Revision(e.GetRevision()) <= m.cursor.Revision {
		m.metrics.duplicates.Inc()
		return
	}
	at, there := slices.BinarySearchFunc(m.events, e.GetRevision(), func(e *eventv1.Event, rev int64) int {
		return cmp.Compare(e.GetRevision(), rev)
	})
	if there {
		m.metrics.duplicates.Inc()
		return
	}
	m.events = slices.Insert(m.events, at, e)
	m.bytes += proto.Size(e)
	if len(m.events) > maxWaiting || m.bytes > maxWaitingBytes {
		m.lose()
	}
	m.plan(now)
}

// beacon takes in a beacon that came at the given time.
func (m *machine) beacon(at time.Time, b *eventv1.Beacon) {
	if m.foreign(b.GetFleet()) {
		return
	}
	m.heard = at
	head := script.Revision(b.GetHeadRevision())
	if head > m.announced {
		m.announced, m.announcedAt = head, at
	}
	m.poll = at.Add(silence + m.jitter(pollEvery))
	if m.synced && head <= m.cursor.Revision && at.After(m.current) {
		m.current = at
	}
	if m.failed > 0 { // somebody is there: try soon, not when the patience of an outage ends
		m.due = earlier(m.due, at.Add(m.jitter(syncJitter)))
	}
	m.plan(at)
}

// foreign reports whether a message belongs to another fleet. Such a message
// changes nothing: only the registry itself can say that the fleet is another
// one now. Before the fleet is known, none is foreign.
func (m *machine) foreign(fleet string) bool {
	if m.cursor.Fleet == "" || fleet == m.cursor.Fleet {
		return false
	}
	m.metrics.foreign.Inc()
	return true
}

// lose forgets what waits, since some of it is gone anyhow: a sync brings all.
func (m *machine) lose() {
	m.events, m.bytes, m.missed = nil, 0, true
}

// next returns the job to do now, if any. retry is when what failed is to be
// tried again; zero: never.
func (m *machine) next(now, retry time.Time) (job, bool) {
	if m.busy {
		return job{}, false
	}
	if m.synced {
		if events := m.contiguous(); len(events) > 0 {
			m.busy = true
			return job{kind: jobApply, cursor: m.cursor, events: events}, true
		}
	}
	m.plan(now)
	if due := earlier(m.due, m.poll); !due.IsZero() && !now.Before(due) {
		m.busy, m.missed = true, false
		return job{kind: jobSync, cursor: m.cursor}, true
	}
	if m.synced && !retry.IsZero() && !now.Before(retry) {
		m.busy = true
		return job{kind: jobRetry, cursor: m.cursor}, true
	}
	return job{}, false
}

// contiguous takes the waiting events that follow the cursor without a gap.
func (m *machine) contiguous() []*eventv1.Event {
	m.discard()
	at := m.cursor.Revision
	n := 0
	for n < len(m.events) && n < batchEvents && script.Revision(m.events[n].GetPreviousRevision()) <= at {
		at = script.Revision(m.events[n].GetRevision())
		n++
	}
	events := slices.Clone(m.events[:n])
	m.remove(n)
	return events
}

// discard drops the waiting events that the cursor has passed, and those of
// another fleet that waited for this one to be known.
func (m *machine) discard() {
	kept := m.events[:0]
	m.bytes = 0
	for _, e := range m.events {
		if m.foreign(e.GetFleet()) || script.Revision(e.GetRevision()) <= m.cursor.Revision {
			continue
		}
		kept = append(kept, e)
		m.bytes += proto.Size(e)
	}
	clear(m.events[len(kept):])
	m.events = kept
}

func (m *machine) remove(n int) {
	for _, e := range m.events[:n] {
		m.bytes -= proto.Size(e)
	}
	m.events = slices.Delete(m.events, 0, n)
}

// plan sets when the next sync is due, if one is wanted, and cancels one that
// is not wanted any more.
func (m *machine) plan(now time.Time) {
	if m.busy || m.failed > 0 || !m.synced {
		return // decided when the job ends, or by the backoff
	}
	gap := len(m.events) > 0 && script.Revision(m.events[0].GetPreviousRevision()) > m.cursor.Revision
	behind := len(m.events) == 0 && m.announced > m.cursor.Revision
	switch {
	case !m.missed && !gap && !behind:
		m.due = time.Time{}
	case m.due.IsZero():
		m.due = now.Add(m.jitter(syncJitter))
	}
}

// finish takes in how a job ended.
func (m *machine) finish(now time.Time, out outcome) {
	m.busy = false
	if out.kind != jobSync {
		m.advance(now, out.cursor)
		return
	}
	m.due, m.poll = time.Time{}, time.Time{}
	if out.err != nil {
		m.failed++
		m.metrics.syncsFailed.Inc()
		backoff := min(backoffMax, backoffMin<<min(m.failed-1, 10))
		m.due = now.Add(backoff/2 + m.jitter(backoff))
		return
	}
	m.synced, m.failed = true, 0
	m.metrics.syncs.Inc()
	if out.cursor.Fleet != m.cursor.Fleet || m.announcedAt.Before(out.began) {
		m.announced = 0 // the registry's own answer is newer
	}
	if out.began.After(m.current) {
		m.current = out.began
	}
	m.poll = now.Add(pollEvery/2 + m.jitter(pollEvery))
	if beacon := m.heard.Add(silence); beacon.After(m.poll) {
		m.poll = beacon.Add(m.jitter(pollEvery))
	}
	m.advance(now, out.cursor)
}

func (m *machine) advance(now time.Time, to Cursor) {
	m.cursor = to
	m.discard()
	if m.synced && m.announced > 0 && m.announced <= to.Revision && m.heard.After(m.current) {
		m.current = m.heard
	}
	m.plan(now)
}

// wake returns when next may have something to do without anything new coming
// in; zero: never.
func (m *machine) wake(retry time.Time) time.Time {
	switch {
	case m.busy:
		return time.Time{}
	case m.synced:
		return earlier(earlier(m.due, m.poll), retry)
	}
	return m.due
}

func (m *machine) jitter(most time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(most)))
}

// earlier returns the earlier of two times, the zero time being never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
