// Package mask copies JSON for records without what they must not have: it hides the values at paths, and
// copies of them, keeps chosen parts only, and lets nothing pass that is not JSON.
package mask

import (
	"bytes"
	"math/bits"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxPaths is how many paths a Paths has at most: those of a script, and of its tenant.
const maxPaths = 2 * script.MaxDecisionPaths

// set is a set of paths by their numbers.
type set uint64

// Paths are compiled paths. A nil one has none. They are immutable.
type Paths struct {
	names [][]string
}

// Nothing are paths of no value.
var Nothing = &Paths{}

// NewPaths compiles paths of names with dots between them; "" is a value itself. Those beyond maxPaths
// are left out: no registry takes as many.
func NewPaths(lists ...[]string) *Paths {
	var p Paths
	for _, list := range lists {
		for _, path := range list {
			if len(p.names) == maxPaths {
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

// every is the name that stands for all names, and for all items of a list.
const every = "*"

// walk is where in a value the paths are. It has a value for each of the three: a path is alive while
// the names from the value's root to here are its first ones.
type walk struct {
	paths *Paths
	hides bool // what is at the paths: in doubt, a path ends
	// behind counts for each path the lists that it went through without a name for their items.
	behind [maxPaths]uint8
}

// root returns the paths that are alive at the root of a value, and whether one ends there.
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

// member returns the paths of alive that go through the member of an object, which is so deep in the
// value, and whether one ends there.
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

// dotted reports whether a path with these names left ends at the member, whose name has dots: "a.b" is at the
// path a.b. A path that goes on behind it ends here only if it hides.
func (w *walk) dotted(names []string, name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if len(names) == 0 || names[0] != every && !sameName(names[0], []byte(part)) {
			return false
		}
		names = names[1:]
	}
	return len(names) == 0 || w.hides
}

// list returns the paths of alive that go through the items of a list, and whether one ends at each of
// them. A path without a name for the items goes on to their members: those are in passed until leave. A number
// may be such a name, or an index: if the path hides, it ends.
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

// leave ends what list began.
func (w *walk) leave(passed set) {
	for ; passed != 0; passed &= passed - 1 {
		w.behind[bits.TrailingZeros64(uint64(passed))]--
	}
}

// sameName reports whether both are one name in any case. A letter that only folds to an ASCII letter
// counts as that one.
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
