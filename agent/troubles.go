package agent

import (
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// troubles are the scripts that are kept from running here, for the status.
func (a *Agent) troubles() []follow.Trouble {
	if a.workers == nil {
		return nil
	}
	quarantined := a.workers.Quarantined()
	list := make([]follow.Trouble, 0, len(quarantined))
	for _, q := range quarantined {
		list = append(list, follow.Trouble{Key: wire.ReleaseKey(q.Script), Revision: q.Revision, Err: q.Err})
	}
	return list
}
