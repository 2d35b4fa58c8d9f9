package fanout

import (
	"strings"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
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
	maxDiskKeys     = 64
	maxActivations  = 32
	maxKeyBytes     = 64
)

// readReport reads what came on the status subject of the agent. It also returns
// how many failures were left out because they cannot be read.
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
	}, skipped, nil
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
		cause := wire.ToError(m.GetError())
		if cause == nil {
			cause = &script.Error{Kind: script.Internal, Message: "the agent did not say why"}
		}
		cause.Message = strings.ToValidUTF8(cause.Message[:min(len(cause.Message), maxErrorMessage)], "")
		failures = append(failures, fleet.Failure{Name: name, Revision: script.Revision(m.GetRevision()), Err: cause})
	}
	return failures, skipped, nil
}
