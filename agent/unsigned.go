package agent

import (
	"sync"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unsigned are live releases that would not go live now: the publishers' keys have changed
// since they did.
type unsigned struct {
	mu   sync.Mutex
	list []follow.Trouble
}

// PublishersChanged says that Config.Publishers were replaced. Retained versions need one of
// their signatures from here on, also in tenants' processes. What is live stays live until
// it is replaced or the agent restarts; the status names what would not be loaded again.
func (a *Agent) PublishersChanged() {
	a.workers.PublishersChanged()
	trust := a.cfg.Publishers.Trust()
	var list []follow.Trouble
	for r := range a.state.table.All() {
		if !trust.Requires(r.Name.Tenant) {
			continue
		}
		key := wire.ReleaseKey(r.Name)
		next, err := a.state.store.Release(key) // not all that is signed is in memory
		if err == nil {
			err = trust.Release(&next)
		}
		if err == nil {
			continue
		}
		e := *script.AsError(err)
		e.Message = "it runs until the agent restarts: " + e.Message
		list = append(list, follow.Trouble{Key: key, Revision: r.Revision, Err: &e})
	}
	if len(list) > 0 {
		a.log.Warn("live scripts would not be loaded again: the key of their publisher is not trusted any more",
			"scripts", len(list), "first", list[0].Key, "error", list[0].Err)
	}
	a.unsigned.mu.Lock()
	a.unsigned.list = list
	a.unsigned.mu.Unlock()
	a.follower.TroublesChanged()
}

// troubles returns those that are live still.
func (u *unsigned) troubles(live *cache.Table) []follow.Trouble {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []follow.Trouble
	for _, t := range u.list {
		if live.Revision(t.Key[len(script.Releases)+1:]) == t.Revision {
			list = append(list, t)
		}
	}
	return list
}
