package tenancy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// memory is what the operator knows of one ScriptTenant beside the object: the writes that
// the cache does not show yet, and the requests without an answer, so that each has one
// event. It can be lost at any time: then the operator at worst emits an event twice, or not
// at all. It goes with the ScriptTenant, and is not of another of that name. Only one
// reconciliation uses it at a time.
type memory struct {
	uid types.UID

	status  *v1alpha1.ScriptTenantStatus // what the API server has, as far as is known
	version string                       // the resource version of the one written last
	// untold is the status of the last events, if a write since may have been done; or nil.
	untold *v1alpha1.ScriptTenantStatus
	// asked is what the operator sent to the registry, until it knows that it is there; or nil.
	asked *asked

	edit  spec.Edit // the latest
	stuck time.Time // when this process failed first to take the settings away; or zero
	// farewell tells of the ScriptTenant's end, once it is known that the finalizer was removed.
	farewell func()
	gone     bool // it was, though the cache may not show it yet
}

// asked is a write of settings to the registry.
type asked struct {
	settings script.TenantSettings
	before   script.Tenant // what the registry had
	settled  bool          // it had had these settings before, so that others changed them
}

// recall returns what is known of t, whose status it makes what was written last, if the
// cache is behind.
func (r *reconciler) recall(t *v1alpha1.ScriptTenant) *memory {
	m := &memory{uid: t.UID}
	if found, ok := r.memories.Load(t.Name); ok && found.(*memory).uid == t.UID {
		m = found.(*memory)
	} else {
		r.forget(t.Name)
		r.memories.Store(t.Name, m)
	}
	if order, err := resourceversion.CompareResourceVersion(t.ResourceVersion, m.version); err == nil && order < 0 {
		t.Status = *m.status.DeepCopy()
	} else {
		m.status = t.Status.DeepCopy()
	}
	return m
}

// forget forgets a ScriptTenant that is not there anymore.
func (r *reconciler) forget(name string) {
	if found, ok := r.memories.LoadAndDelete(name); ok {
		found.(*memory).sayFarewell()
	}
}

// sayFarewell tells of the ScriptTenant's end, once.
func (m *memory) sayFarewell() {
	if m.farewell != nil {
		m.farewell()
		m.farewell = nil
	}
}
