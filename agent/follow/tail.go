package follow

import (
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// Bounds of what asks for the lines of scripts.
const (
	// tailAge is how far its clock and ours may be apart, the way included.
	tailAge = 5 * time.Minute
	// maxTailsKnown is how many are remembered, so that none counts twice.
	maxTailsKnown = 1024
)

// Tail asks for the lines that scripts log, because somebody reads along.
type Tail struct {
	Fleet, Tenant string
	Name          string // of the script; "" means all of the tenant
	Lasts         time.Duration

	sentAt time.Time
}

// tail opens a Tail.
func (o *opener) tail(data []byte) (*Tail, error) {
	var m eventv1.Tail
	if _, err := o.trusted.Open(data, &m); err != nil {
		return nil, refusalOf(data, err)
	}
	if m.GetTenant() == "" || m.GetLasts().AsDuration() <= 0 {
		return nil, refuse(refusedMalformed, "a tail is for the tenant %.80q and lasts %v", m.GetTenant(), m.GetLasts().AsDuration())
	}
	return &Tail{
		Fleet: m.GetFleet(), Tenant: m.GetTenant(), Name: m.GetName(),
		Lasts: m.GetLasts().AsDuration(), sentAt: m.GetSentAt().AsTime(),
	}, nil
}

// tails remembers what was asked for last, so that whoever holds NATS cannot ask again
// in the registry's name: each counts once, and only while it is young.
type tails struct {
	newest map[[2]string]time.Time // by tenant and name, or by the id of a Recall: when it was sent
}

// isNew reports whether what was sent then has not come before, and notes that it has.
func (s *tails) isNew(now time.Time, of [2]string, at time.Time) bool {
	if age := now.Sub(at); age > tailAge || age < -tailAge {
		return false
	}
	if !at.After(s.newest[of]) {
		return false
	}
	if s.newest == nil {
		s.newest = make(map[[2]string]time.Time)
	}
	if len(s.newest) >= maxTailsKnown {
		for other, sentAt := range s.newest {
			if now.Sub(sentAt) > tailAge {
				delete(s.newest, other)
			}
		}
		if len(s.newest) >= maxTailsKnown {
			return false
		}
	}
	s.newest[of] = at
	return true
}

// tail forwards requests for lines.
func (f *Follower) tail(now time.Time, t *Tail) {
	if f.cfg.Tail == nil || f.machine.ofAnotherFleet("tail", t.Fleet) {
		return
	}
	if !f.tails.isNew(now, [2]string{t.Tenant, t.Name}, t.sentAt) {
		f.refusals.note("tail", refuse(refusedReplayed, "a tail that was sent at %v came again, or late", t.sentAt))
		return
	}
	f.cfg.Tail(*t)
}
