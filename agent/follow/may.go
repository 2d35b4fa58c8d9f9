package follow

import "github.com/scriptorium-dev/scriptorium/script"

// vouched refuses a release that its publisher has not signed, if that has to be. It is
// tried again, since the publishers' keys can change.
func (a *applier) vouched(o script.Object) error {
	if o.Release == nil {
		return nil
	}
	return a.roots.Trust().Release(o.Release)
}

// bounded refuses a script that is new here if nobody can tell what its tenant may do: it
// may have to run in a process of its own. Coming has the keys of settings that go live
// with it.
func (a *applier) bounded(o script.Object, coming keys) error {
	if len(a.unreadable) == 0 || o.Release == nil || a.state.Revision(o.Key()) != 0 {
		return nil
	}
	key := script.Object{Tenant: &script.Tenant{Name: o.TenantName()}}.Key()
	if !a.unreadable.has(key) || coming.has(key) || a.state.Revision(key) != 0 {
		return nil
	}
	return script.Errorf(script.Unavailable, "tenant", "the registry cannot read the settings of its tenant %s: set them again, or run scriptctl doctor", o.TenantName())
}
