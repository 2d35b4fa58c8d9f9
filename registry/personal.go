package registry

import (
	"context"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// checkPersonal refuses a personal version of what cannot have one, and one too many. It reads no more than
// script.MaxPersonal releases and those between them whose names look like them.
func (r *Registry) checkPersonal(ctx context.Context, w Write, p *publication) error {
	if p.settings == nil || p.settings.Personal == nil || !w.By.Allows(access.Publish, w.Name.Tenant) && !w.By.Allows(access.Release, w.Name.Tenant) {
		return nil // without the role the write is refused: nothing is said of other scripts
	}
	const field = "settings.personal.of"
	of := p.settings.Personal.Target(w.Name)
	target, err := r.current(ctx, of)
	switch {
	case err != nil:
		return err
	case !live(target):
		return script.Errorf(script.NotFound, field, "there is no script %s: publish it first", of)
	case target.Settings.Personal != nil:
		return script.Errorf(script.Invalid, field, "%s is a personal version itself, of %s: name that script", of, target.Settings.Personal.Target(of))
	case target.Settings.Library:
		return script.Errorf(script.Invalid, field, "%s is a library, which nobody calls: publish a personal version of a script that requires it", of)
	}
	prefix := script.PersonalPrefix(of)
	releases, _, err := r.store.Releases(ctx, of.Tenant, prefix, 2*script.MaxPersonal)
	if err != nil {
		return err
	}
	others := 0
	for i := range releases {
		o := &releases[i]
		if strings.HasPrefix(o.Name.Script, prefix.Script) && o.Name != w.Name && o.Settings.Personal != nil && o.Settings.Personal.Of == of.Script {
			others++
		}
	}
	if others >= script.MaxPersonal {
		return script.Errorf(script.Limit, field, "%s has %d personal versions, the most: delete some (scriptctl list %s), or wait until they expire", of, others, of.Tenant)
	}
	return nil
}

// samePersonal refuses to make a personal version of an ordinary script or of somebody else's personal version, and
// an ordinary script of a personal version: whoever publishes it may not know what is there.
func samePersonal(cur script.Release, p *script.Personal, now time.Time) error {
	was := cur.Settings.Personal
	switch {
	case !live(cur), (was == nil) == (p == nil) && (p == nil || was.Key == p.Key || was.Expired(now)):
		return nil
	case was == nil:
		return script.Errorf(script.Conflict, "name", "%s is no personal version, and does not become one: choose another name (--as)", cur.Name)
	case p == nil:
		return script.Errorf(script.Conflict, "name", "%s is a personal version of %s, and becomes no other script: delete it first (scriptctl delete %s), or choose another name", cur.Name, was.Target(cur.Name), cur.Name)
	}
	return script.Errorf(script.Conflict, "settings.personal.key", "%s is in use with another key until %s: choose another name (--as), or take it over: give its key (scriptctl get %s) or delete it",
		cur.Name, was.Until.UTC().Format(time.RFC3339), cur.Name)
}

// expirer is the identity of the registry when it deletes what has expired.
var expirer = access.Identity{Name: SystemAuthor, Grants: []access.Grant{{Roles: []access.Role{access.Publish}}}}

// Expire deletes a personal version whose time is over, and reports whether it did. One that has changed meanwhile,
// or is gone, stays as it is.
func (r *Registry) Expire(ctx context.Context, name script.Name, at script.Revision) (deleted bool, err error) {
	w := Write{Name: name, Author: SystemAuthor, Note: "the personal version expired", ExpectedRevision: at, By: expirer}
	d, err := r.write(ctx, writeRequest{Write: w, change: script.ChangeDelete, bySystem: true, decide: func(cur script.Release, at moment) (decision, error) {
		return decideDelete(cur, w, at)
	}})
	if kind := script.KindOf(err); kind == script.Conflict || kind == script.NotFound {
		return false, nil
	}
	return d.changed, err
}
