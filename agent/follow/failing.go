package follow

import (
	"cmp"
	"errors"
	"slices"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// failing is an object that could not be made live. It is tried again if the
// reason may pass, until it succeeds or the registry has a newer one.
type failing struct {
	item Item
	// since is the revision of the first object of the key that is neither live nor
	// replaced by one that is.
	since script.Revision
	// skipped are the versions before this one that never went live here. What they were to go live
	// with waits for this one.
	skipped  []script.Revision
	err      error
	passing  bool
	attempts int
	at       time.Time
	first    time.Time // that the key failed
	// awaited: the registry had little time so far to send what the object needs. The agent
	// does not report that as a failure.
	awaited bool
}

func (a *applier) fail(now time.Time, c *candidate) {
	key := c.Key
	f := a.failing[key]
	if f == nil || f.item.Object.Revision() != c.Object.Revision() {
		since, first := c.since, now
		if f != nil {
			since, first = min(since, f.since), f.first
		}
		f = &failing{item: c.Item, since: since, skipped: c.skipped, first: first}
		a.failing[key] = f
		a.manySkipped = a.manySkipped || len(f.skipped) > manySkipped
	}
	if f.err == nil || f.err.Error() != c.err.Error() {
		a.changed = true
		a.log.Warn("what the registry has cannot be made live; what was before it stays", "key", key, "revision", c.Object.Revision(), "error", c.err)
	}
	if awaited := (errors.Is(c.err, errSilent) || errors.Is(c.err, errAwaited)) && now.Sub(f.first) < answerTimeout; awaited != f.awaited {
		f.awaited, a.changed = awaited, true
	}
	f.err = c.err
	f.passing = !script.KindOf(c.err).Deterministic()
	wait := min(retryMax, backoffMin<<min(f.attempts, 10))
	f.at = now.Add(wait/2 + time.Duration(a.random.Int64N(int64(wait))))
	if f.awaited && f.attempts == 0 {
		f.at = now
	}
	f.attempts++
}

func (a *applier) pass(now time.Time, c *candidate) {
	key := c.Key
	if c.Object.Tenant != nil {
		a.retryOf(now, c.Object.TenantName())
	}
	if _, was := a.failing[key]; was {
		delete(a.failing, key)
		a.changed = true
	}
	a.log.Debug("it is live", "key", key, "revision", c.Object.Revision())
}

// retryOf has the tenant's releases tried again, whatever they failed for: its new settings may be what they need, such
// as a process of its own.
func (a *applier) retryOf(now time.Time, tenant string) {
	for _, f := range a.failing {
		if f.item.Object.Release != nil && f.item.Object.TenantName() == tenant {
			f.passing, f.at = true, now
		}
	}
}

// retryAt returns when the first retry is due; zero: never.
func (a *applier) retryAt() time.Time {
	var at time.Time
	for f := range a.retriable {
		at = earlier(at, f.at)
	}
	return at
}

// failure is what a status tells of an object that could not be made live.
type failure struct {
	since   script.Revision // as in failing
	message *eventv1.Failure
	awaited bool // as in failing
}

// failures that stand, those that have stood for longest first.
func (a *applier) failures() []failure {
	list := make([]failure, 0, len(a.failing))
	for key, f := range a.failing {
		list = append(list, failure{since: f.since, awaited: f.awaited, message: &eventv1.Failure{
			Key: key, Revision: int64(f.item.Object.Revision()), Error: reason(f.err),
		}})
	}
	slices.SortFunc(list, longestFirst)
	return list
}

// longestFirst puts what has failed for longer first.
func longestFirst(x, y failure) int {
	return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.message.GetKey(), y.message.GetKey()))
}
