package fanout

import (
	"errors"
	"strings"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a report: what is beyond them does not come from an agent of ours.
const (
	maxReportBytes  = 1 << 20
	maxStatusText   = 16 << 10 // of all that an agent words itself; names of failures and candidates come to it
	maxTextBytes    = 1024
	maxKindBytes    = 32
	maxLabels       = 64
	maxLabelsBytes  = 4 << 10 // of all names and values
	maxFailures     = 256
	maxLags         = 1024
	maxErrorMessage = 1024
	maxTrialMessage = 1024
	maxHeld         = 1024
	maxFault        = 256
	maxWaiting      = 256
	maxDiskKeys     = 64
	maxActivations  = 32
	maxKeyBytes     = 64
	maxUsed         = 200 // tenants
)

// Sessions verify what agents report.
type Sessions interface {
	// Key returns the key of the session with the token. The error's chain may have
	// seal.ErrUnknownKey.
	Key(token []byte) ([]byte, error)
	// KeyIDs returns the key ids of the sessions that Key knows.
	KeyIDs() []string
}

// Reasons why a report changes nothing: the values of the metric's label.
const (
	reasonMalformed    = "malformed"
	reasonNoSession    = "no_session"
	reasonUnknown      = "unknown_session"
	reasonForged       = "forged"
	reasonOtherSession = "other_session"
	reasonTooOften     = "too_often"
)

// Reasons are why reports change nothing.
func Reasons() []string {
	return []string{reasonMalformed, reasonNoSession, reasonUnknown, reasonForged, reasonOtherSession, reasonTooOften}
}

// reasonOf returns why a report was not believed.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, seal.ErrUnsigned):
		return reasonNoSession
	case errors.Is(err, seal.ErrUnknownKey):
		return reasonUnknown
	case errors.Is(err, seal.ErrForged):
		return reasonForged
	case errors.Is(err, errOtherSession):
		return reasonOtherSession
	case errors.Is(err, errTooOften):
		return reasonTooOften
	}
	return reasonMalformed
}

var (
	errOtherSession = errors.New("it does not fit its session")
	errTooOften     = errors.New("the agent reports too often")
)

// OpenReport reads what came on the status subject of the agent, if a session of that has
// signed it. It also returns how many failures and trials were left out because they cannot be
// read, or are of tenants that the agent does not follow.
func OpenReport(sessions Sessions, agent string, data []byte) (r fleet.Report, skipped int, err error) {
	return openReport(sessions, agent, data, func(session.Session) error { return nil })
}

// openReport is OpenReport; admit returns an error unless the agent of the session may report
// now.
func openReport(sessions Sessions, agent string, data []byte, admit func(session.Session) error) (r fleet.Report, skipped int, err error) {
	if len(data) > maxReportBytes {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "status", "has %d bytes, at most %d are allowed", len(data), maxReportBytes)
	}
	opened, err := seal.OpenStatus(data, sessions.Key)
	if err != nil {
		return fleet.Report{}, 0, err
	}
	of, err := session.Read(opened.Token)
	if err == nil && of.Agent != agent {
		err = script.Errorf(script.Denied, "agent", "the session of %.80q reports on the subject of %.80q: %w", of.Agent, agent, errOtherSession)
	}
	if err == nil {
		err = admit(of)
	}
	if err != nil {
		return fleet.Report{}, 0, err
	}
	var m eventv1.Status
	if err := opened.Decode(&m); err != nil {
		return fleet.Report{}, 0, err
	}
	return readReport(of, &m)
}

