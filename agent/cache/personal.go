package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// personals has the personal versions of each script, in the order of their names. It is immutable.
type personals map[script.Name][]*Release

// personalsEdit makes personals from others, which it copies once.
type personalsEdit struct {
	personals
	copied bool
}

// replace puts one release of a script in the place of another, either of which may be nil.
func (e *personalsEdit) replace(old, with *Release) {
	if e.remove(old); with == nil || with.Personal == nil {
		return
	}
	of := e.edited(with)
	i, _ := slices.BinarySearchFunc(e.personals[of], with, byName)
	e.personals[of] = slices.Insert(slices.Clone(e.personals[of]), i, with)
}

func (e *personalsEdit) remove(old *Release) {
	if old == nil || old.Personal == nil {
		return
	}
	of := e.edited(old)
	left := slices.DeleteFunc(slices.Clone(e.personals[of]), func(r *Release) bool { return r.Name == old.Name })
	if e.personals[of] = left; len(left) == 0 {
		delete(e.personals, of)
	}
}

// edited returns the script that r is a personal version of, when e may be changed.
func (e *personalsEdit) edited(r *Release) script.Name {
	if !e.copied {
		if e.personals, e.copied = maps.Clone(e.personals), true; e.personals == nil {
			e.personals = personals{}
		}
	}
	return r.Personal.Target(r.Name)
}

func byName(a, b *Release) int { return cmp.Compare(a.Name.Script, b.Name.Script) }

// Personal returns the personal version of the script that a call with the key runs now; nil if there is none, or
// if the script itself does not run. key returns the key of the call. Without a personal version it allocates nothing.
func (t *Table) Personal(name script.Name, key func(script.KeySource) string) *Release {
	list := t.live.Load().personals[name]
	if len(list) == 0 {
		return nil
	}
	now := time.Now()
	for _, r := range list[:min(len(list), script.MaxPersonal)] {
		if p := r.Personal; r.runs() && key(p.From) == p.Key && !p.Expired(now) {
			if of := t.Get(name.String()); of == nil || !of.runs() {
				return nil
			}
			return r
		}
	}
	return nil
}

// runs reports whether calls run the release.
func (r *Release) runs() bool { return r.Enabled && !r.Untried() }
