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
	tenant  string
	scripts []writeRequest
	values  []valueRequest
	// staged are values whose contents alone are stored, and for which there has to be room.
	staged []valueRequest
	dry    bool
}

// madeTogether is what a write comes to: the decisions on the scripts, and the commits of those
// values that change.
type madeTogether struct {
	scripts []decision
	values  []ValueCommit
	commit  Together
}

func (m *madeTogether) changed() bool { return len(m.commit.Releases)+len(m.commit.Values) > 0 }

// writeTogether decides and commits until nobody else was first. plan returns what is to be written,
// and is called for each attempt; record completes the transaction by what was decided.
func (r *Registry) writeTogether(ctx context.Context,
	plan func(ctx context.Context) (*together, error), record func(m *madeTogether, now time.Time) error,
) (madeTogether, error) {
	counted := map[string]bool{} // what counts for the rates of the tenant, once
	for attempt := 1; ; attempt++ {
		w, err := plan(ctx)
		if err != nil {
			return madeTogether{}, err
		}
		m, err := r.decideTogether(ctx, w, counted)
		if err == nil && m.changed() {
			if err = record(&m, r.now().UTC()); err == nil && !w.dry {
				err = r.commitTogether(ctx, &m)
			}
		}
		if script.KindOf(err) == script.Conflict && asksAgain(err) && attempt < attempts {
			continue
		}
		r.noteTogether(w, &m, err)
		return m, err
	}
}

// errFaster is the Field of a Conflict with who was faster: what was requested is not to blame.
const errFaster = "revision"

// asksAgain reports whether the write is to be decided anew.
func asksAgain(err error) bool {
	field := script.AsError(err).Field
	return field == "" || field == errFaster
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
	var also usage
	for _, a := range w.scripts {
		d, err := r.decideOneOf(ctx, a, also, counted)
		if err != nil {
			return m, err
		}
		m.scripts = append(m.scripts, d)
		if !d.changed {
			continue
		}
		also.bytes += stagedBytes(d.release)
		if d.commit.Publish != nil {
			also.bytes += int64(d.commit.Publish.Size + d.commit.Publish.SpecSize)
			if d.wasDeleted {
				also.scripts++
			}
		}
		m.commit.Releases = append(m.commit.Releases, d.commit)
	}
	if w.dry {
		counted = nil
	}
	m.values, err = r.decideValues(ctx, w.values, nil, counted)
	if err != nil {
		return m, err
	}
	m.commit.Values = m.values
	staged, err := r.decideValues(ctx, w.staged, m.values, counted)
	for i := range staged {
		m.commit.Staged = append(m.commit.Staged, Source{Digest: staged[i].Value.Digest, Content: staged[i].Content})
	}
	return m, err
}

// decideOneOf decides on a script as attempt does.
func (r *Registry) decideOneOf(ctx context.Context, a writeRequest, also usage, counted map[string]bool) (decision, error) {
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
	b.also = also
	key := script.Object{Release: &cur}.Key()
	a.counted = new(counted[key])
	d, err := r.decide(a, b)
	if err != nil {
		return decision{}, ofMember(a.Name.String(), err)
	}
	counted[key] = *a.counted
	d.wasDeleted = !live(cur)
	if !d.changed {
		return d, nil
	}
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

// decideValues decides on values one after the other, each as after the ones before; before are
// those of the same transaction that are decided already. Without counted nothing is counted for
// the rates.
func (r *Registry) decideValues(ctx context.Context, list []valueRequest, before []ValueCommit, counted map[string]bool) (commits []ValueCommit, err error) {
	var usage *Usage
	if len(before) > 0 {
		usage = &before[len(before)-1].Usage
	}
	for _, a := range list {
		if err := a.validate(); err != nil {
			return nil, ofMember(a.key.String(), err)
		}
		data, err := r.store.DataUsage(ctx, a.key)
		if err != nil {
			return nil, err
		}
		switch {
		case data.UnreadableValue != nil:
			return nil, script.Errorf(script.Internal, "", "%w: put the value by itself, delete it, or run scriptctl doctor", data.UnreadableValue)
		case usage != nil && usage.Mark != data.Usage.Mark:
			return nil, script.Errorf(script.Conflict, errFaster, "a value of %s was changed by somebody else first", a.key.Tenant)
		case usage != nil:
			data.Usage = *usage
		case data.Usage.Older < 0:
			if data.Usage.Older, err = r.store.OlderBytes(ctx, a.key.Tenant); err != nil {
				return nil, err
			}
		}
		c, changed, err := decideValue(data, a, r.now().UTC())
		if err != nil {
			return nil, ofMember(a.key.String(), err)
		}
		if !changed {
			continue
		}
		if data.Freeze.CoversTenant(a.key.Tenant, r.now()) {
			return nil, data.Freeze.Refusal(fmt.Sprintf("%s the value %s", a.change, a.key))
		}
		if err := r.completeValue(ctx, a, &c, data.Tenant.Settings, counted); err != nil {
			return nil, err
		}
		usage = &c.Usage
		commits = append(commits, c)
	}
	return commits, nil
}

// completeValue brings the content of a version that becomes the value again, and counts the write.
func (r *Registry) completeValue(ctx context.Context, a valueRequest, c *ValueCommit, settings script.TenantSettings, counted map[string]bool) (err error) {
	if a.change == script.ChangeRollback {
		if c.Content, err = r.retainedContent(ctx, c.Value); err != nil {
			return err
		}
	}
	key := script.Object{Value: &c.Value}.Key()
	if counted == nil || counted[key] || a.bySystem {
		return nil
	}
	if err := r.countValue(ctx, a, len(c.Content), settings); err != nil {
		return err
	}
	counted[key] = true
	return nil
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
