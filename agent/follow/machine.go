package follow

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The times of the protocol.
const (
	silence   = 3 * time.Second // without a beacon, until the registry is polled
	pollEvery = time.Second     // give or take half
	// pollFactor is how many times as long as an answer was late a poll is from the next,
	// up to pollMax: agents that poll because NATS is busy leave a busy registry time for
	// those that have nothing yet. An answer is late after pollPrompt, which allows for a
	// registry that is far away. Agents that poll do not look stale (agent.staleAfter).
	pollPrompt = 200 * time.Millisecond
	pollFactor = 20
	pollMax    = 5 * time.Second
	syncJitter = 200 * time.Millisecond // before a sync that many agents may want at once
	backoffMin = 250 * time.Millisecond // after a sync that failed
	backoffMax = 5 * time.Second
	retryMax   = time.Second // between attempts at a release that failed
	// pullEvery is how long the agent takes the word of beacons, give or take a
	// quarter: whoever can replay or withhold them cannot hold it back for longer.
	pullEvery = time.Minute
	// batchEvents is how many events are applied, and made durable, together.
	batchEvents = 256
)

type jobKind int

const (
	jobApply jobKind = iota
	jobSync
	jobRetry
	jobCheck
	jobAsk // which is done beside others
)

// job is what the machine wants done, from the cursor on.
type job struct {
	kind     jobKind
	cursor   Cursor
	events   []*event // of jobApply
	beacon   *beacon  // of jobCheck
	thorough bool     // of jobAsk: everything is looked at, whatever the cursor says
	fetched  fetched  // for jobRetry
}

// outcome of a job. After an error the cursor is that of the job.
type outcome struct {
	kind     jobKind
	began    time.Time
	cursor   Cursor
	err      error
	thorough bool
	held     error           // why the agent keeps what the registry removes; nil if it does not
	accepted script.Revision // at which an administrator accepted a loss last
	waited   time.Duration   // until the registry began its answer

	checked  bool   // the state was compared with the registry's, as of the cursor
	agrees   bool   // and is equal
	sealedBy string // the key of the registry's answer

	// How the applier is left behind.
	changed  bool
	failures []failure
	retryAt  time.Time
	keys     []string // that what is on disk is signed by
	session  seal.Session
}

// machine decides what to do next from its inputs. It does nothing
// itself, knows no clock, and is used by one goroutine.
type machine struct {
	cursor   Cursor
	random   *rand.Rand
	metrics  *metrics
	refusals *refusals

	synced bool // since the start: nothing is applied before that
	busy   bool // a job is in progress
	asking bool // the registry was asked for an answer, which has not begun
	// fetching: the registry was asked for sources that retries need.
	fetching bool
	retried  bool // the last job was a retry
	missed   bool // messages are known to be lost

	events []*event // waiting, in order of revision
	bytes  int

	heard       time.Time       // when the last beacon came
	beacon      *beacon         // the last one, until the state was compared with it
	accepted    place           // of the last one
	announced   script.Revision // the highest revision of the group that a beacon named since the last sync
	announcedAt time.Time
	due         time.Time       // of the sync that is wanted; zero: none is
	poll        time.Time       // of the sync that is done if no beacon comes before
	backstop    time.Time       // of the one that is done whatever comes
	failed      int             // syncs in a row
	sessionless int             // syncs in a row that gave the agent no session, while it has none
	sessionKey  string          // the key id of the agent's session
	held        string          // why the registry's answer changes nothing, until a sync succeeds
	heldBack    int             // full answers in a row whose removals were held back
	loss        script.Revision // of the last accepted loss that an answer or a beacon told of
	current     time.Time       // when the cursor was last known to be the newest

	drift    repair // the state differs from the registry's
	rotation repair // what is on disk is signed by another key than the registry's
	session  repair // the registry does not know the agent's session
	drifts   uint64 // found since the start
	drifting bool   // the last one is not repaired yet
	repaired uint64 // since the start
	signer   string // the key that the registry signs by
	keys     []string
	unsigned bool // signatures do not matter
}

func (m *machine) start(now time.Time) {
	m.heard = now
	m.due = now
}

// event takes in an event, wherever it belongs.
func (m *machine) event(now time.Time, e *event) {
	if m.ofAnotherFleet("event", e.fleet) {
		return
	}
	if e.revision <= m.cursor.Revision {
		m.metrics.duplicates.Inc()
		return
	}
	at, there := slices.BinarySearchFunc(m.events, e.revision, func(e *event, rev script.Revision) int {
		return cmp.Compare(e.revision, rev)
	})
	if there {
		m.metrics.duplicates.Inc()
		return
	}
	m.events = slices.Insert(m.events, at, e)
	m.bytes += e.bytes
	if len(m.events) > maxWaiting || m.bytes > maxWaitingBytes {
		m.lose()
	}
	m.plan(now)
}

