package follow

import (
	"crypto/rand"
	"maps"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	statusEvery = 5 * time.Second        // without a change
	statusApart = 100 * time.Millisecond // at least: ten in any second
	callJitter  = 200 * time.Millisecond // at most, before answering a roll call
	maxFailures = 256                    // in one status
	maxReason   = 1024                   // bytes of the message of one: a status must fit into one message of NATS
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

// reason returns err in the form that a status carries: bounded, and text in
// which whatever was not is replaced, for with anything else the whole status
// could not be sent.
func reason(err error) *scriptv1.Error {
	m := wire.FromError(err)
	m.Kind, m.Field, m.Message = text(m.GetKind()), text(m.GetField()), text(m.GetMessage())
	return m
}

func text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") // without half a character
	}
	return s
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
