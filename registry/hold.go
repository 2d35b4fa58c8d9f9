package registry

import (
	"cmp"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// decidePin decides on holding the script at the version, or, if that is 0, at the active one.
func decidePin(cur script.Release, number uint64, specs specs, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	change := script.ChangePin
	if number == 0 {
		change = script.ChangeHold
		if cur.Untried() {
			return decision{}, script.Errorf(script.Invalid, "", "%s has no active version to hold: version %d has not passed its tests yet: to have it run untested, and held: scriptctl pin %s %d",
				cur.Name, cur.Active.Number, cur.Name, cur.Active.Number)
		}
	}
	target, ok := cur.Retains(cmp.Or(number, cur.Active.Number))
	if !ok {
		return decision{}, notRetained("version", cur, number)
	}
	return decideHeld(cur, target, specs, change, w, at)
}

// decideHeld decides on the version that somebody chose. It is live at once, ends any
// candidate, and stays active until the hold is lifted.
func decideHeld(cur script.Release, target script.Version, specs specs, change script.Change, w Write, at moment) (decision, error) {
	hold := script.Hold{Author: w.attribution(), Note: w.Note, Since: at.now, Owner: w.Owner, Declared: cur.Declared()}
	if cur.Hold != nil && cur.Active.Number == target.Number && repeats(w, cur.Hold) {
		return unchanged(cur), nil
	}
	spec, err := specs(cur, target)
	if err != nil {
		return decision{}, err
	}
	next := chosen(cur, script.Edition{Version: target, Spec: spec})
	next.Pinned, next.Hold = true, &hold
	return decide(cur, next, change, w, at), nil
}

// repeats reports whether the write sets the hold that there is. A person may ask for it again
// without the reason; an owner declares it, so that no reason takes the place of one.
func repeats(w Write, h *script.Hold) bool {
	return w.Owner == h.Owner && (w.Note == h.Note || w.Note == "" && w.Owner == "")
}

// decideLift decides on lifting the script's hold: it returns to what publishers declare.
func decideLift(cur script.Release, specs specs, w Write, at moment) (decision, error) {
	if err := mustLive(cur); err != nil {
		return decision{}, err
	}
	if cur.Hold == nil {
		if cur.Pinned {
			return decision{}, script.Errorf(script.NotFound, "hold",
				"nobody holds %s: its manifest pins it to version %d: publish it without spec.version to follow the latest", cur.Name, cur.Declared())
		}
		return unchanged(cur), nil
	}
	if err := mayLift(cur, w); err != nil {
		return decision{}, err
	}
	next, err := lifted(cur, cur.Hold.Declared, specs, at.now)
	if err != nil {
		return decision{}, err
	}
	return decide(cur, next, script.ChangeRelease, w, at), nil
}

// mayLift refuses to lift a hold that was set for the script's owner: the owner would set it
// again. passOwner has seen to it that who forces it may.
func mayLift(cur script.Release, w Write) error {
	owner := cur.HoldOwner()
	if owner == "" || owner == w.Owner || w.Force {
		return nil
	}
	return script.Errorf(script.Denied, "hold", "%s is held for %.200q: %s, or force the change (--force), which needs the role admin", cur.Name, owner, cur.HowToLift())
}

// lifted is cur without its hold, on its way to the version that is declared, or to the
// newest if that is 0. The newest may have been stored while the script was held: then it
// begins as a candidate.
func lifted(cur script.Release, declared uint64, specs specs, now time.Time) (script.Release, error) {
	newest, ok := cur.Newest()
	if !ok {
		return script.Release{}, script.Errorf(script.Internal, "", "%s retains no version", cur.Name)
	}
	target := newest
	if declared != 0 {
		if target, ok = cur.Retains(declared); !ok {
			return script.Release{}, notRetained("hold", cur, declared)
		}
	}
	spec, err := specs(cur, target)
	if err != nil {
		return script.Release{}, err
	}
	next := cur
	next.Hold, next.Pinned = nil, declared != 0
	e := script.Edition{Version: target, Spec: spec}
	if target.Number == newest.Number {
		return following(next, e, cur.Revision, now), nil
	}
	return chosen(next, e), nil
}

// heldAnew reports whether next is held otherwise than cur: what it declares is for publishers.
func heldAnew(cur, next script.Release) bool {
	if cur.Hold == nil || next.Hold == nil {
		return cur.Hold != next.Hold
	}
	a := *cur.Hold
	a.Declared = next.Hold.Declared
	return !sameHold(&a, next.Hold)
}
