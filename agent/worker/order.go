package worker

import (
	"cmp"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

// inOrder returns the objects in the order in which they go live: the settings of the
// tenant, values, and releases, which find their values there.
func inOrder(objects []script.Object) []script.Object {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b script.Object) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

func rank(o script.Object) int {
	switch {
	case o.Tenant != nil:
		return 0
	case o.Value != nil:
		return 1
	}
	return 2
}
