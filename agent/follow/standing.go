package follow

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Position returns the revision that is activated, and how long ago it was
// known to be the registry's newest: negative if it never was since New.
func (f *Follower) Position(now time.Time) (script.Revision, time.Duration) {
	s := f.standing.Load()
	if s.current.IsZero() {
		return s.revision, -1
	}
	return s.revision, max(0, now.Sub(s.current))
}

// Held says why the follower keeps what it has although the registry says otherwise, and
// what to do; "" if it does not.
func (f *Follower) Held() string { return f.standing.Load().held }

// Session returns the session that the agent reports in now: the zero Session until a registry gives
// one.
func (f *Follower) Session() seal.Session {
	if s := f.reporting.Load(); s != nil {
		return *s
	}
	return seal.Session{}
}

// TroublesChanged says that what Config.Troubles or Config.Lags returns has changed. It returns at
// once, and may be called from any goroutine.
func (f *Follower) TroublesChanged() { f.inbox.changed() }

// TrialsChanged says that what Config.Trials returns has changed by more than calls; the
// agent reports it now. It returns at once, and may be called from any goroutine.
func (f *Follower) TrialsChanged() { f.inbox.changed() }

// FirstSync is closed when the registry has answered for the first time, and all of the
// answer is in.
func (f *Follower) FirstSync() <-chan struct{} { return f.synced }

// Answering reports whether the registry has begun an answer, and not all of it is in.
func (f *Follower) Answering() bool { return f.answering.Load() }

// Synced reports whether the registry has answered since New.
func (f *Follower) Synced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}
