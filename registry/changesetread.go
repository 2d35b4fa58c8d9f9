package registry

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSet returns the tenant's change set with its state. It needs the role read.
func (r *Registry) ChangeSet(ctx context.Context, by access.Identity, tenant, name string) (script.ChangeSet, error) {
	if err := (script.Name{Tenant: tenant, Script: name}).Validate(); err != nil {
		return script.ChangeSet{}, err
	}
	if err := by.Check(access.Read, tenant); err != nil {
		return script.ChangeSet{}, err
	}
	set, err := r.store.ChangeSet(ctx, tenant, name)
	if err != nil {
		return script.ChangeSet{}, err
	}
	return r.asItIs(ctx, set)
}

// ChangeSets returns those of the tenant in the order of their names, and the names of those whose
// records cannot be read. It needs the role read.
func (r *Registry) ChangeSets(ctx context.Context, by access.Identity, tenant string) (sets []script.ChangeSet, unreadable []string, err error) {
	if err := script.ValidateLabel("tenant", tenant); err != nil {
		return nil, nil, err
	}
	if err := by.Check(access.Read, tenant); err != nil {
		return nil, nil, err
	}
	sets, unreadable, err = r.store.ChangeSets(ctx, tenant)
	for i := range sets {
		if err == nil {
			sets[i], err = r.asItIs(ctx, sets[i])
		}
	}
	return sets, unreadable, err
}

// asItIs returns the record. If all scripts of a change set on trial have left it since, which no write
// records, it returns the change set as failed.
func (r *Registry) asItIs(ctx context.Context, set script.ChangeSet) (script.ChangeSet, error) {
	if set.State != script.ChangeSetOnTrial {
		return set, nil
	}
	for _, name := range set.ScriptNames() {
		cur, err := r.store.Release(ctx, name)
		switch {
		case script.KindOf(err) == script.NotFound:
		case err != nil:
			return set, err
		case set.Has(cur.Candidate):
			return set, nil
		}
	}
	set.State, set.Reason = script.ChangeSetFailed, "its scripts have other candidates since, or none"
	return set, nil
}
