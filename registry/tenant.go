package registry

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// SetTenant asks for what holds for all scripts of a tenant to be replaced. It takes
// the role admin.
type SetTenant struct {
	Tenant   string
	Settings *script.TenantSettings // nil takes them away
	Author   string                 // as in Write
	// ExpectedRevision, if not 0, is the revision that the settings must still have; script.Absent: there must be none.
	ExpectedRevision script.Revision
	By               access.Identity
}

// SetTenant replaces the tenant's settings in one transaction, and returns them.
// changed is false, and there is no revision, if they are so already.
func (r *Registry) SetTenant(ctx context.Context, req SetTenant) (t script.Tenant, changed bool, err error) {
	return r.writeTenant(ctx, tenantRequest{SetTenant: req, change: script.ChangeSetTenant})
}

// tenantRequest is a write of a tenant's settings that was asked for.
type tenantRequest struct {
	SetTenant
	change script.Change // settenant or import
	note   string
	keep   bool // do not replace settings that are there
	dry    bool // store nothing
}

func (r *Registry) writeTenant(ctx context.Context, a tenantRequest) (t script.Tenant, changed bool, err error) {
	defer func() { r.onWrite(a.change, outcomeOf(decision{changed: changed}, a.dry, err)) }()
	if err := a.validate(); err != nil {
		return script.Tenant{}, false, err
	}
	for attempt := 1; ; attempt++ {
		data, err := r.store.DataUsage(ctx, script.ValueKey{Tenant: a.Tenant})
		if err != nil {
			return script.Tenant{}, false, err
		}
		now := r.now().UTC()
		commit, changed, err := decideTenant(data, a, now)
		live := agentsNeed(commit.Tenant.Settings) != agentsNeed(data.Tenant.Settings) || data.UnreadableTenant != nil
		if err == nil && changed && live && a.change != script.ChangeRepair && data.Freeze.CoversTenant(a.Tenant, now) {
			return script.Tenant{}, false, data.Freeze.Refusal("change the settings of the tenant " + a.Tenant)
		}
		commit.FreezeGuard = data.Freeze.Revision
		if err != nil || !changed || a.dry {
			return commit.Tenant, changed, err
		}
		commit.Tenant.Revision, err = r.store.CommitTenant(ctx, commit)
		if script.KindOf(err) == script.Conflict && attempt < attempts {
			continue
		}
		if err != nil {
			return script.Tenant{}, false, err
		}
		return commit.Tenant, true, nil
	}
}

func (a tenantRequest) validate() error {
	if err := script.ValidateLabel("tenant", a.Tenant); err != nil {
		return err
	}
	if err := validateAuthor(a.Author, a.note); err != nil {
		return err
	}
	if err := validateExpected(a.ExpectedRevision, a.Settings != nil); err != nil {
		return err
	}
	if err := a.By.Check(access.Admin, a.Tenant); err != nil {
		return err
	}
	if a.Settings == nil {
		return nil
	}
	return a.Settings.Validate("settings")
}

// decideTenant is what the request comes to. Without a change the commit's tenant is
// the one that was there.
func decideTenant(data DataUsage, a tenantRequest, now time.Time) (c TenantCommit, changed bool, err error) {
	cur, lost := data.Tenant, data.UnreadableTenant != nil
	isLive := cur.Revision != 0 && !cur.Deleted
	if err := meet(a.ExpectedRevision, cur.Revision, isLive, "the tenant "+a.Tenant, "read it again and decide again"); err != nil {
		return c, false, err
	}
	next := script.Tenant{Name: a.Tenant, Author: Attribution(a.By, a.Author), ChangedAt: now}
	if a.Settings != nil {
		next.Settings = *a.Settings
	} else {
		next.Deleted = true
	}
	if !lost && isLive != next.Deleted && cur.Settings.Equal(next.Settings) {
		cur.Name = a.Tenant
		return TenantCommit{Tenant: cur}, false, nil
	}
	if isLive && !lost && a.keep {
		return c, false, script.Errorf(script.Conflict, "tenant", "%s has settings, which differ from the archive's: import with overwrite to replace them", a.Tenant)
	}
	return TenantCommit{ //nolint:nilerr // a record that cannot be read is replaced
		Guard: cur.Revision, Tenant: next,
		Audit: script.AuditEntry{
			Time: now, Name: script.Name{Tenant: a.Tenant}, Change: a.change,
			Author: a.Author, Identity: a.By.Name, Peer: a.By.Peer, Note: a.note,
		},
	}, true, nil
}

