package script

import (
	"fmt"
	"strings"
	"time"
)

// HoldAnnotation on a Script or LuaScript holds its script, for the reason that is its value.
const HoldAnnotation = "scriptorium.dev/hold"

// ScriptOwner and LuaScriptOwner begin the owners that are objects of these kinds in Kubernetes: their
// namespace and name follow.
const (
	ScriptOwner    = "script/"
	LuaScriptOwner = "luascript/"
)

// Hold is a person's decision that a script stays at its active version. Publishing stores
// new versions beside it, and never lifts it.
type Hold struct {
	Author string
	Note   string
	Since  time.Time
	// Owner is who the hold was set for, as Release.Owner; "" for nobody. It alone lifts it, for
	// as long as it owns the script.
	Owner string
	// Declared is the version that publishers pin meanwhile, 0 to follow the latest: it is
	// what the script returns to when the hold is lifted.
	Declared uint64
}

// String says who holds the script, since when, and why.
func (h *Hold) String() string { return who(h.Author, h.Since, h.Note) }

// FieldHold is the Field of the errors of a hold.
const FieldHold = "hold"

// clockLayout is how times are told to people.
const clockLayout = "2006-01-02 15:04 MST"

// who says who did something, since when it is so, and why.
func who(author string, since time.Time, note string) string {
	text := "by " + author
	if !since.IsZero() {
		text += " since " + since.UTC().Format(clockLayout)
	}
	if note != "" {
		text += fmt.Sprintf(" (%q)", note)
	}
	return text
}

// Declared returns the version that publishers pin, which may be on its way to being active;
// 0 if the script follows the latest.
func (r *Release) Declared() uint64 {
	switch {
	case r.Hold != nil:
		return r.Hold.Declared
	case !r.Pinned:
		return 0
	case r.Candidate != nil:
		return r.Candidate.Version.Number
	}
	return r.Active.Number
}

// Newest returns the newest version that is retained, which a release that is not pinned
// follows. It is the latest, or, of a script that was imported in place of one with more
// versions, the highest that came with it.
func (r *Release) Newest() (Version, bool) {
	if len(r.Retained) == 0 {
		return Version{}, false
	}
	return r.Retained[len(r.Retained)-1], true
}

// Wanted returns the version that publishers want to run: the declared one, or the newest.
func (r *Release) Wanted() uint64 {
	if declared := r.Declared(); declared != 0 {
		return declared
	}
	newest, _ := r.Newest()
	return newest.Number
}

// HeldBack says who keeps the version that publishers want from running, by a hold or by a
// freeze of the registry, and how to lift that; "" if nobody does.
func (r *Release) HeldBack() string {
	if r.Frozen() {
		return "frozen " + r.Candidate.Frozen + ": " + Thaw
	}
	h := r.Hold
	if h == nil || r.Wanted() == r.Active.Number {
		return ""
	}
	return fmt.Sprintf("held at v%d %s: %s", r.Active.Number, h, r.HowToLift())
}

// HoldOwner returns who alone lifts the hold; "" for whoever may choose what runs.
func (r *Release) HoldOwner() string {
	if r.Hold == nil || r.Hold.Owner != r.Owner {
		return ""
	}
	return r.Hold.Owner
}

// HowToLift says what lifts the hold.
func (r *Release) HowToLift() string {
	lift := "scriptctl release " + r.Name.String()
	switch owner := r.HoldOwner(); {
	case owner == "":
		return lift
	case strings.HasPrefix(owner, ScriptOwner), strings.HasPrefix(owner, LuaScriptOwner):
		return "remove the annotation " + HoldAnnotation + " of " + owner
	default:
		return lift + " --owner " + owner
	}
}