// ofAnotherFleet reports whether a message belongs to another fleet. Such a message
// changes nothing. Before the fleet is known, none does.
func (m *machine) ofAnotherFleet(what, fleet string) bool {
	if m.cursor.Fleet == "" || fleet == m.cursor.Fleet {
		return false
	}
	m.refusals.note(what, refuse(refusedOtherFleet, "it is of the fleet %.80q, and this agent's is %q", fleet, m.cursor.Fleet))
	return true
}

// lose forgets what waits, since some of it is gone anyhow: a sync brings all.
func (m *machine) lose() {
	m.events, m.bytes, m.missed = nil, 0, true
}

// next returns the job to do now, if any. retry is when the follower tries again
// what failed; zero: never. Questions to the registry and retries come first, since events
// may come without an end; two retries do not follow each other while events wait.
func (m *machine) next(now, retry time.Time) (job, bool) {
	if m.busy {
		return job{}, false
	}
	m.plan(now)
	if due := m.syncAt(); !m.asking && !due.IsZero() && !now.Before(due) {
		m.asking, m.missed = true, false
		return job{kind: jobAsk, cursor: m.cursor, thorough: m.drift.isDue(now) || m.rotation.isDue(now)}, true
	}
	if !m.synced {
		return job{}, false
	}
	again := !m.fetching && !retry.IsZero() && !now.Before(retry)
	if !again || m.retried {
		if j, ok := m.apply(); ok {
			m.retried = false
			return j, true
		}
	}
	if again {
		m.retried = true
		return job{kind: jobRetry, cursor: m.cursor}, true
	}
	return job{}, false
}

// apply returns the job of taking in what waits, if there is any.
func (m *machine) apply() (job, bool) {
	if b := m.comparable(); b != nil {
		return job{kind: jobCheck, cursor: m.cursor, beacon: b}, true
	}
	if events := m.contiguous(); len(events) > 0 {
		return job{kind: jobApply, cursor: m.cursor, events: events}, true
	}
	return job{}, false
}

// contiguous takes the waiting events that follow the cursor without a gap, up to
// the revision of the beacon that the follower compares the state with.
func (m *machine) contiguous() []*event {
	m.discard()
	at := m.cursor.Revision
	n := 0
	for n < len(m.events) && n < batchEvents && m.events[n].previous <= at {
		if b := m.beacon; b != nil && m.events[n].revision > b.head {
			break
		}
		at = m.events[n].revision
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
		if m.ofAnotherFleet("event", e.fleet) || e.revision <= m.cursor.Revision {
			continue
		}
		kept = append(kept, e)
		m.bytes += e.bytes
	}
	clear(m.events[len(kept):])
	m.events = kept
}

func (m *machine) remove(n int) {
	for _, e := range m.events[:n] {
		m.bytes -= e.bytes
	}
	m.events = slices.Delete(m.events, 0, n)
}

// plan sets when the next sync is due, if one is wanted, and cancels one that
// is not wanted any more.
func (m *machine) plan(now time.Time) {
	if m.busy || m.asking || m.failed > 0 || !m.synced {
		return // decided when the job ends, or by the backoff
	}
	gap := len(m.events) > 0 && m.events[0].previous > m.cursor.Revision
	behind := m.announced > m.cursor.Revision && (len(m.events) == 0 || m.events[0].revision > m.announced)
	switch {
	case !m.missed && !gap && !behind:
		m.due = time.Time{}
	case m.due.IsZero():
		m.due = now.Add(m.jitter(syncJitter))
	}
}

// answered takes in that the registry has begun its answer: to take that in is the job now.
func (m *machine) answered() { m.busy, m.asking = true, false }

// unanswered takes in that it has not.
func (m *machine) unanswered(now, began time.Time, err error) {
	m.asking = false
	m.finishSync(now, outcome{kind: jobSync, began: began, err: err})
	m.plan(now)
}

// finish takes in how a job ended.
func (m *machine) finish(now time.Time, out outcome) {
	m.busy, m.keys = false, out.keys
	switch {
	case out.kind == jobSync:
		m.finishSync(now, out)
	case out.err != nil:
		m.hold(out.err)
	case out.kind == jobCheck:
		m.judge(now, out)
		if !m.drift.wanted && out.began.After(m.current) {
			m.current = out.began
		}
	}
	m.advance(now, out.cursor)
	m.rotate(now)
}

