package follow

import (
	"errors"
	"time"
)

// tell says in the log how a sync ended, if that is news.
func (f *Follower) tell(now time.Time, out outcome) {
	if out.err == nil {
		f.trouble = trouble{}
		if !f.Synced() {
			close(f.synced)
			f.log.Info("first sync with the registry", "fleet", f.machine.cursor.Fleet, "revision", f.machine.cursor.Revision)
		}
		return
	}
	if _, said := errors.AsType[*refusal](out.err); said || !f.trouble.news(now, out.err) {
		return
	}
	f.log.Warn("sync with the registry failed; what is live stays live; the same is logged once a minute",
		"error", out.err, "failed", f.machine.failed, "retry_in", f.machine.due.Sub(now).String())
}

// trouble is why the last sync failed, as far as the log has it.
type trouble struct {
	text   string
	logged time.Time
}

// news reports whether to log the error: it differs from the last logged one, or that one is old.
func (t *trouble) news(now time.Time, err error) bool {
	if text := err.Error(); text != t.text || now.Sub(t.logged) >= logEvery {
		*t = trouble{text: text, logged: now}
		return true
	}
	return false
}
