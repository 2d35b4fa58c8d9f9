package registry

import (
	"context"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// together is a write of several scripts and values of one tenant, in one transaction.
type together struct {
	set     string // the change set
	scripts []writeRequest
	values  []valueRequest
	// staged are values that only candidates read. The store keeps their contents, for which the values of
	// the tenant must have room.
	staged []valueRequest
	dry    bool
}

// madeTogether is the decision on such a write: the decisions on the scripts, and the commits of the
// values that change.
type madeTogether struct {
	scripts []decision
	values  []ValueCommit
	commit  Together
	uses    []quotaUse // of the tenant's quotas, then
}

func (m *madeTogether) changed() bool { return len(m.commit.Releases)+len(m.commit.Values) > 0 }

// writeTogether decides and commits, again if another writer was faster. It calls plan, which returns the
// writes of the tenant, for each attempt. record adds the record of the change set to the decided transaction.
func (r *Registry) writeTogether(ctx context.Context, tenant string,
	plan func(ctx context.Context) (*together, error), record func(m *madeTogether, now time.Time) error,
) (madeTogether, error) {
	counted := map[string]bool{} // the keys of what counts for the rates of the tenant already
	for attempt := 1; ; attempt++ {
		w, err := plan(ctx)
		if err != nil {
			r.noteQuotas(tenant, err, nil)
			return madeTogether{}, err
		}
		m, err := r.decideTogether(ctx, w, counted)
		if err == nil && m.changed() {
			if err = record(&m, r.now().UTC()); err == nil && !w.dry {
				err = r.commitTogether(ctx, &m)
			}
		}
		if err != nil && lostToAnother(err) && attempt < attempts {
			continue
		}
		r.noteTogether(w, &m, err)
		if !w.dry {
			r.noteQuotas(tenant, err, m.uses)
		}
		return m, err
	}
}

// fieldRevision is the Field of a Conflict with another writer, who was faster. The request is not to
// blame.
const fieldRevision = "revision"

// lostToAnother reports whether the registry has to decide the write anew.
func lostToAnother(err error) bool {
	e := script.AsError(err)
	return e.Kind == script.Conflict && (e.Field == "" || e.Field == fieldRevision)
}

func (r *Registry) noteTogether(w *together, m *madeTogether, err error) {
	for i, a := range w.scripts {
		var d decision
		if i < len(m.scripts) {
			d = m.scripts[i]
		}
		r.onWrite(a.change, outcomeOf(d, w.dry, err))
	}
	for _, a := range w.values {
		r.onWrite(a.change, outcomeOf(decision{changed: true}, w.dry, err))
	}
}

func (r *Registry) decideTogether(ctx context.Context, w *together, counted map[string]bool) (m madeTogether, err error) {
	var also addition
	for _, a := range w.scripts {
		d, err := r.decideOneOf(ctx, a, &also, counted)
		if err != nil {
			return m, err
		}
		m.scripts = append(m.scripts, d)
		if d.changed {
			if d.commit.Entry != (script.HistoryEntry{}) {
				d.commit.Entry.ChangeSet, d.commit.Audit.ChangeSet = w.set, w.set
			}
			m.commit.Releases = append(m.commit.Releases, d.commit)
		}
		if d.uses != nil { // which count those before
			m.uses = d.uses
		}
	}
	var uses []quotaUse
	if m.values, uses, err = r.decideValues(ctx, w, w.values, nil, counted); err != nil {
		return m, err
	}
	m.uses = append(m.uses, uses...)
	for i := range m.values {
		m.values[i].Audit.ChangeSet = w.set
	}
	m.commit.Values = m.values
	staged, _, err := r.decideValues(ctx, w, w.staged, m.values, counted)
	for i := range staged {
		m.commit.Staged = append(m.commit.Staged, Source{Digest: staged[i].Value.Digest, Content: staged[i].Content})
	}
	return m, err
}

// decideOneOf decides on a script as attempt does. also is what the scripts take that are decided
// already; this one is added.
func (r *Registry) decideOneOf(ctx context.Context, a writeRequest, also *addition, counted map[string]bool) (decision, error) {
	if err := a.validate(); err != nil {
		return decision{}, err
	}
	if !a.By.Allows(access.Read, a.Name.Tenant) { // nothing is said of the script
		return decision{}, a.By.Check(usualRole(a.change), a.Name.Tenant)
	}
	cur, err := r.current(ctx, a.Name)
	if err != nil {
		return decision{}, err
	}
	b := r.basisOf(ctx, cur)
	b.also = *also
	key := script.Object{Release: &cur}.Key()
	a.counted = new(counted[key])
	d, err := r.decide(a, b)
	if err != nil {
		return decision{}, ofMember(a.Name.String(), err)
	}
	counted[key] = *a.counted
	if !d.changed {
		return d, nil
	}
	also.add(cur, d.release)
	if d.release.Frozen() { // the others cannot wait with it
		freeze, err := b.freeze()
		if err != nil {
			return decision{}, err
		}
		return decision{}, freeze.Refusal(fmt.Sprintf("%s %s", a.change, a.Name))
	}
	if !d.brings.IsZero() {
		d.commit.Source = r.small(ctx, d.brings)
	}
	return d, nil
}

// ofMember says which of several scripts or values an error is about.
func ofMember(name string, err error) error {
	e := *script.AsError(err)
	if e.Kind == script.Script || e.Kind == script.Invalid || e.Kind == script.Limit {
		e.Message = name + ": " + e.Message
	}
	return &e
}

// decideValues decides on values one after the other. Each decision counts what the ones before it take, and
// what the values in before take, which are of the same transaction. It also returns what the tenant has of the
// quotas then, if anything changes.
func (r *Registry) decideValues(ctx context.Context, w *together, list []valueRequest, before []ValueCommit, counted map[string]bool) (commits []ValueCommit, uses []quotaUse, err error) {
	var usage *Usage
	if len(before) > 0 {
		usage = &before[len(before)-1].Usage
	}
	for _, a := range list {
		if err := a.validate(); err != nil {
			return nil, nil, ofMember(a.key.String(), err)
		}
		data, err := r.store.DataUsage(ctx, a.key)
		if err != nil {
			return nil, nil, err
		}
		if data.UnreadableValue != nil {
			return nil, nil, script.Errorf(script.Internal, "", "%w: put the value by itself, delete it, or run scriptctl doctor", data.UnreadableValue)
		}
		if usage != nil {
			if usage.Mark != data.Usage.Mark {
				return nil, nil, script.Errorf(script.Conflict, fieldRevision, "a value of %s was changed by somebody else first", a.key.Tenant)
			}
			data.Usage = *usage
		}
		key := script.Object{Value: &script.Value{Key: a.key}}.Key()
		done := counted[key] || a.bySystem || w.dry
		c, changed, err := r.prepareValue(ctx, a, data, &done)
		if err != nil {
			return nil, nil, ofMember(a.key.String(), err)
		}
		counted[key] = done
		if changed {
			usage, uses = &c.Usage, usesOf(c.Usage, data.Tenant.Settings)
			commits = append(commits, c)
		}
	}
	return commits, uses, nil
}

func (r *Registry) commitTogether(ctx context.Context, m *madeTogether) error {
	for _, d := range m.scripts {
		if d.changed && d.recorded != nil {
			if _, err := r.store.PutSource(ctx, d.recorded.Document()); err != nil {
				return err
			}
		}
	}
	revision, err := r.store.CommitTogether(ctx, m.commit)
	if err != nil {
		return err
	}
	for i := range m.scripts {
		if m.scripts[i].changed {
			m.scripts[i].release.Revision = revision
		}
	}
	for i := range m.values {
		m.values[i].Value.Revision = revision
	}
	if m.commit.Set != nil {
		m.commit.Set.Revision = revision
	}
	return nil
}
