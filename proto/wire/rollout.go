package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FromRollout returns the message for r.
func FromRollout(r script.Rollout) *registryv1.Rollout {
	return &registryv1.Rollout{
		Revision:     int64(r.Revision),
		Agents:       int32(r.Agents),
		Median:       durationpb.New(r.Median),
		P99:          durationpb.New(r.P99),
		Slowest:      durationpb.New(r.Slowest),
		SlowestAgent: r.SlowestAgent,
		ConvergedAt:  fromTime(r.ConvergedAt),
	}
}

// ToRollout reads m; ok is false if m is nil.
func ToRollout(m *registryv1.Rollout) (r script.Rollout, ok bool) {
	if m == nil {
		return script.Rollout{}, false
	}
	return script.Rollout{
		Revision:     script.Revision(m.GetRevision()),
		Agents:       int(m.GetAgents()),
		Median:       m.GetMedian().AsDuration(),
		P99:          m.GetP99().AsDuration(),
		Slowest:      m.GetSlowest().AsDuration(),
		SlowestAgent: m.GetSlowestAgent(),
		ConvergedAt:  toTime(m.GetConvergedAt()),
	}, true
}
