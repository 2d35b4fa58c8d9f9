// Package mask copies JSON into records. It masks the values at paths, and copies of these values. It can keep only
// selected parts, and rejects everything that is not JSON.
package mask

import (
	"bytes"
	"math/bits"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// MaxPaths bounds a Paths: the paths of a script, and of its tenant.
const MaxPaths = 2 * script.MaxDecisionPaths

// set is a bit set of path numbers.
type set uint64

// Paths are compiled paths. A nil Paths has none. They are immutable.
type Paths struct {
	names [][]string
}

// Nothing matches no value. Unlike nil, it is not Empty.
var Nothing = &Paths{}

// NewPaths compiles paths of names, separated by dots. The path "" is the value itself. NewPaths ignores paths beyond
// MaxPaths: no registry accepts as many.
func NewPaths(lists ...[]string) *Paths {
	var p Paths
	for _, list := range lists {
		for _, path := range list {
			if len(p.names) == MaxPaths {
				break
			}
			var names []string
			if path != "" {
				names = strings.Split(path, ".")
			}
			for i, name := range names {
				names[i] = strings.TrimSpace(name)
			}
			p.names = append(p.names, names)
		}
	}
	if len(p.names) == 0 {
		return nil
	}
	return &p
}

// Empty reports whether there are no paths.
func (p *Paths) Empty() bool { return p == nil }

// every is the name that matches all names, and all items of a list.
const every = "*"

// walk matches paths while the masker walks through a value. A path is alive at a place if its first names match the
// names from the root of the value to this place.
type walk struct {
	paths *Paths
	hides bool // the paths mask: in doubt, a path matches
	// behind counts for each path the lists that it passed without a name for their items.
	behind [MaxPaths]uint8
}

// root returns the paths that are alive at the root of a value, and whether a path ends there.
func (w *walk) root() (alive set, ends bool) {
	if w.paths == nil {
		return 0, false
	}
	for number, names := range w.paths.names {
		if len(names) == 0 {
			return 0, true
		}
		alive |= 1 << number
	}
	return alive, false
}

// member returns the paths of alive that continue in the member of an object at this depth, and whether a path ends
// there.
func (w *walk) member(alive set, depth int, name []byte) (through set, ends bool) {
	name = bytes.TrimSpace(name)
	dotted := alive != 0 && bytes.IndexByte(name, '.') >= 0
	for ; alive != 0; alive &= alive - 1 {
		number := bits.TrailingZeros64(uint64(alive))
		names := w.paths.names[number]
		at := depth - int(w.behind[number])
		if dotted && w.dotted(names[at:], string(name)) {
			return 0, true
		}
		if want := names[at]; want != every && !sameName(want, name) {
			continue
		}
		if at == len(names)-1 {
			return 0, true
		}
		through |= 1 << number
	}
	return through, false
}

// dotted reports whether a path with these remaining names ends at a member whose name has dots: the path a.b matches the
// name "a.b". A path that continues after it ends here only if it hides.
func (w *walk) dotted(names []string, name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if len(names) == 0 || names[0] != every && !sameName(names[0], []byte(part)) {
			return false
		}
		names = names[1:]
	}
	return len(names) == 0 || w.hides
}

// list returns the paths of alive that continue in the items of a list, and whether a path ends at the items. A path
// without a name for the items continues with their members: it is in passed until leave. A number can be a name or an
// index, so a path that hides ends there.
func (w *walk) list(alive set, depth int) (through, passed set, ends bool) {
	for ; alive != 0; alive &= alive - 1 {
		number := bits.TrailingZeros64(uint64(alive))
		names := w.paths.names[number]
		switch at := depth - int(w.behind[number]); {
		case w.hides && isNumber(names[at]):
			ends = true
			continue
		case names[at] != every:
			w.behind[number]++
			passed |= 1 << number
		case at == len(names)-1:
			ends = true
			continue
		}
		through |= 1 << number
	}
	return through, passed, ends
}

func isNumber(name string) bool { return strings.Trim(name, "0123456789") == "" }

// leave undoes list after the last item.
func (w *walk) leave(passed set) {
	for ; passed != 0; passed &= passed - 1 {
		w.behind[bits.TrailingZeros64(uint64(passed))]--
	}
}

// sameName reports whether both names are equal, ignoring case. It uses Unicode case folding.
func sameName(want string, name []byte) bool {
	if len(want) == len(name) {
		same := true
		for i := range len(want) {
			if a, b := want[i], name[i]; a != b && (a|0x20 != b|0x20 || a|0x20 < 'a' || a|0x20 > 'z') {
				same = false
				break
			}
		}
		if same {
			return true
		}
	}
	for _, c := range name {
		if c >= 0x80 {
			return strings.EqualFold(want, string(name))
		}
	}
	return false
}
