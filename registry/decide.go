package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// decision is what a write comes to: the commit, and the release that results.
// Without a change the release is the one that was there.
type decision struct {
	changed  bool
	repeated bool // it was made before, for the same request
	release  script.Release
	version  script.Version // of a publish: the one that holds the source
	before   uint64         // the version that ran before; 0 if none did
	commit   Commit
	// What versions run with whose registry did not record it; nil if all are recorded.
	recorded *script.Spec
	brings   script.Digest // that agents need from now on, and that no publish brings
	uses     []quotaUse    // of the tenant's quotas, then; nil if they are not compared
}

func unchanged(cur script.Release) decision { return decision{release: cur} }

// publication is a validated publish.
type publication struct {
	version  script.Version // without a number
	source   []byte
	settings *script.Settings // normalized
	enabled  *bool
	pin      *uint64
	liftHold bool
	// libraries are what the source requires; those of a library are not part of it.
	libraries []script.Library
	// set, of a change set, is what the candidate is part of. With atOnce the version is live at once
	// instead. With anew a publish that changes nothing makes a version, too.
	set          *script.Membership
	atOnce, anew bool
}

func decidePublish(cur script.Release, p publication, specs specs, w Write, at moment) (decision, error) {
	isNew := !live(cur)
	next := cur
	if isNew {
		next = script.Release{Name: w.Name, Latest: cur.Latest, Enabled: true}
	}
	if w.Owner != "" { // another owner was asked before
		next.Owner = w.Owner
	}
	if p.settings != nil {
		next.Settings.Rollout, next.Settings.HistoryLimit = p.settings.Rollout, p.settings.HistoryLimit
	}
	if p.enabled != nil {
		next.Enabled = *p.enabled
	}

	if p.liftHold && cur.Hold != nil {
		if err := mayLift(cur, w); err != nil {
			return decision{}, err
		}
	}
	version, known := cur.Newest()
	spec, err := p.spec(cur, specs)
	if err == nil {
		err = cmp.Or(samePersonal(cur, spec.Personal, at.now), spec.CheckEngine("settings", p.version.Engine))
	}
	if err != nil {
		return decision{}, err
	}
	p.version = p.version.With(spec)
	made := isNew || !known || !version.SameVersion(p.version) || p.anew
	var signed *script.Version
	if made {
		// Only a new version is measured: a limit lowered later does not make the
		// versions that are there unpublishable.
		if err := validateSourceLimit(p.version.Engine, p.source, spec.Limits); err != nil {
			return decision{}, err
		}
		version = p.version
		version.Number, version.CreatedAt = cur.Latest+1, at.now
		next.Latest = version.Number
		next.Retained = append(slices.Clip(next.Retained), inRelease(version))
	} else if p.version.Signature != "" && version.Signature != p.version.Signature {
		version.Signature = p.version.Signature
		next, signed = signedAnew(next, version), new(inRelease(version))
	}

	next, err = p.release(cur, next, script.Edition{Version: inRelease(version), Spec: spec}, made, specs, at.now)
	if err != nil {
		return decision{}, err
	}

	change := changeOf(cur, next, made)
	if change == "" {
		d := unchanged(cur)
		d.version = version
		return d, nil
	}
	next = retested(cur, next, at.now)
	d := decide(cur, next, change, w, at)
	d.version, d.commit.Found, d.commit.Signed = version, version.Number, signed
	if made {
		d.commit.Publish, d.commit.Source, d.commit.Spec = &version, p.source, &spec
	}
	return d, nil
}

// spec is what the published version runs with: without settings, what the newest one does.
func (p publication) spec(cur script.Release, specs specs) (script.Spec, error) {
	version, known := cur.Newest()
	switch {
	case p.settings != nil:
		return p.withLibraries(p.settings.Spec), nil
	case known && live(cur):
		spec, err := specs(cur, version)
		if version.Digest != p.version.Digest {
			spec.Artifact = "" // this source came with the request
		}
		return p.withLibraries(spec), err
	}
	return p.withLibraries(script.Spec{}), nil
}

// withLibraries returns the spec with what the source requires.
func (p publication) withLibraries(spec script.Spec) script.Spec {
	spec.Libraries = p.libraries
	if spec.Library {
		spec.Libraries = nil
	}
	return spec
}