// readReport reads a report of the session.
func readReport(of session.Session, m *eventv1.Status) (r fleet.Report, skipped int, err error) {
	tenants, err := script.ParseSelector(m.GetTenants())
	if err != nil {
		return fleet.Report{}, 0, err
	}
	if m.GetAgent() != of.Agent || m.GetIncarnation() != of.Incarnation || tenants.String() != of.Tenants.String() {
		return fleet.Report{}, 0, script.Errorf(script.Denied, "agent", "%.80q reports for %s in a session of %.80q for %s: %w",
			m.GetAgent(), tenants, of.Agent, of.Tenants, errOtherSession)
	}
	if n := len(m.GetSoftware()); n > maxTextBytes {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "software", "has %d bytes, at most %d are allowed", n, maxTextBytes)
	}
	if m.GetActivatedRevision() < 0 {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "activated_revision", "%d is negative", m.GetActivatedRevision())
	}
	if err := checkLabels(m.GetLabels()); err != nil {
		return fleet.Report{}, 0, err
	}
	if err := checkDiskKeys(m.GetDiskKeys()); err != nil {
		return fleet.Report{}, 0, err
	}
	if n := len(m.GetFleet()); n > maxTextBytes {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "fleet", "has %d bytes, at most %d are allowed", n, maxTextBytes)
	}
	room := roomBeside(m)
	failures, skipped, err := readFailures(m.GetFailures(), tenants, room)
	if err != nil {
		return fleet.Report{}, 0, err
	}
	lags, passed, err := readLags(m.GetLags(), tenants)
	if err != nil {
		return fleet.Report{}, 0, err
	}
	trials, left := readTrials(m.GetTrials(), tenants, room)
	usage, unused := readUsage(m.GetUsage(), tenants)
	return fleet.Report{
		Fleet:       m.GetFleet(),
		Agent:       m.GetAgent(),
		Incarnation: m.GetIncarnation(),
		Session:     of.Number,
		Identity:    of.Identity,
		Sequence:    m.GetSequence(),
		Labels:      m.GetLabels(),
		Software:    m.GetSoftware(),
		Selects:     m.GetKnowsSelectors(),
		Sets:        m.GetKnowsChangeSets(),
		Keys:        m.GetKnowsKeys(),
		Shadows:     m.GetKnowsShadows(),
		Queries:     m.GetKnowsQueries(),
		Activated:   script.Revision(m.GetActivatedRevision()),
		Activations: readActivations(m.GetActivations()),
		Failures:    failures,
		Leaving:     m.GetLeaving(),
		Tenants:     tenants,
		DiskKeys:    m.GetDiskKeys(),
		Drifts:      m.GetDrifts(),

		RepairedDrifts: m.GetRepairedDrifts(),
		Held:           readText(m.GetHeld(), maxHeld),
		Trials:         trials,
		Lags:           lags,
		Usage:          usage,
		Disk:           readDisk(m.GetDisk()),
	}, skipped + passed + left + unused, nil
}

// readUsage counts the tenants that it left out because there can be none, the agent does not follow them, or there are
// too many.
func readUsage(m *eventv1.Usage, tenants script.Selector) (usage *fleet.Usage, skipped int) {
	if m == nil {
		return nil, 0
	}
	messages := m.GetTenants()[:min(len(m.GetTenants()), maxUsed)]
	skipped = len(m.GetTenants()) - len(messages)
	usage = &fleet.Usage{
		Sequence: m.GetSequence(), Repeated: m.GetRepeated(), Covers: max(m.GetCovers().AsDuration(), 0), Processors: int(m.GetProcessors()),
		Tenants: make([]script.TenantUsage, 0, len(messages)),
	}
	for _, one := range messages {
		used, err := wire.ToTenantUsage(one)
		if err != nil || !tenants.Matches(used.Tenant) {
			skipped++
			continue
		}
		usage.Tenants = append(usage.Tenants, used)
	}
	return usage, skipped
}

func readDisk(m *eventv1.Disk) *fleet.Disk {
	if m == nil {
		return nil
	}
	return &fleet.Disk{
		Free: m.GetFreeBytes(), Size: m.GetSizeBytes(), Fault: readText(m.GetFault(), maxFault),
		Corrupt: m.GetCorruptFiles(), Untrusted: m.GetUntrustedFiles(),
	}
}

// readActivations takes those that make sense.
func readActivations(messages []*eventv1.Activation) []fleet.Activation {
	if len(messages) == 0 {
		return nil
	}
	activations := make([]fleet.Activation, 0, min(len(messages), maxActivations))
	for _, m := range messages[:min(len(messages), maxActivations)] {
		activations = append(activations, fleet.Activation{Revision: script.Revision(m.GetRevision()), Ago: m.GetAgo().AsDuration()})
	}
	return activations
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return script.Errorf(script.Invalid, "labels", "are %d, at most %d are allowed", len(labels), maxLabels)
	}
	bytes := 0
	for key, value := range labels {
		bytes += len(key) + len(value)
	}
	if bytes > maxLabelsBytes {
		return script.Errorf(script.Invalid, "labels", "have %d bytes, at most %d are allowed", bytes, maxLabelsBytes)
	}
	return nil
}

func checkDiskKeys(keys []string) error {
	if len(keys) > maxDiskKeys {
		return script.Errorf(script.Invalid, "disk_keys", "are %d, at most %d are allowed", len(keys), maxDiskKeys)
	}
	for _, key := range keys {
		if len(key) > maxKeyBytes {
			return script.Errorf(script.Invalid, "disk_keys", "%.80q is too long", key)
		}
	}
	return nil
}

// readFailures leaves out objects of kinds that are unknown here: a newer agent may
// follow more than this registry knows of. It counts those that it left out because
// they name nothing that there can be, or that the agent does not follow: they must not hide
// how far the agent is.
func readFailures(messages []*eventv1.Failure, tenants script.Selector, room *room) (failures []fleet.Failure, skipped int, err error) {
	if len(messages) > maxFailures {
		return nil, 0, script.Errorf(script.Invalid, "failures", "are %d, at most %d are allowed", len(messages), maxFailures)
	}
	for _, m := range messages {
		room.turn()
		name, ok, err := fleet.FailureName(m.GetKey())
		if !ok {
			continue
		}
		if err != nil || !tenants.Matches(name.Tenant) {
			skipped++
			continue
		}
		cause := readCause(m.GetError(), maxErrorMessage, room)
		if cause == nil {
			cause = &script.Error{Kind: script.Internal, Message: "the agent did not say why"}
		}
		failures = append(failures, fleet.Failure{Name: name, Revision: script.Revision(m.GetRevision()), Err: cause})
	}
	return failures, skipped, nil
}

