package follow

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	driftJitter  = 300 * time.Millisecond // before a drift is healed, at most
	driftMin     = time.Second            // after a full answer that did not heal it
	driftMax     = time.Minute
	rotateJitter = 10 * time.Second // before the disk is rewritten with another key, at most
	rotateMin    = 10 * time.Second // after a full answer that did not rewrite all of it
	rotateMax    = 10 * time.Minute
	// sessionJitter is the most time before an agent asks for a session that the registry knows.
	// All agents ask after a registry has changed its key.
	sessionJitter = 5 * time.Second
	sessionMin    = 5 * time.Second
	// While removals are held back, everything is asked for after driftMax, and then ever more
	// seldom, up to heldMax. Once a loss is accepted, of which beacons and polls tell, that is soon.
	heldMax    = 15 * time.Minute
	heldJitter = 5 * time.Second
)

// place is where in the order of all beacons one is.
type place struct {
	fleet    string
	term     int64
	sequence uint64
}

// after reports whether p is later than what was accepted before.
func (p place) after(q place) bool {
	return p.fleet != q.fleet || p.term > q.term || p.term == q.term && p.sequence > q.sequence
}

// repair is a full answer of the registry that is wanted, with a patience that grows
// as long as such answers do not help, or not for long.
type repair struct {
	least, most time.Duration // of the patience

	wanted bool
	due    time.Time // zero: not wanted
	tries  int       // in a row
	last   time.Time // of these
	next   time.Time // not before then
}

// want asks for a repair within the jitter, or when patience allows it. It reports
// whether it was not wanted already.
func (r *repair) want(now time.Time, jitter time.Duration) bool {
	if r.wanted {
		return false
	}
	if now.Sub(r.last) > 2*r.most {
		r.tries, r.next = 0, time.Time{}
	}
	r.wanted, r.due = true, now.Add(jitter)
	if r.due.Before(r.next) {
		r.due = r.next
	}
	return true
}

func (r *repair) isDue(now time.Time) bool { return r.wanted && !now.Before(r.due) }

// tried says that there was a full answer, or none where one was asked for.
func (r *repair) tried(now time.Time, random *rand.Rand) {
	if !r.wanted {
		return
	}
	backoff := min(r.most, r.least<<min(r.tries, 20))
	r.tries++
	r.last, r.next = now, now.Add(backoff/2+time.Duration(random.Int64N(int64(backoff))))
	r.due = r.next
}

// hasten has the repair that is wanted done by then.
func (r *repair) hasten(by time.Time) {
	if r.wanted && by.Before(r.due) {
		r.due = by
	}
}

// delay puts the repair that is wanted off until then.
func (r *repair) delay(until time.Time) {
	if r.wanted {
		r.due, r.next = until, until
	}
}

// done notes that there is nothing to repair now.
func (r *repair) done() { r.wanted, r.due = false, time.Time{} }

func newMachine(cfg Config, random *rand.Rand, m *metrics, refusals *refusals) machine {
	return machine{
		cursor: cfg.State.Cursor(), random: random, metrics: m, refusals: refusals,
		drift:    repair{least: driftMin, most: driftMax},
		rotation: repair{least: rotateMin, most: rotateMax},
		session:  repair{least: sessionMin, most: pullEvery},
		unsigned: cfg.Trusted.TrustsEverything(),
	}
}

// takeBeacon takes in a beacon, unless it is of the past or of another fleet.
func (m *machine) takeBeacon(b *beacon) (accepted bool) {
	if m.ofAnotherFleet("beacon", b.fleet) {
		return false
	}
	at := place{fleet: b.fleet, term: b.term, sequence: b.sequence}
	if !at.after(m.accepted) {
		m.refusals.note("beacon", refuse(refusedReplayed, "it is number %d of term %d, and number %d of term %d came before",
			b.sequence, b.term, m.accepted.sequence, m.accepted.term))
		return false
	}
	m.accepted, m.beacon, m.heard = at, b, b.at
	if b.group > m.announced {
		m.announced, m.announcedAt = b.group, b.at
	}
	if m.sessionless == 0 { // else no registry believes a report, whatever comes over NATS
		m.poll = b.at.Add(silence + m.jitter(pollEvery))
	}
	if m.synced && b.head < m.cursor.Revision && !m.drift.wanted && b.at.After(m.current) {
		m.current = b.at
	}
	if m.failed > 0 && m.held == "" { // somebody is there: try soon, not when the patience of an outage ends
		m.due = earlier(m.due, b.at.Add(m.jitter(syncJitter)))
	}
	if b.sealedBy != "" {
		m.signer = b.sealedBy
	}
	m.hastenHeld(b.at, b.loss)
	m.rotate(b.at)
	m.renew(b)
	m.plan(b.at)
	return true
}

// renew asks for a new session if the registry does not know the agent's: it has changed its
// key, or lost the secrets that it kept.
func (m *machine) renew(b *beacon) {
	if m.sessionKey == "" || len(b.sessions) == 0 || slices.Contains(b.sessions, m.sessionKey) {
		m.session.done()
		return
	}
	m.session.want(b.at, m.jitter(sessionJitter))
}

// comparable takes the beacon that the state can be compared with now: the group has
// nothing between the cursor and the beacon's head. One that is behind the cursor
// is forgotten, one that is ahead of it waits.
func (m *machine) comparable() *beacon {
	b := m.beacon
	if b == nil || b.fleet == m.cursor.Fleet && b.group > m.cursor.Revision {
		return nil
	}
	m.beacon = nil
	if b.fleet != m.cursor.Fleet || b.head < m.cursor.Revision {
		return nil
	}
	return b
}

// judge takes in whether the state is the registry's.
func (m *machine) judge(now time.Time, out outcome) {
	switch {
	case !out.checked:
	case out.agrees:
		m.drift.done()
		if m.drifting {
			m.drifting, m.repaired = false, m.repaired+1
		}
	case m.drift.want(now, m.jitter(driftJitter)) || out.thorough:
		m.drifts++
		m.drifting = true
		m.metrics.drifts.Inc()
	}
}

// rotate asks for what is on disk to be rewritten if the registry has signed it by
// another key than it signs by now.
func (m *machine) rotate(now time.Time) {
	stale := len(m.keys) > 1 || len(m.keys) == 1 && m.keys[0] != m.signer
	switch {
	case m.unsigned || m.signer == "" || !stale:
		if m.rotation.wanted {
			m.refusals.log.Info("what is on disk is signed by the registry's key now", "key", m.signer)
		}
		m.rotation.done()
	default:
		m.rotation.want(now, m.jitter(rotateJitter))
	}
}

// moveOn returns the cursor after a beacon that it can be compared with.
func (b *beacon) moveOn(c Cursor) Cursor {
	c.Revision = max(c.Revision, b.head)
	return c
}
