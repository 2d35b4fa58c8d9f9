package controller

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fault is why an object is not what it should be.
type fault struct {
	err error
	// permanent: it stays so until somebody changes something. Others go by
	// themselves.
	permanent bool
	// word is the reason, if err's kind is not: nothing was asked of the registry then.
	word string
}

// awaiting is the fault of an object whose tenant's settings the registry does not
// have.
func awaiting(t *v1alpha1.ScriptTenant) *fault {
	why := ""
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		why = " (" + c.Message + ")"
	}
	return &fault{word: "TenantNotReady", err: script.Errorf(script.Conflict, "spec.tenantId",
		"the settings of the ScriptTenant %s are not in the registry yet%s: the script is published when they are", t.Name, why)}
}

// contended is the fault of an object whose script others change again and again.
func contended(kind kinds.Kind, times int) *fault {
	return &fault{word: "Contended", err: script.Errorf(script.Conflict, "",
		"the script was changed behind the %s's back %d times, and is put right ever more slowly: "+
			"see in its history (scriptctl history) who does that; it may be another cluster on the same registry", kind, times)}
}

// faultOf returns the fault that err is.
func faultOf(err error) *fault {
	if script.IsFrozen(err) {
		return &fault{err: err, word: reasonFrozen}
	}
	if e := script.AsError(err); e.Kind == script.NotFound && (e.Field == "spec.source" || e.Field == "spec.script") {
		return &fault{err: err, word: reasonLibrary} // it may come with the same kubectl apply
	}
	switch script.KindOf(err) {
	case script.Invalid, script.Script, script.Denied, script.Limit, script.NotFound, script.Disabled:
		return &fault{err: err, permanent: true}
	}
	return &fault{err: err}
}

// frozen reports whether the registry is frozen. It goes by itself, but not soon.
func (f *fault) frozen() bool { return f.word == reasonFrozen }

// uncertain reports whether what was asked for may have been done.
func (f *fault) uncertain() bool {
	kind := script.KindOf(f.err)
	return kind == script.Unavailable || kind == script.Timeout || kind == script.Internal
}

// message is what the webhook would have said, where it could have known.
func (f *fault) message() string {
	if faults, ok := spec.AllFaults(f.err); ok {
		return faults.Error()
	}
	return f.err.Error()
}

// reason is the fault in one word.
func (f *fault) reason() string {
	if f.word != "" {
		return f.word
	}
	switch script.KindOf(f.err) {
	case script.Script:
		return "DoesNotCompile"
	case script.Invalid:
		return "Invalid"
	case script.Denied:
		return "Denied"
	case script.Limit:
		return "LimitExceeded"
	case script.NotFound:
		return "VersionNotFound"
	case script.Unavailable, script.Timeout:
		return "RegistryUnavailable"
	case script.Overloaded:
		return "RegistryOverloaded"
	case script.Conflict:
		return "Conflict"
	}
	return "Failed"
}

// reasonLibrary is of a script that requires a library which is not in the registry yet.
const reasonLibrary = "LibraryNotFound"

// The times between attempts.
const (
	minRetry = 250 * time.Millisecond
	maxRetry = 30 * time.Second
	// What somebody has to change is looked at again at once when they do, mostly:
	// when the spec, the ScriptTenant, the namespace or the script in the registry changes. A
	// policy of the registry changes unseen.
	stalledRetry = time.Minute
	// What was refused is not asked for again within a second, whatever happens.
	minStalled = time.Second
)

// retry says when the registry may be asked again after a fault. The zero value is for
// none.
type retry struct {
	// It holds for this generation of the spec, and this connection with the
	// registry: what is another may end well at once.
	generation int64
	session    int

	fault    *fault
	attempts int
	earliest time.Time // whatever happens
}

// failed takes note of a fault, and returns when to try again.
func (r *retry) failed(f *fault, generation int64, session int, now time.Time) time.Duration {
	attempts := 1
	if r.holds(generation, session) {
		attempts += r.attempts
	}
	after := maxRetry
	if shift := attempts - 1; shift < 7 {
		after = min(minRetry<<shift, maxRetry)
	}
	after = after*4/5 + rand.N(after*2/5)
	*r = retry{generation: generation, session: session, fault: f, attempts: attempts}
	r.earliest = now.Add(after)
	if f.permanent || f.frozen() { // the end of a freeze wakes all
		after = stalledRetry*4/5 + rand.N(stalledRetry*2/5)
		r.earliest = now.Add(minStalled)
	}
	return after
}

// wait returns how long the registry is not to be asked yet; 0 if it may be.
func (r *retry) wait(generation int64, session int, now time.Time) time.Duration {
	if !r.holds(generation, session) {
		return 0
	}
	return max(0, r.earliest.Sub(now))
}

func (r *retry) holds(generation int64, session int) bool {
	return r.fault != nil && r.generation == generation && r.session == session
}
