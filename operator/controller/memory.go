package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// memory is what the operator knows of one object beside the object. It can be lost at
// any time: then the operator asks the registry again, and at worst emits an event twice, or
// not at all. A publish whose answer was lost has no event, either, if others changed the
// script, or if the spec was edited and the publish reached the registry after the operator
// asked what the registry had. Only one reconciliation uses a memory at a time.
type memory struct {
	uid  types.UID
	held string // the resource version that got the finalizer
	gone bool   // the finalizer was removed, though the cache may not show it yet
	// farewell tells of the object's end, once it is known that the finalizer was removed.
	farewell func()

	deleting bool      // the registry may have deleted the script, without saying so
	deleted  bool      // the script is gone from the registry, or was not the object's
	say      bool      // an event has to say that it was deleted
	stuck    time.Time // when its deletion failed first, of those that this process tried

	// answer is what the registry said it has, in that session of the fleet's watch;
	// nil for no such script.
	answer  *script.Release
	asked   bool // there was an answer
	session int
	// settled is the generation whose spec the answer fulfils; 0 for none.
	settled int64
	// settledHold is the annotation, as holdAnnotation returns it, that the answer fulfils.
	settledHold string
	retry       retry
	pending     pending

	had      int64  // the generation that the registry had before, so that others changed it
	restores damper // of putting that right

	seen     int64 // the latest generation, at
	seenAt   time.Time
	measured bool      // the time from there to convergence was
	announce bool      // an event has to say that it converged
	news     []func()  // tell of what was published (or became of a candidate), once the status says it
	grace    time.Time // until when the fleet may take before the status is written

	stage     *stage // of the candidate, as of the last event; nil if that is not known
	failing   failing
	pace      pace
	trace     traced
	untold    *v1alpha1.LuaScriptStatus // what the last events were about, if a write since may have been done; or nil
	writtenAt time.Time                 // the status, last
	written   *v1alpha1.LuaScriptStatus // as of
	version   string                    // this resource version
}

// pending is a publish of which it is not known whether it happened; the zero value is for
// none.
type pending struct {
	action Action
	want   *spec.Wanted        // what was asked for
	ls     *v1alpha1.LuaScript // as it asked for that
	after  script.Revision     // that the script had before
}

// memoryOf returns what is known of ls: nothing of one that was created anew.
func (r *Reconciler) memoryOf(ls *v1alpha1.LuaScript) *memory {
	key := types.NamespacedName{Namespace: ls.Namespace, Name: ls.Name}
	if found, ok := r.memories.Load(key); ok {
		m := found.(*memory)
		if m.uid == ls.UID {
			return m
		}
		m.sayFarewell()
	}
	m := &memory{uid: ls.UID}
	r.memories.Store(key, m)
	return m
}

// forget forgets an object that is not there anymore.
func (r *Reconciler) forget(key types.NamespacedName) {
	if found, ok := r.memories.LoadAndDelete(key); ok {
		found.(*memory).sayFarewell()
	}
}

// sayFarewell tells of the object's end, once.
func (m *memory) sayFarewell() {
	if m.farewell != nil {
		m.farewell()
		m.farewell = nil
	}
}

// see takes note of the spec's generation, which came at that time.
func (m *memory) see(ls *v1alpha1.LuaScript, at time.Time) {
	if m.seen == ls.Generation {
		return
	}
	// One that an operator before this one has seen was not first seen now.
	known := m.seen == 0 && ls.Status.ObservedGeneration == ls.Generation
	m.measured = known
	// This operator announces what it publishes, and what it finds under way. What is unknown
	// was mostly announced before the registry went away.
	c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionConverged)
	m.announce = m.announce || known && (c == nil || c.Status == metav1.ConditionFalse)
	m.restores = damper{}
	m.seen, m.seenAt = ls.Generation, at
}

// learn takes note of what the registry has; nil for no such script.
func (m *memory) learn(r *script.Release, session int) {
	m.asked, m.session, m.settled, m.answer = true, session, 0, nil
	if r != nil && !r.Deleted {
		m.answer = r
	}
}

// invalidate makes the registry be asked before the next decision.
func (m *memory) invalidate() { m.session = noSession }

// noSession is no session of a watch.
const noSession = -1

// knows reports whether the answer still holds: the fleet would tell of a newer release,
// or that the script is gone. told is the release that it reported; nil for none.
func (m *memory) knows(state fleet.State, told *script.Release) bool {
	switch {
	case m.session == 0: // it was never asked, but the fleet would know the script
		return m.answer == nil && state.Live && told == nil
	case m.session != state.Session:
		return false
	case m.answer == nil:
		return told == nil
	case told == nil:
		return !state.Live || state.Head < m.answer.Revision
	}
	return told.Revision == m.answer.Revision || told.Revision < m.answer.Revision && (!state.Live || state.Head < m.answer.Revision)
}

// own returns the release, if it is the owner's.
func (m *memory) own(owner string) *script.Release {
	if m.answer == nil || m.answer.Owner != owner {
		return nil
	}
	return m.answer
}

// status returns what the API server has: what was written last, unless ls is newer.
func (m *memory) status(ls *v1alpha1.LuaScript) *v1alpha1.LuaScriptStatus {
	if m.written != nil && older(ls, m.version) {
		return m.written
	}
	return &ls.Status
}

// older reports whether ls, of the cache, is from before it had that resource version.
func older(ls *v1alpha1.LuaScript, version string) bool {
	order, err := resourceversion.CompareResourceVersion(ls.ResourceVersion, version)
	return err == nil && order < 0
}
