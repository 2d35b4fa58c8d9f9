package follow

import (
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what a status tells of candidates: it must fit into one message of NATS.
const (
	// MaxTrials in one status.
	MaxTrials    = 1000
	maxVerdict   = 640 // bytes of the message of one that failed
	maxVerdicts  = 256 // of those that are that long; of others it is
	shortVerdict = 64
	maxWait      = 120 // bytes of why one is not over

	maxAllCalls = 512 << 10 // bytes of the calls of steps, of which each trial has an equal part
)

// trialsOf returns trials in the form that a status carries.
func trialsOf(trials []Trial) []*eventv1.Trial {
	trials = trials[:min(len(trials), MaxTrials)]
	list := make([]*eventv1.Trial, 0, len(trials))
	failed := 0
	for _, t := range trials {
		m := &eventv1.Trial{
			Key: t.Key, Version: t.Version, Attempt: t.Attempt, Spec: wire.FromDigest(t.Spec), Tested: t.Tested, Calls: t.Calls, FailedCalls: t.FailedCalls, ProcessEnded: t.ProcessEnded, Shadow: wire.FromShadowCalls(t.Shadow),
		}
		if t.Err == nil {
			most := maxAllCalls / len(trials)
			if t.ActiveCalls != nil {
				most /= 2
			}
			m.StepCalls, m.ActiveCalls = stepCalls(t.StepCalls, most), stepCalls(t.ActiveCalls, most)
		} else {
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

// stepCalls returns the calls in the form that a status carries; nil if they take more bytes than
// that, or cannot be. The process of a tenant has counted them, and may say what it likes.
func stepCalls(calls *script.StepCalls, most int) *scriptv1.StepCalls {
	if calls == nil || !calls.Valid() {
		return nil
	}
	m := wire.FromStepCalls(calls)
	if proto.Size(m) > most {
		return nil
	}
	return m
}
