package registry

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSetRollback asks to return to what was active before a change set. It needs the roles publish,
// for values, and release.
type ChangeSetRollback struct {
	Tenant, Name string
	Author, Note string // as in Write
	By           access.Identity
	Owner        string // as in Write
	// Force goes back although somebody changed a script or a value since, and passes owners.
	Force bool
}

// RollbackChangeSet gives a change set on trial up. Of one that is live it holds the scripts at the
// versions before, disables those that were new, and gives the values the contents before.
func (r *Registry) RollbackChangeSet(ctx context.Context, req ChangeSetRollback) (ChangeSetResult, error) {
	if err := (script.Name{Tenant: req.Tenant, Script: req.Name}).Validate(); err != nil {
		return ChangeSetResult{}, err
	}
	if err := validateAuthor(req.Author, req.Note); err != nil {
		return ChangeSetResult{}, err
	}
	if !req.By.Allows(access.Read, req.Tenant) { // nothing is said of the change set
		return ChangeSetResult{}, req.By.Check(access.Release, req.Tenant)
	}
	for attempt := 1; ; attempt++ {
		b := setRollback{Registry: r, req: req}
		m, err := r.writeTogether(ctx, req.Tenant, b.decide, b.record)
		if err != nil {
			return ChangeSetResult{}, err
		}
		result := ChangeSetResult{Set: b.set, Changed: m.changed()}
		for _, d := range m.scripts {
			result.Releases = append(result.Releases, d.release)
		}
		if m.commit.Set != nil {
			result.Set = *m.commit.Set
			return result, nil
		}
		now, err := r.store.ChangeSet(ctx, req.Tenant, req.Name)
		if err == nil && now.Revision != b.set.Revision && attempt < attempts { // it went live meanwhile, or was given up
			continue
		}
		if result.Set, err = r.asItIs(ctx, b.set); err != nil {
			return ChangeSetResult{}, err
		}
		return result, nil
	}
}

// setRollback is a rollback of a change set.
type setRollback struct {
	*Registry
	req ChangeSetRollback
	set script.ChangeSet
}

func (b *setRollback) decide(ctx context.Context) (*together, error) {
	var err error
	if b.set, err = b.store.ChangeSet(ctx, b.req.Tenant, b.req.Name); err != nil {
		return nil, err
	}
	out := &together{set: b.req.Name}
	if b.set.State == script.ChangeSetFailed || b.set.State == script.ChangeSetRolledBack {
		return out, nil
	}
	for i, name := range b.set.ScriptNames() {
		of := &b.set.Scripts[i]
		a := writeRequest{Write: Write{
			Name: name, Author: b.req.Author, Note: changeSetNote(b.set.Name+" rolled back", b.req.Note), By: b.req.By, Owner: b.req.Owner, Force: b.req.Force,
		}}
		if b.set.State == script.ChangeSetOnTrial {
			a.change = script.ChangeAbort
			a.decide = func(cur script.Release, at moment) (decision, error) { return b.giveUp(cur, a.Write, at) }
		} else {
			a.change = script.ChangeRollback
			a.past = func() ([]script.HistoryEntry, error) { return b.store.History(ctx, name) }
			a.decide = func(cur script.Release, at moment) (decision, error) { return b.goBack(ctx, cur, of, a.Write, at) }
		}
		out.scripts = append(out.scripts, a)
	}
	if b.set.State == script.ChangeSetLive {
		out.values, err = b.valuesBefore(ctx)
	}
	return out, err
}

// giveUp ends the candidate, if it is part of the change set.
func (b *setRollback) giveUp(cur script.Release, w Write, at moment) (decision, error) {
	if !b.set.Has(cur.Candidate) || !underway(cur) {
		return unchanged(cur), nil
	}
	return decide(cur, givenUp(cur, b.why(), at.now), script.ChangeAbort, w, at), nil
}

func (b *setRollback) why() string {
	return "rolled back by " + withNote(Attribution(b.req.By, b.req.Author), b.req.Note)
}

// goBack holds the script at the version before, or disables it if there was none.
func (b *setRollback) goBack(ctx context.Context, cur script.Release, of *script.ChangedScript, w Write, at moment) (decision, error) {
	if !live(cur) {
		return unchanged(cur), nil
	}
	if cur.Active.Number != of.Version && !b.req.Force {
		return decision{}, script.Errorf(script.Conflict, "scripts", "%s runs version %d since, and the change set %s brought version %d: roll it back by itself, or all of the change set with --force",
			cur.Name, cur.Active.Number, b.set.Name, of.Version)
	}
	if of.Before == 0 {
		return decideEnabled(cur, false, w, at)
	}
	target, ok := cur.Retains(of.Before)
	if !ok {
		return decision{}, notRetained("scripts", cur, of.Before)
	}
	return decideHeld(cur, target, b.specs(ctx), script.ChangeRollback, w, at)
}

// valuesBefore returns the writes that give the values the contents before.
func (b *setRollback) valuesBefore(ctx context.Context) (values []valueRequest, err error) {
	for _, v := range b.set.Values {
		if v.Version == 0 { // it had that content already
			continue
		}
		key := script.ValueKey{Tenant: b.req.Tenant, Key: v.Key}
		data, err := b.store.DataUsage(ctx, key)
		if err != nil {
			return nil, err
		}
		isLive := data.Value.Revision != 0 && !data.Value.Deleted
		present := knownHistory(data, key).present()
		if (!isLive || present != v.Version) && !b.req.Force {
			return nil, script.Errorf(script.Conflict, "values", "%s was changed since the change set %s: roll it back by itself (scriptctl kv rollback), or all of the change set with --force", key, b.set.Name)
		}
		a := valueRequest{
			key: key, author: b.req.Author, note: changeSetNote(b.set.Name+" rolled back", b.req.Note), by: b.req.By,
			change: script.ChangeRollback, version: v.Before,
		}
		if v.Before == 0 {
			a.change = script.ChangeRemove
			if !isLive {
				continue
			}
		}
		values = append(values, a)
	}
	return values, nil
}

func (b *setRollback) record(m *madeTogether, now time.Time) error {
	next, state := b.set, script.ChangeSetRolledBack
	if b.set.State == script.ChangeSetOnTrial {
		state = script.ChangeSetFailed
	}
	next.State, next.Reason, next.ChangedAt = state, Printable(b.why(), script.MaxFailedBytes), now
	m.commit.Set, m.commit.SetGuard = &next, b.set.Revision
	return nil
}
