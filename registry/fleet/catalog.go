package fleet

import (
	"slices"
	"strings"
	"sync/atomic"
)

// catalog is the scripts in the order of their names' text. Its list never changes, another one takes
// its place: whoever got the list can read it without the fleet's lock.
type catalog struct {
	list  []*entry
	fresh []*entry // those that the list lacks, in no order
	gone  int      // entries without a release
}

// entry is one script.
type entry struct {
	text string
	last atomic.Pointer[progress] // nil if the script is gone
}

// manyFresh entries are merged into the list before anybody asks for it, so that nobody waits for long.
const manyFresh = 4096

// track has the entry of the script have its last release; old is the one before, or nil.
func (c *catalog) track(p, old *progress) {
	if old != nil && old.entry != nil {
		p.entry = old.entry
	} else {
		p.entry = &entry{text: p.release.Name.String()}
		c.fresh = append(c.fresh, p.entry)
	}
	p.entry.last.Store(p)
}

// drop takes a script out.
func (c *catalog) drop(p *progress) {
	p.entry.last.Store(nil)
	c.gone++
}

// merged returns all entries, in order. Those that are gone may be among them.
func (c *catalog) merged() []*entry {
	if len(c.fresh) == 0 && c.gone <= max(64, len(c.list)/2) {
		return c.list
	}
	slices.SortFunc(c.fresh, func(a, b *entry) int { return strings.Compare(a.text, b.text) })
	list, fresh := make([]*entry, 0, len(c.list)+len(c.fresh)), c.fresh
	add := func(e *entry) {
		if e.last.Load() != nil {
			list = append(list, e)
		}
	}
	for _, e := range c.list {
		for len(fresh) > 0 && fresh[0].text < e.text {
			add(fresh[0])
			fresh = fresh[1:]
		}
		add(e)
	}
	for _, e := range fresh {
		add(e)
	}
	*c = catalog{list: list}
	return list
}

// choice says which entries of a catalog to look at.
type choice struct {
	tenant   string                   // all tenants if empty
	readable func(tenant string) bool // of which tenants alone; of all if nil
	after    string                   // those alone whose text comes after this
}

// each calls do with the last releases of the entries in order, until do returns false. It takes time by
// the number of those, and of the tenants that are not readable.
func (c choice) each(list []*entry, do func(*progress) bool) {
	from, prefix := c.after, ""
	if c.tenant != "" {
		prefix = c.tenant + "/"
		from = max(from, prefix)
	}
	at := following(list, from)
	for of, ok := "", false; at < len(list); at++ {
		e := list[at]
		if !strings.HasPrefix(e.text, prefix) {
			return
		}
		if tenant, _, _ := strings.Cut(e.text, "/"); tenant != of {
			of, ok = tenant, c.readable == nil || c.readable(tenant)
		}
		if !ok {
			at += following(list[at:], of+afterSlash) - 1
			continue
		}
		if p := e.last.Load(); p != nil && !do(p) {
			return
		}
	}
}

// afterSlash is what comes after "/" in the order of texts: with it a tenant's name is above all that the
// tenant has, and no script's name is that.
const afterSlash = "0"

// following returns the place of the first entry whose text comes after the text.
func following(list []*entry, text string) int {
	at, found := slices.BinarySearchFunc(list, text, func(e *entry, text string) int { return strings.Compare(e.text, text) })
	if found {
		at++
	}
	return at
}
