package follow

import (
	"slices"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// Bounds of a Recall, besides those of a Tail.
const (
	maxRecallID     = 64
	maxRecallAgents = 64
)

// Recall asks for copies of what the registry has lost.
type Recall struct {
	Fleet, ID string
	Keys      []string // of objects and, as wire.SourceKey has it, of sources

	agents []string
	sentAt time.Time
}

// recall opens a Recall.
func (o *opener) recall(data []byte) (*Recall, error) {
	var m eventv1.Recall
	if _, err := o.trusted.Open(data, &m); err != nil {
		return nil, refusalOf(data, err)
	}
	id, keys, agents := len(m.GetId()), len(m.GetKeys()), len(m.GetAgents())
	if id == 0 || id > maxRecallID || keys == 0 || keys > wire.MaxRecall || agents > maxRecallAgents {
		return nil, refuse(refusedMalformed, "a recall has an id of %d bytes, %d keys, and %d agents", id, keys, agents)
	}
	return &Recall{Fleet: m.GetFleet(), ID: m.GetId(), Keys: m.GetKeys(), agents: m.GetAgents(), sentAt: m.GetSentAt().AsTime()}, nil
}

// recall forwards requests for copies to this agent. Each counts once, as a Tail does.
func (f *Follower) recall(now time.Time, r *Recall) {
	if f.cfg.Recall == nil || f.machine.ofAnotherFleet("recall", r.Fleet) || !slices.Contains(r.agents, f.cfg.Agent) {
		return
	}
	if !f.recalls.isNew(now, [2]string{r.ID}, r.sentAt) {
		f.refusals.note("recall", refuse(refusedReplayed, "a recall that was sent at %v came again, or late", r.sentAt))
		return
	}
	f.cfg.Recall(*r)
}
