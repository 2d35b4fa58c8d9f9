package agent

import (
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// troubles are the scripts that are kept from running here, for the status.
func (a *Agent) troubles() []follow.Trouble {
	list := a.unsigned.troubles(a.state.table)
	if a.workers == nil {
		return list
	}
	quarantined := a.workers.Quarantined()
	for _, q := range quarantined {
		list = append(list, follow.Trouble{Key: wire.ReleaseKey(q.Script), Revision: troubled(a.state.table.Get(q.Script.String()), q), Err: q.Err})
	}
	return list
}

// lags are the tenants whose process does not have all that is live here, for the status.
func (a *Agent) lags() map[string]script.Revision {
	if a.workers == nil {
		return nil
	}
	return a.workers.Lags()
}

// troubled returns the revision that is in trouble as the script is in quarantine: of the
// release that is live, for what it runs here is why; or what was before it, if it brings
// a candidate that does not run here: that is not why, and may be what mends it.
func troubled(live *cache.Release, q worker.Quarantined) script.Revision {
	switch {
	case live == nil:
		return q.Revision
	case live.Candidate != nil && live.Candidate.Failed == "" && live.OfCandidate().Calls == nil && !live.Untried():
		return live.Revision - 1
	}
	return live.Revision
}
