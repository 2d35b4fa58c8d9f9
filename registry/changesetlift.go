package registry

import (
	"fmt"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// mayPass refuses a change set of which somebody holds these scripts, unless it lifts the holds and may do so.
func (w *changeSetWrite) mayPass(held []script.Release) error {
	if len(held) == 0 {
		return nil
	}
	var fixed []script.Release // whose holds --lift-hold does not lift
	for i := range held {
		if mayLift(held[i], Write{Owner: w.req.Owner, Force: w.req.Force}) != nil {
			fixed = append(fixed, held[i])
		}
	}
	if !w.req.LiftHold || len(fixed) > 0 {
		return isHeld(held, fixed)
	}
	err := w.req.By.Check(access.Release, w.req.Tenant)
	if err != nil {
		e := script.AsError(err)
		return script.Errorf(e.Kind, e.Field, "%s; %s is held %s, and --lift-hold needs the role %s", e.Message, held[0].Name, held[0].Hold, access.Release)
	}
	return nil
}

// isHeld refuses a change set of which somebody holds these scripts. The holds of those that are fixed were set for
// their owners, who alone lift them.
func isHeld(held, fixed []script.Release) error {
	first := &held[0]
	text := fmt.Sprintf("%s is held at v%d %s", first.Name, first.Active.Number, first.Hold)
	for i := range held[1:] {
		text += fmt.Sprintf("; %s is held, too", held[1+i].Name)
	}
	text += "; a change set goes live as a whole: "
	for i := range fixed {
		text += fmt.Sprintf("%s is held for its owner: %s; ", fixed[i].Name, fixed[i].HowToLift())
	}
	switch {
	case len(fixed) == 0:
		text += "publish it with --lift-hold, which needs the role " + string(access.Release)
	case len(fixed) < len(held):
		text += "then publish it with --lift-hold"
	default:
		text += "then publish it again"
	}
	return script.Errorf(script.Denied, script.FieldHold, "%s", text)
}

// stays is p for a script that is no part of the change set: if a hold of it is lifted, it goes on running what it
// runs, whatever version its publisher has pinned beneath the hold.
func stays(cur script.Release, p publication) publication {
	if p.set == nil && !p.atOnce && p.liftHold && cur.Hold != nil && cur.Hold.Declared != cur.Active.Number {
		p.pin = new(uint64(0))
	}
	return p
}
