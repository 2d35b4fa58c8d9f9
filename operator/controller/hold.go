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

// hold returns why the LuaScript's annotation holds the script, as a note that the registry
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

// setHold holds the script, or lifts the hold. The next reconciliation publishes what else the
// spec says.
func (x *reconciliation) setHold(ctx context.Context, holds bool) (time.Duration, error) {
	w := registryclient.Write{Author: spec.Author(x.owner), Owner: x.owner}
	var release script.Release
	var err error
	if holds {
		w.Note = *x.hold()
		release, _, err = x.registry.Pin(ctx, x.name, 0, w)
	} else {
		release, _, err = x.registry.LiftHold(ctx, x.name, w)
	}
	if err != nil {
		x.m.invalidate()
		return x.failed(faultOf(err)), nil
	}
	if holds && release.Hold == nil {
		return x.failed(faultOf(script.Errorf(script.Invalid, "metadata.annotations["+script.HoldAnnotation+"]",
			"version %d is pinned; the registry is too old to hold it: upgrade registryd", release.Active.Number))), nil
	}
	x.m.learn(&release, x.facts.state.Session)
	x.log.Info("hold", "luascript", x.owner, "script", release.Name, "held", holds, "active", release.Active.Number, "revision", release.Revision)
	return x.bring(ctx)
}
