package fleet

import (
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// order is the releases, and what other objects changed lately, by revision. Those that were replaced stay in it until they
// are too many.
type order struct {
	list     []*progress
	replaced int
}

func (o *order) add(p *progress) {
	i := len(o.list)
	if i > 0 && o.list[i-1].release.Revision > p.release.Revision {
		i, _ = slices.BinarySearchFunc(o.list, p.release.Revision, byRevision)
	}
	o.list = slices.Insert(o.list, i, p)
}

// dropped says that one more of the list is replaced.
func (o *order) dropped() {
	if o.replaced++; o.replaced > 64 && o.replaced > len(o.list)/2 {
		o.list = slices.DeleteFunc(slices.Clone(o.list), func(p *progress) bool { return p.replaced })
		o.replaced = 0
	}
}

// above counts those above the revision that the selector selects, and says
// when the first of them was committed.
func (o *order) above(r script.Revision, tenants script.Selector) (n int, oldest time.Time) {
	i, _ := slices.BinarySearchFunc(o.list, r+1, byRevision)
	for _, p := range o.list[i:] {
		if p.replaced || !tenants.Matches(p.release.Name.Tenant) {
			continue
		}
		if n++; n == 1 {
			oldest = p.release.ChangedAt
		}
	}
	return n, oldest
}

// first is when the first of those above the revision that the selector selects was committed; zero if
// there is none, or if the looks are used up before it is found.
func (o *order) first(r script.Revision, tenants script.Selector, looks *int) time.Time {
	if r == never {
		return time.Time{}
	}
	i, _ := slices.BinarySearchFunc(o.list, r+1, byRevision)
	for _, p := range o.list[i:] {
		if *looks--; *looks < 0 {
			break
		}
		if !p.replaced && tenants.Matches(p.release.Name.Tenant) {
			return p.release.ChangedAt
		}
	}
	return time.Time{}
}
