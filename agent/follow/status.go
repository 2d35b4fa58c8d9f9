package follow

import (
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	statusEvery = 5 * time.Second        // without a change
	statusApart = 100 * time.Millisecond // at least: ten in any second
	callJitter  = 200 * time.Millisecond // at most, before answering a roll call
	maxFailures = 256                    // in one status
)

// status decides when the agent says how it is, and what. It is used by one
// goroutine.
type status struct {
	base     *eventv1.Status
	random   *mathrand.Rand
	failures []*eventv1.Failure

	sequence uint64
	sent     time.Time
	wanted   time.Time // when to send the next; zero: only when it is time anyhow
	dirty    bool      // something changed since the last
}

func newStatus(cfg Config, random *mathrand.Rand) status {
	return status{
		base: &eventv1.Status{
			Agent:       cfg.Agent,
			Incarnation: rand.Text(),
			Labels:      maps.Clone(cfg.Labels),
			Software:    cfg.Software,
		},
		random: random,
	}
}

// changed asks for a report at once.
func (s *status) changed() { s.dirty = true }

// called asks for a report within the jitter, so that not all agents answer a
// roll call at the same moment.
func (s *status) called(now time.Time) {
	s.wanted = earlier(s.wanted, now.Add(time.Duration(s.random.Int64N(int64(callJitter)))))
}

// wake returns when the next report is due.
func (s *status) wake() time.Time {
	at := s.sent.Add(statusEvery)
	if s.dirty {
		at = s.sent
	}
	at = earlier(at, s.wanted)
	if soonest := s.sent.Add(statusApart); at.Before(soonest) {
		return soonest
	}
	return at
}

func (s *status) due(now time.Time) bool { return !now.Before(s.wake()) }

// compose returns the report to send now.
//
// Everything up to the activated revision is live but for the failures listed.
// If there are too many to list, the revision stays below the first left out.
func (s *status) compose(now time.Time, at Cursor, leaving bool) *eventv1.Status {
	s.sequence++
	s.sent, s.wanted, s.dirty = now, time.Time{}, false
	failures, activated := s.failures, at.Revision
	if len(failures) > maxFailures {
		activated = min(activated, script.Revision(failures[maxFailures].GetRevision()-1))
		failures = failures[:maxFailures]
	}
	return &eventv1.Status{
		Fleet:             at.Fleet,
		Agent:             s.base.GetAgent(),
		Incarnation:       s.base.GetIncarnation(),
		Sequence:          s.sequence,
		Labels:            s.base.GetLabels(),
		Software:          s.base.GetSoftware(),
		ActivatedRevision: int64(activated),
		Failures:          failures,
		Leaving:           leaving,
		SentAt:            timestamppb.New(now),
	}
}
