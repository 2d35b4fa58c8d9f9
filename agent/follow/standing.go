package follow

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Position returns the activated revision, and the time since it was known to be the registry's newest revision. The
// time is negative if that has not happened since New.
func (f *Follower) Position(now time.Time) (script.Revision, time.Duration) {
	s := f.standing.Load()
	if s.current.IsZero() {
		return s.revision, -1
	}
	return s.revision, max(0, now.Sub(s.current))
}

// Held returns why the follower keeps its current state although the registry has another one, and what to do. It
// returns "" if the follower does not hold its state.
func (f *Follower) Held() string { return f.standing.Load().held }

// Session returns the session in which the agent reports. It is the zero Session until a registry opens one.
func (f *Follower) Session() seal.Session {
	if s := f.reporting.Load(); s != nil {
		return *s
	}
	return seal.Session{}
}

// TroublesChanged reports that the result of Config.Troubles or Config.Lags has changed. It does not block, and may be
// called from any goroutine.
func (f *Follower) TroublesChanged() { f.inbox.changed() }

// TrialsChanged reports that the result of Config.Trials has changed in more than the counts of calls. The agent
// reports it now. It does not block, and may be called from any goroutine.
func (f *Follower) TrialsChanged() { f.inbox.changed() }

// FirstSync is closed when the first answer of a registry is complete.
func (f *Follower) FirstSync() <-chan struct{} { return f.synced }

// Answering reports whether an answer of the registry is in progress.
func (f *Follower) Answering() bool { return f.answering.Load() }

// Synced reports whether FirstSync is closed.
func (f *Follower) Synced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}
