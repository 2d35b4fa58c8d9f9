package controller

import (
	"bytes"
	"cmp"

	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Kind says what the operator does next.
type Kind string

// The kinds of actions.
const (
	Keep    Kind = "keep"    // there is nothing to do
	Publish Kind = "publish" // make the script what is wanted, in one transaction
	Refuse  Kind = "refuse"  // leave it as it is, until somebody changes what is wrong
	Hold    Kind = "hold"    // hold the script, as the annotation says
	Lift    Kind = "lift"    // lift the hold, whose annotation is gone
	Await   Kind = "await"   // leave it as it is, until the registry has the tenant's settings
	Delete  Kind = "delete"  // remove the script
	LetGo   Kind = "letgo"   // of the object: nothing in the registry is its own
)

// Change is one difference that a publish makes, and the reason of the event that
// tells of it.
type Change string

// The changes.
const (
	Published  Change = "Published"  // there is a new version
	Pinned     Change = "Pinned"     // it runs a version that does not follow the latest
	RolledBack Change = "RolledBack" // it runs an older version than before
	Unpinned   Change = "Unpinned"   // it follows the latest version again
	Enabled    Change = "Enabled"
	Disabled   Change = "Disabled"
	Configured Change = "Configured" // settings: see Action
	TakenOver  Change = "TakenOver"  // it had no owner
	Signed     Change = "Signed"     // its newest version has another signature
)

// Action is what to do about an object.
type Action struct {
	Kind    Kind
	Changes []Change // of a publish, if it is not refused
	// Configured are the fields of the spec that Changes' Configured is about.
	Configured []string
}

// Situation is all that what to do about an object depends on.
type Situation struct {
	Want  *spec.Wanted    // what the spec says; nil if that is wrong
	Owner string          // the object as an owner of scripts
	Hold  *string         // why the object's annotation holds the script; nil without one
	Have  *script.Release // the registry's answer; nil if there is no such script
	// Newest is what the newest version runs with, if Have does not say it; nil if nobody asked.
	Newest   *script.Spec
	Deleting bool // the object is being deleted
	Allowed  bool // its namespace may act for the tenant
	// Bounded: the registry has had settings of the tenant. Before it does, a script would
	// run without the bounds and the isolation that the tenant is to have.
	Bounded bool
	// Known: the script was published before, for this object. It then goes on,
	// whatever becomes of the tenant's settings.
	Known bool
}

// Decide says what to do so that the registry has what an object wants.
//
// What the registry refuses is not guessed here: a script of another owner, or a pin of a
// version that does not exist, is published all the same, and the registry says why not.
//
// Nor is a candidate of any concern here: what was published is there, and becomes the active
// version, or does not, by the registry's rules. Nor is a hold that a person has set: what is
// wanted is stored, and runs when the hold is lifted.
func Decide(s Situation) Action {
	have := s.Have
	if have != nil && have.Deleted {
		have = nil
	}
	own := have != nil && have.Owner == s.Owner
	var next Action
	switch {
	case s.Deleting && own:
		return Action{Kind: Delete}
	case s.Deleting:
		return Action{Kind: LetGo}
	case own && s.sets(have): // before what is new is published, and also if that is wrong
		next = Action{Kind: Hold}
	case s.Want == nil:
		return Action{Kind: Refuse}
	case have != nil && have.Owner == "" && s.sets(have): // before it is taken over
		next = Action{Kind: Hold}
	default:
		next = difference(s.Want, have, s.Newest)
		if len(next.Changes) > 0 {
			break
		}
		if !own || !s.lifts(have) {
			return Action{Kind: Keep}
		}
		next = Action{Kind: Lift}
	}
	switch {
	case !s.Allowed:
		return Action{Kind: Refuse}
	case !s.Bounded && !s.Known && !own:
		return Action{Kind: Await}
	}
	return next
}

// sets reports whether the annotation holds the script, and the registry does not say so. A
// hold of a person stays theirs.
func (s *Situation) sets(have *script.Release) bool {
	switch h := have.Hold; {
	case s.Hold == nil:
		return false
	case h == nil:
		return !have.Untried() // else there is no version to hold yet
	default:
		return h.Owner == s.Owner && h.Note != *s.Hold
	}
}

// lifts reports whether the script is held by an annotation that is gone.
func (s *Situation) lifts(have *script.Release) bool {
	return s.Hold == nil && have.Hold != nil && have.Hold.Owner == s.Owner
}

// difference returns a publish and what it would change, the most telling first; a publish
// of no changes if the registry has what is wanted. newest is Situation.Newest.
func difference(want *spec.Wanted, have *script.Release, newest *script.Spec) Action {
	a := Action{Kind: Publish}
	note := func(c Change, differs bool) {
		if differs {
			a.Changes = append(a.Changes, c)
		}
	}
	if have == nil {
		note(Published, true)
		note(Pinned, want.Pin != 0)
		note(Disabled, !want.Enabled)
		return a
	}
	isNewest := isNewest(want, have, newest)
	note(Published, !isNewest)
	pins := want.Pin != 0 && have.Declared() != want.Pin
	back := pins && have.Hold == nil && want.Pin < have.Active.Number
	note(RolledBack, back)
	note(Pinned, pins && !back)
	note(Unpinned, want.Pin == 0 && have.Declared() != 0)
	note(Enabled, want.Enabled && !have.Enabled)
	note(Disabled, !want.Enabled && have.Enabled)
	a.Configured = configured(want.Settings, have)
	note(Configured, len(a.Configured) > 0)
	note(TakenOver, have.Owner != want.Owner)
	v, _ := have.Newest()
	note(Signed, want.Signature != "" && isNewest && v.Signature != want.Signature)
	return a
}

// isNewest reports whether the newest version there is what is wanted.
func isNewest(want *spec.Wanted, have *script.Release, newest *script.Spec) bool {
	v, _ := have.Newest()
	digest := want.Digest()
	if want.Settings.Artifact != "" { // the registry knows its digest, and records the reference in the version
		digest = v.Digest
	}
	if !v.SameProgram(script.Version{Digest: digest, Engine: want.Engine, Entrypoint: want.Entrypoint, Inputs: v.Inputs}) {
		return false
	}
	if !v.Inputs.IsZero() { // a newer library is no reason to publish a script again
		spec := cmp.Or(specOf(have, v), newest)
		if spec == nil {
			return false
		}
		want := want.Settings.Spec
		want.Libraries = spec.Libraries
		return spec.Equal(want)
	}
	if v.Spec.IsZero() { // an older registry keeps one for the whole script
		return have.Settings.Equal(want.Settings.Spec)
	}
	return v.Spec == v.With(want.Settings.Spec).Spec
}

// specOf returns what the version runs with; nil if the release does not say it.
func specOf(have *script.Release, v script.Version) *script.Spec {
	switch {
	case have.Candidate != nil && have.Candidate.Version.Number == v.Number:
		return &have.Candidate.Spec
	case have.Active.Number == v.Number:
		return &have.Settings.Spec
	}
	return nil
}

// hidesNewest reports whether only a request for the newest version says whether it is wanted: its digest covers
// libraries, which the operator does not have.
func hidesNewest(have *script.Release) bool {
	if have == nil || have.Deleted {
		return false
	}
	v, ok := have.Newest()
	return ok && !v.Inputs.IsZero() && specOf(have, v) == nil
}

// configured returns the fields of the spec whose settings are others than those of the newest
// version, and of the release.
func configured(a script.Settings, have *script.Release) (fields []string) {
	note := func(field string, same bool) {
		if !same {
			fields = append(fields, field)
		}
	}
	b := have.Settings
	switch v, _ := have.Newest(); {
	case have.Candidate != nil && have.Candidate.Version.Number == v.Number:
		b.Spec = have.Candidate.Spec
	case v.Number != have.Active.Number: // the release does not say what it runs with
		b.Spec = a.Spec
	}
	note("limits", a.Limits == b.Limits)
	note("trigger", a.Trigger.Equal(b.Trigger))
	note("onError", a.OnError == b.OnError)
	note("log", a.Decisions.Equal(b.Decisions))
	note("config", bytes.Equal(a.Config, b.Config))
	note("revisionHistoryLimit", a.HistoryLimit == b.HistoryLimit)
	note("rollout", a.Rollout.Equal(b.Rollout))
	note("tests", script.SameTests(a.Tests, b.Tests))
	note("library", a.Library == b.Library)
	return fields
}
