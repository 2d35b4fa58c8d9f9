package fanout

import (
	"strings"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
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
)

// readReport reads what came on the status subject of the agent.
func readReport(agent string, data []byte) (fleet.Report, error) {
	var m eventv1.Status
	if err := wire.Open(data, &m); err != nil {
		return fleet.Report{}, err
	}
	if m.GetAgent() == "" || len(m.GetAgent()) > maxAgentBytes || m.GetAgent() != agent {
		return fleet.Report{}, script.Errorf(script.Invalid, "agent", "%.80q reports on the subject of %.80q", m.GetAgent(), agent)
	}
	if m.GetIncarnation() == "" || len(m.GetIncarnation()) > maxTextBytes || len(m.GetSoftware()) > maxTextBytes {
		return fleet.Report{}, script.Errorf(script.Invalid, "incarnation", "is empty or too long, or the software's name is")
	}
	if m.GetActivatedRevision() < 0 {
		return fleet.Report{}, script.Errorf(script.Invalid, "activated_revision", "%d is negative", m.GetActivatedRevision())
	}
	if err := checkLabels(m.GetLabels()); err != nil {
		return fleet.Report{}, err
	}
	failures, err := readFailures(m.GetFailures())
	if err != nil {
		return fleet.Report{}, err
	}
	return fleet.Report{
		Fleet:       m.GetFleet(),
		Agent:       m.GetAgent(),
		Incarnation: m.GetIncarnation(),
		Sequence:    m.GetSequence(),
		Labels:      m.GetLabels(),
		Software:    m.GetSoftware(),
		Activated:   script.Revision(m.GetActivatedRevision()),
		Failures:    failures,
		Leaving:     m.GetLeaving(),
	}, nil
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

// readFailures skips objects of kinds that are unknown here: a newer agent may
// follow more than this registry knows of.
func readFailures(messages []*eventv1.Failure) ([]fleet.Failure, error) {
	if len(messages) > maxFailures {
		return nil, script.Errorf(script.Invalid, "failures", "are %d, at most %d are allowed", len(messages), maxFailures)
	}
	var failures []fleet.Failure
	for _, m := range messages {
		path, ok := strings.CutPrefix(m.GetKey(), "releases/")
		if !ok {
			continue
		}
		name, err := script.ParseName(path)
		if err != nil {
			return nil, err
		}
		cause := wire.ToError(m.GetError())
		if cause == nil {
			cause = &script.Error{Kind: script.Internal, Message: "the agent did not say why"}
		}
		cause.Message = strings.ToValidUTF8(cause.Message[:min(len(cause.Message), maxErrorMessage)], "")
		failures = append(failures, fleet.Failure{Name: name, Revision: script.Revision(m.GetRevision()), Err: cause})
	}
	return failures, nil
}