// release has next run what the publish asks for, or, of a held script, has it return to that
// when the hold is lifted. e is the version that the publish made or found.
func (p publication) release(cur, next script.Release, e script.Edition, made bool, specs specs, now time.Time) (script.Release, error) {
	if next.Hold == nil {
		return p.choose(cur, next, e, made, specs, now)
	}
	hold := *next.Hold
	if p.pin != nil {
		hold.Declared = *p.pin
	}
	if _, ok := next.Retains(hold.Declared); !ok && hold.Declared != 0 {
		return script.Release{}, notRetained("pin", next, hold.Declared)
	}
	if p.liftHold {
		p.pin, next.Hold, next.Pinned = &hold.Declared, nil, false
		return p.choose(cur, next, e, made, specs, now)
	}
	next.Hold = &hold
	return next, nil
}

// choose has next run what the publish asks for; e is the version that it made or
// found.
func (p publication) choose(cur, next script.Release, e script.Edition, made bool, specs specs, now time.Time) (script.Release, error) {
	switch {
	case p.set != nil:
		next.Pinned = false
		if p.enables(cur) { // of a disabled script nothing runs, and its active version must not run untested
			next.Active, next.Settings.Spec = e.Version, e.Spec
		}
		return joined(next, e, p.set, cur.Revision, now), nil
	case p.atOnce:
		next.Pinned = false
		return chosen(next, e), nil
	case p.pin == nil && next.Pinned:
		return next, nil
	case p.pin == nil || *p.pin == 0:
		next.Pinned = false
		return following(next, e, cur.Revision, now), nil
	case made && *p.pin == e.Number:
		next.Pinned = true
		return following(next, e, cur.Revision, now), nil
	case cur.Hold != nil && *p.pin == e.Number: // it was stored while the script was held
		next.Pinned = true
		return following(next, e, cur.Revision, now), nil
	case cur.Pinned && *p.pin == candidateOf(cur): // it was asked for before, and is on its way
		return next, nil
	}
	target, ok := next.Retains(*p.pin)
	if !ok {
		return script.Release{}, notRetained("pin", next, *p.pin)
	}
	spec := e.Spec
	if target.Number != e.Number {
		var err error
		if spec, err = specs(cur, target); err != nil {
			return script.Release{}, err
		}
	}
	next.Pinned = true
	return chosen(next, script.Edition{Version: target, Spec: spec}), nil
}

// enables reports whether the publish enables the script, which is disabled.
func (p publication) enables(cur script.Release) bool {
	return live(cur) && !cur.Enabled && p.enabled != nil && *p.enabled
}

// changeOf names the most telling of the changes between two releases; "" if
// there is none.
func changeOf(cur, next script.Release, made bool) script.Change {
	switch {
	case made:
		return script.ChangePublish
	case heldAnew(cur, next):
		return script.ChangeRelease
	case !sameHold(cur.Hold, next.Hold): // publishers declare another version
		return script.ChangeConfigure
	case next.Pinned && (!cur.Pinned || next.Active.Number != cur.Active.Number || candidateOf(next) != candidateOf(cur)):
		return script.ChangePin
	case !next.Pinned && cur.Pinned:
		return script.ChangeUnpin
	case finds(cur, next):
		return script.ChangePublish
	case next.Enabled && !cur.Enabled:
		return script.ChangeEnable
	case !next.Enabled && cur.Enabled:
		return script.ChangeDisable
	case !samePlan(next.Settings, cur.Settings):
		return script.ChangeConfigure
	case next.Owner != cur.Owner:
		return script.ChangeOwn
	case signatureOf(next) != signatureOf(cur):
		return script.ChangeSign
	}
	return ""
}

// finds reports whether a change set has found a version that was stored before: it is active now, or a
// candidate.
func finds(cur, next script.Release) bool {
	joins := next.Candidate != cur.Candidate && next.Candidate != nil && next.Candidate.Set != nil
	return joins || next.Active.Number != cur.Active.Number || cur.Untried() && !next.Untried()
}

// signedAnew is next with the signature of the version v, which it has.
func signedAnew(next script.Release, v script.Version) script.Release {
	next.Retained = slices.Clone(next.Retained)
	for i := range next.Retained {
		if next.Retained[i].Number == v.Number {
			next.Retained[i].Signature = v.Signature
		}
	}
	if next.Active.Number == v.Number {
		next.Active.Signature = v.Signature
	}
	if next.Candidate != nil && next.Candidate.Version.Number == v.Number {
		c := *next.Candidate
		c.Version.Signature = v.Signature
		next.Candidate = &c
	}
	return next
}