// hold notes that the registry's word changes nothing until a person acts, if that is what
// the error says.
func (m *machine) hold(err error) bool {
	held, ok := errors.AsType[*heldBack](err)
	if ok {
		m.held = held.Error()
	}
	return ok
}

func (m *machine) finishSync(now time.Time, out outcome) {
	m.due, m.poll = time.Time{}, time.Time{}
	if out.err != nil {
		m.failSync(now, out)
		return
	}
	m.synced, m.failed = true, 0
	if !m.hold(out.held) && (out.thorough || out.agrees || !out.checked) {
		m.held, m.heldBack = "", 0
	}
	m.metrics.syncs.Inc()
	if out.thorough {
		m.drift.tried(now, m.random)
		m.rotation.tried(now, m.random)
	}
	m.withhold(now, out)
	if out.cursor.Fleet != m.cursor.Fleet || m.announcedAt.Before(out.began) {
		m.announced = 0 // the registry's own answer is newer
	}
	if out.sealedBy != "" && out.began.Sub(m.heard) > silence { // else beacons tell
		m.signer = out.sealedBy
	}
	m.judge(now, out)
	if !m.drift.wanted && out.began.After(m.current) {
		m.current = out.began
	}
	m.planPolls(now, out)
}

// failSync takes in that a sync failed.
func (m *machine) failSync(now time.Time, out outcome) {
	m.failed++
	m.metrics.syncsFailed.Inc()
	most := backoffMax
	if m.hold(out.err) {
		most = driftMax   // a person has to act, and each answer may be a full one
		if out.thorough { // what changed since the cursor is asked for meanwhile
			m.drift.tried(now, m.random)
			m.rotation.tried(now, m.random)
		} else if out.held != nil && m.drift.want(now, m.jitter(driftJitter)) { // a full answer brings what else there is
			m.due = m.drift.due
			return
		}
	}
	backoff := min(most, backoffMin<<min(m.failed-1, 10))
	m.due = now.Add(backoff/2 + m.jitter(backoff))
}

// withhold sets when everything is asked for again, if the removals of a full answer were held
// back, or a loss was accepted since.
func (m *machine) withhold(now time.Time, out outcome) {
	if out.held != nil && out.thorough {
		apart := min(driftMax<<min(m.heldBack, 10), heldMax)
		m.drift.delay(now.Add(apart/2 + m.jitter(apart)))
		m.heldBack++
		m.loss = max(m.loss, out.accepted)
		return
	}
	m.hastenHeld(now, out.accepted)
}

// hastenHeld has everything asked for again soon, if removals are held back and an administrator
// has accepted a loss since, at the revision.
func (m *machine) hastenHeld(now time.Time, loss script.Revision) {
	if m.held != "" && loss > m.loss {
		m.drift.hasten(now.Add(m.jitter(heldJitter)))
	}
	m.loss = max(m.loss, loss)
}

// planPolls sets when the registry is polled, after a sync that succeeded.
func (m *machine) planPolls(now time.Time, out outcome) {
	m.sessionless++
	if len(out.session.Key) > 0 {
		m.sessionless, m.sessionKey = 0, out.session.KeyID()
	}
	m.session.tried(now, m.random)
	apart := min(max(pollEvery, pollFactor*(out.waited-pollPrompt)), pollMax)
	apart = max(apart, min(pollEvery<<min(m.sessionless, 10), pullEvery))
	m.poll = now.Add(apart/2 + m.jitter(apart))
	if beacon := m.heard.Add(silence); m.sessionless == 0 && beacon.After(m.poll) {
		m.poll = beacon.Add(m.jitter(pollEvery))
	}
	m.backstop = now.Add(pullEvery*3/4 + m.jitter(pullEvery/2))
}

func (m *machine) advance(now time.Time, to Cursor) {
	m.cursor = to
	m.discard()
	m.plan(now)
}

// wake returns when next may have something to do without anything new coming
// in; zero: never.
func (m *machine) wake(retry time.Time) time.Time {
	if m.fetching {
		retry = time.Time{}
	}
	switch {
	case m.busy, m.asking && !m.synced:
		return time.Time{}
	case m.asking:
		return retry
	case m.synced:
		return earlier(m.syncAt(), retry)
	}
	return m.due
}

// syncAt returns when the next sync is due; zero: never.
func (m *machine) syncAt() time.Time {
	if m.failed > 0 || !m.synced {
		return m.due // an outage is not mended by more haste
	}
	at := earlier(earlier(m.due, m.poll), m.backstop)
	return earlier(at, earlier(m.session.due, earlier(m.drift.due, m.rotation.due)))
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
