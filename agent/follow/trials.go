package follow

import (
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// Bounds of what a status tells of candidates: it must fit into one message of NATS.
const (
	// MaxTrials in one status.
	MaxTrials    = 1000
	maxVerdict   = 640 // bytes of the message of one that failed
	maxVerdicts  = 256 // of those that are that long; of others it is
	shortVerdict = 64
	maxWait      = 120 // bytes of why one is not over
)

// trialsOf returns trials in the form that a status carries.
func trialsOf(trials []Trial) []*eventv1.Trial {
	trials = trials[:min(len(trials), MaxTrials)]
	list := make([]*eventv1.Trial, 0, len(trials))
	failed := 0
	for _, t := range trials {
		m := &eventv1.Trial{
			Key: t.Key, Version: t.Version, Attempt: t.Attempt, Spec: wire.FromDigest(t.Spec), Tested: t.Tested, Calls: t.Calls, FailedCalls: t.FailedCalls, ProcessEnded: t.ProcessEnded,
			StepCalls: wire.FromStepCalls(t.StepCalls),
		}
		if t.Err != nil {
			failed++
			most := maxVerdict
			if failed > maxVerdicts {
				most = shortVerdict
			}
			m.Error = reason(t.Err)
			m.Error.Message = within(m.Error.GetMessage(), most)
			m.Error.Field = within(m.Error.GetField(), maxVerdict)
		}
		if t.Waiting != nil {
			m.Waiting = within(text(t.Waiting.Error()), maxWait)
		}
		list = append(list, m)
	}
	return list
}
