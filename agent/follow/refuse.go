package follow

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Why a message is refused: the values of the metric's label.
const (
	refusedUnsigned    = "unsigned"
	refusedUnknownKey  = "unknown_key"
	refusedForged      = "forged"
	refusedMalformed   = "malformed"
	refusedOtherFleet  = "other_fleet"
	refusedOtherGroup  = "other_group"
	refusedOldProtocol = "old_protocol"
	refusedNewProtocol = "new_protocol"
	refusedReplayed    = "replayed"
	refusedRemoval     = "mass_removal"
)

var reasons = []string{
	refusedUnsigned, refusedUnknownKey, refusedForged, refusedMalformed, refusedOtherFleet, refusedOtherGroup,
	refusedOldProtocol, refusedNewProtocol, refusedReplayed, refusedRemoval,
}

// refusal is why a message is not believed. Such a message changes nothing.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refuse returns a refusal for the reason.
func refuse(reason, format string, args ...any) error {
	return &refusal{reason: reason, err: script.Errorf(script.Denied, "", format, args...)}
}

// heldBack is a refusal that stands until a person acts: nothing of what the registry says
// is applied.
type heldBack struct{ error }

func (e *heldBack) Unwrap() error { return e.error }

// refusalOf returns the refusal for an envelope that could not be opened.
func refusalOf(data []byte, err error) error {
	reason := refusedMalformed
	switch {
	case errors.Is(err, seal.ErrUnsigned):
		reason = refusedUnsigned
	case errors.Is(err, seal.ErrUnknownKey):
		reason = refusedUnknownKey
	case errors.Is(err, seal.ErrForged):
		reason = refusedForged
	default:
		var env eventv1.Envelope
		if proto.Unmarshal(data, &env) != nil || env.GetPayloadType() == "" {
			break
		}
		if env.GetProtocol() < seal.Protocol {
			reason = refusedOldProtocol
		} else if env.GetProtocol() > seal.Protocol {
			reason = refusedNewProtocol
		}
	}
	return &refusal{reason: reason, err: err}
}

// logEvery is how often a reason to refuse is logged at most.
const logEvery = time.Minute

// refusals counts what was refused and says so, seldom: whoever can send rubbish
// can send a lot of it. It is safe for concurrent use.
type refusals struct {
	counts *prometheus.CounterVec
	log    *slog.Logger

	mu    sync.Mutex
	since map[string]*quiet
}

// quiet is what was not logged of one reason.
type quiet struct {
	logged  time.Time
	skipped int
}

func newRefusals(log *slog.Logger) *refusals {
	r := &refusals{
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scriptorium_agent_messages_refused_total",
			Help: "Messages that changed nothing, because they are not what the registry of this fleet sends now.",
		}, []string{"reason"}),
		log:   log,
		since: map[string]*quiet{},
	}
	for _, reason := range reasons {
		r.counts.WithLabelValues(reason) // there from the start, for alerts
	}
	return r
}

// note takes note of an error, if it is a refusal.
func (r *refusals) note(what string, err error) {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return
	}
	r.counts.WithLabelValues(refused.reason).Inc()
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.since[refused.reason]
	if q == nil {
		q = &quiet{}
		r.since[refused.reason] = q
	}
	if !q.logged.IsZero() && now.Sub(q.logged) < logEvery {
		q.skipped++
		return
	}
	r.log.Warn("a message is refused and changes nothing",
		"what", what, "reason", refused.reason, "error", err, "not_logged_before", q.skipped)
	*q = quiet{logged: now}
}