// withinCeiling refuses limits that are more than the script's tenant may have, where
// the decision gives the script other ones; and a new version whose source is larger
// than that, also of a script that sets no limits. What a script has had before its
// tenant's limits were lowered stays: limits are cut down by the agents.
//
// Where the tenant's settings had a say, the commit is made to be guarded by them.
func withinCeiling(b basis, d *decision) error {
	if !d.changed {
		return nil
	}
	if d.commit.Publish == nil {
		return nil
	}
	cur, next, limits := b.release, d.commit.Release, d.commit.Spec.Limits
	known := live(cur) && (limits == cur.Settings.Limits || cur.Candidate != nil && limits == cur.Candidate.Spec.Limits)
	newLimits := limits != (script.Limits{}) && !known
	tenant, err := b.tenant()
	if err != nil {
		return err
	}
	d.commit.TenantGuard = &tenant.Revision
	ceiling := tenant.Settings.Limits
	if newLimits {
		if err := checkCeiling(next.Name.Tenant, limits, ceiling); err != nil {
			return err
		}
	}
	if most := ceiling.SourceBytes; most != 0 && len(d.commit.Source) > most {
		return script.Errorf(script.Invalid, "source", "has %d bytes, more than the tenant %s may have, %d: have the tenant's limits.sourceBytes raised",
			len(d.commit.Source), next.Name.Tenant, most)
	}
	return nil
}

// unreadableSettings is the error of what takes the settings of a tenant that cannot be
// read: nobody can tell what it may have.
func unreadableSettings(u *Unreadable) error {
	return script.Errorf(script.Internal, "tenant", "%w: set the tenant's settings again, or run scriptctl doctor", u)
}

// checkCeiling names the first limit that is set, and more than the tenant's.
func checkCeiling(tenant string, l, most script.Limits) error {
	for _, limit := range []struct {
		name      string
		got, most int64
	}{
		{"instructions", int64(l.Instructions), int64(most.Instructions)},
		{"timeout", int64(l.Timeout), int64(most.Timeout)},
		{"sourceBytes", int64(l.SourceBytes), int64(most.SourceBytes)},
		{"stringBytes", int64(l.StringBytes), int64(most.StringBytes)},
		{"resultBytes", int64(l.ResultBytes), int64(most.ResultBytes)},
		{"logBytes", int64(l.LogBytes), int64(most.LogBytes)},
		{"concurrency", int64(l.Concurrency), int64(most.Concurrency)},
	} {
		if limit.most == 0 || limit.got <= limit.most {
			continue
		}
		got, allowed := any(limit.got), any(limit.most)
		if limit.name == "timeout" {
			got, allowed = l.Timeout, most.Timeout
		}
		return script.Errorf(script.Invalid, "settings.limits."+limit.name,
			"%v is more than the tenant %s may have, %v: ask for less, or have the tenant's limits raised", got, tenant, allowed)
	}
	return nil
}

// Tenant returns the settings of a tenant; the zero settings, with revision 0, if
// nothing was set. It needs the role read.
func (r *Registry) Tenant(ctx context.Context, by access.Identity, name string) (script.Tenant, error) {
	if err := script.ValidateLabel("tenant", name); err != nil {
		return script.Tenant{}, err
	}
	if err := by.Check(access.Read, name); err != nil {
		return script.Tenant{}, err
	}
	data, err := r.store.DataUsage(ctx, script.ValueKey{Tenant: name})
	if err != nil {
		return script.Tenant{}, err
	}
	if u := data.UnreadableTenant; u != nil {
		return script.Tenant{}, unreadableSettings(u)
	}
	if data.Tenant.Deleted {
		return script.Tenant{Name: name}, nil
	}
	data.Tenant.Name = name
	return data.Tenant, nil
}

// Tenants returns the tenants for which something is set, in the order of their names,
// those after `after` alone, and limit at most; and those whose settings cannot be read. It
// needs the role admin of all tenants.
func (r *Registry) Tenants(ctx context.Context, by access.Identity, after string, limit int) ([]script.Tenant, []Unreadable, error) {
	if err := mayAdminister(by, ""); err != nil {
		return nil, nil, err
	}
	if after != "" {
		if err := script.ValidateLabel("page_token", after); err != nil {
			return nil, nil, err
		}
	}
	if err := validateLimit(limit); err != nil {
		return nil, nil, err
	}
	return r.store.Tenants(ctx, after, limit)
}
