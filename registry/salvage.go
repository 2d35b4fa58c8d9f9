package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// salvage is what a script was whose record cannot be read.
type salvage struct {
	// release has the revision of the record, which guards the write that replaces it. It is
	// a tombstone if nothing is left that could run.
	release script.Release
	// exact: it is as it was. Otherwise it is made of the versions, the history and the audit
	// trail, and what the release alone said is lost: the rollout plan and the history limit.
	exact bool
	// broken are the numbers of versions whose records cannot be read either.
	broken []uint64
}

// salvage finds out what the script was. What the store has forgotten, copied may say; it is
// nil if nobody has a copy.
func (r *Registry) salvage(ctx context.Context, name script.Name, u *Unreadable, copied *script.Release) (salvage, error) {
	remains, err := r.store.Remains(ctx, *u)
	if err != nil {
		return salvage{}, err
	}
	s := salvage{broken: remains.Broken}
	if remains.Last != nil {
		copied = remains.Last.Release
	}
	if copied != nil {
		s.exact, s.release = true, *copied
		s.release.Revision, s.release.Latest = u.Revision, max(copied.Latest, remains.latest())
		return s, nil
	}
	if s.release, err = r.assemble(ctx, name, remains); err != nil {
		return salvage{}, err
	}
	s.release.Revision = u.Revision
	return s, nil
}

// lost says what a release that is made of what is left lacks.
func (s salvage) lost() string {
	if s.release.Active.Spec.IsZero() {
		return "its limits, config, tests, rollout plan and history limit are lost"
	}
	return "its rollout plan and history limit are lost"
}

// assemble makes a release of what is left. The active version is the one that the history
// names, or else the newest one whose source is whole.
func (r *Registry) assemble(ctx context.Context, name script.Name, remains Remains) (script.Release, error) {
	release := script.Release{Name: name, Latest: remains.latest(), Deleted: true}
	var line script.HistoryEntry
	if len(remains.History) > 0 {
		if line = remains.History[0]; line.Version == 0 { // it was deleted
			return release, nil
		}
	}
	var whole []script.Version
	for _, v := range remains.Versions {
		source, err := r.store.Source(ctx, v.Digest)
		switch {
		case script.KindOf(err) == script.NotFound:
		case err != nil:
			return script.Release{}, err
		case script.DigestOf(source) == v.Digest:
			whole = append(whole, inRelease(v))
		}
	}
	if len(whole) == 0 {
		return release, nil
	}
	release.Deleted, release.Retained, release.Enabled = false, whole, remains.enabled()
	release.Active = whole[len(whole)-1]
	if v, ok := release.Retains(line.Version); ok && v.Digest == line.Digest {
		release.Active, release.Pinned, release.Hold = v, line.Pinned, holdIn(remains.History)
	}
	entries, _, err := r.store.Audit(ctx, AuditFilter{Tenant: name.Tenant, Script: name.Script}, "", 1)
	if err != nil {
		return script.Release{}, err
	}
	if len(entries) > 0 {
		release.Owner = entries[0].Owner
	}
	return release, r.assembleSpec(ctx, &release)
}

// holdIn returns the hold that the history, newest first, tells of; nil if it ends without one.
// What publishers declare meanwhile is lost.
func holdIn(history []script.HistoryEntry) *script.Hold {
	var hold *script.Hold
	for _, line := range history {
		if !line.Held {
			break
		}
		hold = &script.Hold{Author: line.Author, Note: line.Note, Since: line.Time}
		switch line.Change {
		case script.ChangePin, script.ChangeRollback, script.ChangeHold:
			return hold
		}
	}
	return hold
}

// assembleSpec has the release say what its active version runs with. If that is lost, or was
// never recorded, the version runs with the defaults, and is known to.
func (r *Registry) assembleSpec(ctx context.Context, release *script.Release) error {
	spec, err := r.specs(ctx)(script.Release{Name: release.Name}, release.Active)
	switch script.KindOf(err) {
	case "":
		release.Settings.Spec = spec
	case script.Internal, script.Invalid: // lost, or not to be read
		for i, v := range release.Retained {
			if v.Number == release.Active.Number {
				release.Retained[i].Spec, release.Retained[i].SpecSize = script.Digest{}, 0
			}
		}
		release.Active.Spec, release.Active.SpecSize = script.Digest{}, 0
	default:
		return err
	}
	return nil
}

