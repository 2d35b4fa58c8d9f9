package controller

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hold returns why the object's annotation holds the script, as a note that the registry
// takes; nil without one.
func (x *reconciliation) hold() *string {
	why, ok := x.ls.Annotations[script.HoldAnnotation]
	if !ok {
		return nil
	}
	why = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, why)
	const most = 512
	return new(strings.ToValidUTF8(why[:min(len(why), most)], ""))
}

// holdAnnotation tells annotations apart: none, and each value of one.
func (x *reconciliation) holdAnnotation() string {
	if why := x.hold(); why != nil {
		return "held: " + *why
	}
	return ""
}

// setHold holds the script, or lifts the hold, and goes on with what else the spec says. What
// somebody else has made of the script meanwhile is theirs: the decision is taken anew.
func (x *reconciliation) setHold(ctx context.Context, holds bool) (time.Duration, error) {
	m := x.m
	w := registryclient.Write{Author: spec.Author(x.owner), Owner: x.owner, ExpectedRevision: m.answer.Revision}
	var release script.Release
	var err error
	if holds {
		w.Note = *x.hold()
		traced, end := x.trace(ctx, Hold, false)
		release, _, err = x.registry.Pin(traced, x.name, 0, w)
		end(err)
	} else {
		traced, end := x.trace(ctx, Lift, false)
		release, _, err = x.registry.LiftHold(traced, x.name, w)
		end(err)
	}
	if err == nil && x.contradicts(&release) {
		err = script.Errorf(script.Internal, "metadata.annotations["+script.HoldAnnotation+"]", "the registry did not do what the annotation says, and is asked again")
	}
	if err != nil {
		m.invalidate()
		return x.failed(faultOf(err)), nil
	}
	m.learn(&release, x.facts.state.Session)
	x.log.Info("hold", "object", x.owner, "script", release.Name, "held", holds, "active", release.Active.Number, "revision", release.Revision)
	return x.bring(ctx)
}

// contradicts reports whether the registry has another hold than the annotation says, which is
// the operator's to change.
func (x *reconciliation) contradicts(r *script.Release) bool {
	s := Situation{Owner: x.owner, Hold: x.hold()}
	return !r.Deleted && (s.sets(r) || s.lifts(r))
}