// readLags counts those that it left out because they are of no tenant that the agent follows.
func readLags(messages []*eventv1.Lag, tenants script.Selector) (lags map[string]script.Revision, skipped int, err error) {
	if len(messages) > maxLags {
		return nil, 0, script.Errorf(script.Invalid, "lags", "are %d, at most %d are allowed", len(messages), maxLags)
	}
	for _, m := range messages {
		if script.ValidateLabel("tenant", m.GetTenant()) != nil || !tenants.Matches(m.GetTenant()) {
			skipped++
			continue
		}
		if lags == nil {
			lags = make(map[string]script.Revision, len(messages))
		}
		above := script.Revision(m.GetAbove())
		if known, ok := lags[m.GetTenant()]; ok {
			above = min(above, known)
		}
		lags[m.GetTenant()] = above
	}
	return lags, skipped, nil
}

// room is how many bytes of a status are left for reasons. Where they are few, all reasons are
// cut short alike.
type room struct {
	left, reasons int
	next          int // bytes for the next reason
}

// roomBeside returns what the status leaves for reasons beside what has bounds of its own.
func roomBeside(m *eventv1.Status) *room {
	used := len(m.GetFleet()) + len(m.GetSoftware()) + min(len(m.GetHeld()), maxHeld) + min(len(m.GetDisk().GetFault()), maxFault)
	for key, value := range m.GetLabels() {
		used += len(key) + len(value)
	}
	for _, list := range [][]string{m.GetDiskKeys(), m.GetTenants()} {
		for _, text := range list {
			used += len(text)
		}
	}
	return &room{left: maxStatusText - used, reasons: len(m.GetFailures()) + min(len(m.GetTrials()), fleet.MaxTrials)}
}

// turn goes on to the next reason.
func (r *room) turn() {
	r.left += r.next
	r.next = max(0, r.left/max(1, r.reasons))
	r.left, r.reasons = r.left-r.next, r.reasons-1
}

// cut returns at most so many bytes of a text of the reason.
func (r *room) cut(s string, most int) string {
	text := readText(s, min(most, r.next))
	r.next -= len(text)
	return text
}

// readCause returns why something failed, with a message of at most so many bytes; nil if
// nothing did.
func readCause(m *scriptv1.Error, most int, room *room) *script.Error {
	cause := wire.ToError(m)
	if cause != nil {
		cause.Kind = script.Kind(readText(string(cause.Kind), maxKindBytes))
		cause.Message = room.cut(cause.Message, most)
		cause.Field = room.cut(cause.Field, maxTextBytes)
	}
	return cause
}

// readText returns at most so many bytes of the text, and keeps no more in memory.
func readText(s string, most int) string {
	if len(s) > most {
		s = strings.Clone(s[:most])
	}
	return strings.ToValidUTF8(s, "")
}

// readTrials takes at most fleet.MaxTrials, and counts those that it left out, and those
// that name nothing that there can be: they must not hide how far the agent is, and what
// nobody hears of is waited for.
func readTrials(messages []*eventv1.Trial, tenants script.Selector, room *room) (trials []fleet.Trial, skipped int) {
	if len(messages) == 0 {
		return nil, 0
	}
	taken := messages[:min(len(messages), fleet.MaxTrials)]
	skipped = len(messages) - len(taken)
	trials = make([]fleet.Trial, 0, len(taken))
	for _, m := range taken {
		room.turn()
		text, ok := strings.CutPrefix(m.GetKey(), string(script.Releases)+"/")
		name, err := script.ParseName(text)
		if !ok || err != nil || !tenants.Matches(name.Tenant) || len(m.GetError().GetField()) > maxTextBytes {
			skipped++
			continue
		}
		spec, err := wire.ToDigest(m.GetSpec())
		if err != nil {
			skipped++
			continue
		}
		trials = append(trials, fleet.Trial{
			Name: name, Spec: spec, Version: m.GetVersion(), Attempt: m.GetAttempt(),
			Tested: m.GetTested(), Err: readCause(m.GetError(), maxTrialMessage, room), Waiting: room.cut(m.GetWaiting(), maxWaiting),
			Calls: m.GetCalls(), FailedCalls: m.GetFailedCalls(), ProcessEnded: m.GetProcessEnded(),
			StepCalls: wire.ToStepCalls(m.GetStepCalls()), ActiveCalls: wire.ToStepCalls(m.GetActiveCalls()), Shadow: wire.ToShadowCalls(m.GetShadow()),
		})
	}
	return trials, skipped
}