// latest returns the greatest number that a version of the script had.
func (r Remains) latest() uint64 {
	latest := r.VersionFloor
	for _, v := range r.Versions {
		latest = max(latest, v.Number)
	}
	for _, number := range r.Broken {
		latest = max(latest, number)
	}
	for _, line := range r.History {
		latest = max(latest, line.Version, line.Candidate)
	}
	return latest
}

// enabled reports whether the script was enabled, as far as the history tells.
func (r Remains) enabled() bool {
	for _, line := range r.History {
		switch line.Change {
		case script.ChangeEnable, script.ChangeDelete:
			return true
		case script.ChangeDisable:
			return false
		}
	}
	return true
}

// attemptLost decides on a script whose record cannot be read. Nobody can tell what such a
// script is but those who replace it.
func (r *Registry) attemptLost(ctx context.Context, a writeRequest, fingerprint Fingerprint, u *Unreadable) (decision, attemptOutcome, error) {
	switch {
	case a.change == script.ChangeDelete || a.change == script.ChangeRepair:
	case a.change == script.ChangePublish && (a.Force || a.ExpectedRevision == u.Revision):
	default:
		return decision{}, settled, script.Errorf(script.Internal, "",
			"%w: repair it (scriptctl doctor %s --repair), replace it (scriptctl publish --force), or delete it", u, a.Name)
	}
	s, err := r.salvage(ctx, a.Name, u, a.copied)
	if script.KindOf(err) == script.Conflict {
		return decision{}, lostRace, err
	}
	if err != nil {
		return decision{}, settled, err
	}
	role := usualRole(a.change)
	if a.Force || !s.exact { // nobody can tell whose it is
		role = access.Admin
	}
	if err := a.By.Check(role, a.Name.Tenant); err != nil {
		return decision{}, settled, err
	}
	a.decide = s.replacing(a)
	b := r.basisOf(ctx, s.release)
	freeze, err := b.freeze()
	if err == nil && (!s.exact || a.copied != nil) && freeze.Covers(a.Name, r.now()) { // agents may run something else
		err = freeze.Refusal(fmt.Sprintf("%s %s: the registry does not know what it was", a.change, a.Name))
	}
	if err != nil {
		return decision{}, settled, err
	}
	d, err := r.decide(a, b)
	if err != nil {
		return decision{}, settled, err
	}
	return r.commit(ctx, a, fingerprint, d)
}

// replacing returns what decides as the write does, but for this: there is always a change,
// for the record has to be replaced.
func (s salvage) replacing(a writeRequest) func(script.Release, moment) (decision, error) {
	return func(cur script.Release, at moment) (decision, error) {
		basis := cur
		if a.change == script.ChangeDelete {
			basis.Deleted = false // what nobody can read is deleted, whatever it was
		}
		d, err := a.decide(basis, at)
		if err != nil {
			return decision{}, err
		}
		if !d.changed {
			version := d.version
			d = decide(cur, cur, script.ChangeRepair, a.Write, at)
			d.version, d.commit.Found = version, version.Number
		}
		for _, number := range s.broken {
			_, retained := d.commit.Release.Retains(number)
			if !retained && !slices.Contains(d.commit.Drop, number) {
				d.commit.Drop = append(d.commit.Drop, number)
			}
		}
		return d, nil
	}
}

// basisOf returns the release with what reads what bounds it.
func (r *Registry) basisOf(ctx context.Context, release script.Release) basis {
	read := sync.OnceValues(func() (DataUsage, error) {
		return r.store.DataUsage(ctx, script.ValueKey{Tenant: release.Name.Tenant})
	})
	return basis{
		release: release,
		tenant: func() (script.Tenant, error) {
			data, err := read()
			if err == nil && data.UnreadableTenant != nil {
				err = unreadableSettings(data.UnreadableTenant)
			}
			return data.Tenant, err
		},
		freeze: func() (script.Freeze, error) {
			data, err := read()
			return data.Freeze, err
		},
	}
}
