package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// personals has the personal versions of each script, in the order of their names, by the script's "tenant/name". It
// is immutable.
type personals map[string][]*Release

// personal returns the name of the script that r is the personal version of; "" if it is none.
func (r *Release) personal() string {
	if r == nil || r.Personal == nil {
		return ""
	}
	return r.Personal.Target(r.Name).String()
}

// replaced returns the personal versions with one release of the script in the place of another, either of which may
// be nil.
func (p personals) replaced(old, with *Release) personals {
	was, is := old.personal(), with.personal()
	if was == "" && is == "" {
		return p
	}
	if p = maps.Clone(p); p == nil {
		p = personals{}
	}
	if was != "" {
		p[was] = slices.DeleteFunc(slices.Clone(p[was]), func(r *Release) bool { return r.Name == old.Name })
		if len(p[was]) == 0 {
			delete(p, was)
		}
	}
	if is != "" {
		list := append(slices.Clip(p[is]), with)
		slices.SortFunc(list, func(a, b *Release) int { return cmp.Compare(a.Name.Script, b.Name.Script) })
		p[is] = list
	}
	return p
}

// Personal returns the personal version of the script "tenant/name" that a call with the key runs now; nil if there
// is none. key returns the key of the call. It allocates nothing.
func (t *Table) Personal(name string, key func(script.KeySource) string) *Release {
	list := t.live.Load().personals[name]
	if len(list) == 0 {
		return nil
	}
	now := time.Now()
	for _, r := range list[:min(len(list), script.MaxPersonal)] {
		if p := r.Personal; r.Enabled && !r.Untried() && key(p.From) == p.Key && !p.Expired(now) {
			return r
		}
	}
	return nil
}
