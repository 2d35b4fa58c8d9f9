package fanout

import (
	"strings"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a report: what is beyond them does not come from an agent of ours.
const (
	maxAgentBytes   = 253
	maxTextBytes    = 1024
	maxLabels       = 64
	maxFailures     = 10_000
	maxErrorMessage = 4096
	maxTrialMessage = 1024
	maxWaiting      = 256
	maxDiskKeys     = 64
	maxActivations  = 32
	maxKeyBytes     = 64
)

// readReport reads what came on the status subject of the agent. It also returns
// how many failures and trials were left out because they cannot be read.
func readReport(agent string, data []byte) (r fleet.Report, skipped int, err error) {
	var m eventv1.Status
	if err := seal.OpenStatus(data, &m); err != nil {
		return fleet.Report{}, 0, err
	}
	if m.GetAgent() == "" || len(m.GetAgent()) > maxAgentBytes || m.GetAgent() != agent {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "agent", "%.80q reports on the subject of %.80q", m.GetAgent(), agent)
	}
	if m.GetIncarnation() == "" || len(m.GetIncarnation()) > maxTextBytes || len(m.GetSoftware()) > maxTextBytes {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "incarnation", "is empty or too long, or the software's name is")
	}
	if m.GetActivatedRevision() < 0 {
		return fleet.Report{}, 0, script.Errorf(script.Invalid, "activated_revision", "%d is negative", m.GetActivatedRevision())
	}
	if err := checkLabels(m.GetLabels()); err != nil {
		return fleet.Report{}, 0, err
	}
	tenants, err := script.ParseSelector(m.GetTenants())
	if err != nil {
		return fleet.Report{}, 0, err
	}
	if err := checkDiskKeys(m.GetDiskKeys()); err != nil {
		return fleet.Report{}, 0, err
	}
	failures, skipped, err := readFailures(m.GetFailures())
	if err != nil {
		return fleet.Report{}, 0, err
	}
	trials, left := readTrials(m.GetTrials())
	return fleet.Report{
		Fleet:       m.GetFleet(),
		Agent:       m.GetAgent(),
		Incarnation: m.GetIncarnation(),
		Sequence:    m.GetSequence(),
		Labels:      m.GetLabels(),
		Software:    m.GetSoftware(),
		Activated:   script.Revision(m.GetActivatedRevision()),
		Activations: readActivations(m.GetActivations()),
		Failures:    failures,
		Leaving:     m.GetLeaving(),
		Tenants:     tenants,
		DiskKeys:    m.GetDiskKeys(),
		Drifts:      m.GetDrifts(),
		Trials:      trials,
	}, skipped + left, nil
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
	for key, value := range labels {
		if len(key) > maxTextBytes || len(value) > maxTextBytes {
			return script.Errorf(script.Invalid, "labels", "%.80q is too long", key)
		}
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
// they name nothing that there can be: they must not hide how far the agent is.
func readFailures(messages []*eventv1.Failure) (failures []fleet.Failure, skipped int, err error) {
	if len(messages) > maxFailures {
		return nil, 0, script.Errorf(script.Invalid, "failures", "are %d, at most %d are allowed", len(messages), maxFailures)
	}
	for _, m := range messages {
		name, ok, err := fleet.FailureName(m.GetKey())
		if !ok {
			continue
		}
		if err != nil {
			skipped++
			continue
		}
		cause := readCause(m.GetError(), maxErrorMessage)
		if cause == nil {
			cause = &script.Error{Kind: script.Internal, Message: "the agent did not say why"}
		}
		failures = append(failures, fleet.Failure{Name: name, Revision: script.Revision(m.GetRevision()), Err: cause})
	}
	return failures, skipped, nil
}

// readCause returns why something failed, with a message of at most so many bytes; nil if
// nothing did.
func readCause(m *scriptv1.Error, most int) *script.Error {
	cause := wire.ToError(m)
	if cause != nil {
		cause.Message = readText(cause.Message, most)
	}
	return cause
}

// readText returns at most so many bytes of the text.
func readText(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// readTrials takes at most fleet.MaxTrials, and counts those that it left out, and those
// that name nothing that there can be: they must not hide how far the agent is, and what
// nobody hears of is waited for.
func readTrials(messages []*eventv1.Trial) (trials []fleet.Trial, skipped int) {
	if len(messages) == 0 {
		return nil, 0
	}
	taken := messages[:min(len(messages), fleet.MaxTrials)]
	skipped = len(messages) - len(taken)
	trials = make([]fleet.Trial, 0, len(taken))
	for _, m := range taken {
		text, ok := strings.CutPrefix(m.GetKey(), string(script.Releases)+"/")
		name, err := script.ParseName(text)
		if !ok || err != nil || len(m.GetError().GetField()) > maxTextBytes {
			skipped++
			continue
		}
		trials = append(trials, fleet.Trial{
			Name: name, Version: m.GetVersion(), Attempt: m.GetAttempt(),
			Tested: m.GetTested(), Err: readCause(m.GetError(), maxTrialMessage), Waiting: readText(m.GetWaiting(), maxWaiting),
			Calls: m.GetCalls(), FailedCalls: m.GetFailedCalls(),
		})
	}
	return trials, skipped
}
