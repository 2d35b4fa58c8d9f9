package controller

import (
	"bytes"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Kind says what is to be done.
type Kind string

// The kinds of actions.
const (
	Keep    Kind = "keep"    // there is nothing to do
	Publish Kind = "publish" // make the script what is wanted, in one transaction
	Delete  Kind = "delete"  // remove the script
	LetGo   Kind = "letgo"   // of the LuaScript: nothing in the registry is its own
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
	Configured Change = "Configured" // its limits, trigger, config or history limit
	TakenOver  Change = "TakenOver"  // it had no owner
)

// Action is what to do about a LuaScript.
type Action struct {
	Kind    Kind
	Changes []Change // of a publish, if it is not refused
}

// Decide says what to do so that the registry has what a LuaScript wants: nil for one
// that is being deleted. owner is the LuaScript as an owner of scripts, and have the
// registry's answer: nil if there is no such script.
//
// What the registry refuses is not guessed here: a script of another owner, or a pin of a
// version that does not exist, is published all the same, and the registry says why not.
func Decide(want *spec.Wanted, owner string, have *script.Release) Action {
	if have != nil && have.Deleted {
		have = nil
	}
	switch {
	case want == nil && (have == nil || have.Owner != owner):
		return Action{Kind: LetGo}
	case want == nil:
		return Action{Kind: Delete}
	}
	if changes := differences(want, have); len(changes) > 0 {
		return Action{Kind: Publish, Changes: changes}
	}
	return Action{Kind: Keep}
}

// differences returns what a publish would change, the most telling first.
func differences(want *spec.Wanted, have *script.Release) (changes []Change) {
	note := func(c Change, differs bool) {
		if differs {
			changes = append(changes, c)
		}
	}
	if have == nil {
		note(Published, true)
		note(Pinned, want.Pin != 0)
		note(Disabled, !want.Enabled)
		return changes
	}
	note(Published, !isNewest(want, have))
	pins := want.Pin != 0 && (!have.Pinned || have.Active.Number != want.Pin)
	back := pins && want.Pin < have.Active.Number
	note(RolledBack, back)
	note(Pinned, pins && !back)
	note(Unpinned, want.Pin == 0 && have.Pinned)
	note(Enabled, want.Enabled && !have.Enabled)
	note(Disabled, !want.Enabled && have.Enabled)
	note(Configured, !sameSettings(want.Settings, have.Settings))
	note(TakenOver, have.Owner != want.Owner)
	return changes
}

// isNewest reports whether the newest version there is runs what is wanted.
func isNewest(want *spec.Wanted, have *script.Release) bool {
	if len(have.Retained) == 0 {
		return false
	}
	newest := have.Retained[len(have.Retained)-1]
	return newest.SameProgram(script.Version{Digest: want.Digest(), Engine: manifest.Engine, Entrypoint: want.Entrypoint})
}

func sameSettings(a, b script.Settings) bool {
	return a.Limits == b.Limits && a.Trigger == b.Trigger && a.HistoryLimit == b.HistoryLimit && bytes.Equal(a.Config, b.Config)
}