// signatureOf returns that of the newest version.
func signatureOf(r script.Release) string {
	v, _ := r.Newest()
	return v.Signature
}

func decideEnabled(cur script.Release, enabled bool, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	if cur.Enabled == enabled {
		return unchanged(cur), nil
	}
	next := cur
	next.Enabled = enabled
	change := script.ChangeDisable
	if enabled {
		change = script.ChangeEnable
	}
	return decide(cur, next, change, w, at), nil
}

func decideDelete(cur script.Release, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	tombstone := script.Release{Name: cur.Name, Latest: cur.Latest, Deleted: true}
	return decide(cur, tombstone, script.ChangeDelete, w, at), nil
}

func decideOwner(cur script.Release, owner string, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	if cur.Owner == owner {
		return unchanged(cur), nil
	}
	next := cur
	next.Owner = owner
	return decide(cur, next, script.ChangeOwn, w, at), nil
}

// decide completes the decision to make cur into next: it has what the registry's freeze stops
// wait, drops the versions beyond the limit and writes the line of history.
func decide(cur, next script.Release, change script.Change, w Write, at moment) decision {
	now, ran := at.now, uint64(0)
	if live(cur) && !cur.Untried() {
		ran = cur.Active.Number
	}
	next = at.keep(cur, next)
	next.Revision, next.ChangedAt = 0, now
	next.Retained = retain(next, at.limit(next))
	var drop []uint64
	for _, v := range cur.Retained {
		if _, ok := next.Retains(v.Number); !ok {
			drop = append(drop, v.Number)
		}
	}
	return decision{
		changed: true,
		release: next,
		before:  ran,
		commit: Commit{
			Guard:   cur.Revision,
			Release: next,
			Drop:    drop,
			Entry: script.HistoryEntry{
				Change:    change,
				Version:   next.Active.Number,
				Digest:    next.Active.Digest,
				Spec:      next.Active.Spec,
				Pinned:    next.Pinned,
				Held:      next.Hold != nil,
				Candidate: candidateOf(next),
				Author:    w.attribution(),
				Note:      w.Note,
				Time:      now,
				ChangeSet: setOf(cur, next, change),
			},
		},
	}
}

// setOf returns the name of the change set that the change is part of; "" if there is none.
func setOf(cur, next script.Release, change script.Change) string {
	switch {
	case next.Candidate != nil && next.Candidate.Set != nil:
		return next.Candidate.Set.Name
	case next.Candidate == nil && steers(change) && cur.Candidate != nil && cur.Candidate.Set != nil:
		return cur.Candidate.Set.Name
	}
	return ""
}

// limitOf returns how many versions r retains.
func limitOf(r script.Release) int {
	return cmp.Or(r.Settings.HistoryLimit, script.DefaultHistoryLimit)
}

// retain returns the versions of r within the limit: the oldest go first, the active, the
// declared, the candidate and the newest never.
func retain(r script.Release, limit int) []script.Version {
	excess := len(r.Retained) - limit
	if excess <= 0 {
		return r.Retained
	}
	kept := make([]script.Version, 0, limit+1)
	last, _ := r.Newest()
	for _, v := range r.Retained {
		if excess > 0 && v.Number != r.Active.Number && v.Number != last.Number && v.Number != candidateOf(r) && v.Number != r.Declared() {
			excess--
			continue
		}
		kept = append(kept, v)
	}
	return kept
}

// inRelease returns v as a release carries it: who made it and why does not
// travel with every event.
func inRelease(v script.Version) script.Version {
	v.Author, v.Note = "", ""
	return v
}

// live reports whether there is such a script.
func live(cur script.Release) bool { return cur.Revision != 0 && !cur.Deleted }

func mustLive(cur script.Release) error {
	if cur.Revision == 0 && !cur.Deleted {
		return script.Errorf(script.NotFound, "name", "there is no script %s", cur.Name)
	}
	if cur.Deleted {
		return script.Errorf(script.NotFound, "name", "the script %s was deleted", cur.Name)
	}
	return nil
}

func notRetained(field string, r script.Release, number uint64) error {
	numbers := make([]string, len(r.Retained))
	for i, v := range r.Retained {
		numbers[i] = fmt.Sprint(v.Number)
	}
	return script.Errorf(script.NotFound, field, "%s has no version %d: it retains %s", r.Name, number, strings.Join(numbers, ", "))
}
