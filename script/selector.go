package script

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Selector says which tenants: those that match any of its globs, in which '*'
// stands for any characters. The zero Selector selects all tenants. Selectors are
// immutable.
type Selector struct {
	globs []string // sorted, each once; none: all
}

// GroupAll is the group of the Selector that selects all tenants.
const GroupAll = "all"

// Bounds of a selector.
const (
	MaxSelectorGlobs = 64
	MaxGlobLen       = MaxLabelLen
)

// ParseSelector returns the selector of the globs. None, or one that is "*",
// select all tenants. Errors are Invalid and name the field "tenants".
func ParseSelector(globs []string) (Selector, error) {
	if len(globs) > MaxSelectorGlobs {
		return Selector{}, Errorf(Invalid, "tenants", "%d globs are too many: at most %d are allowed", len(globs), MaxSelectorGlobs)
	}
	for _, glob := range globs {
		if !validGlob(glob) {
			return Selector{}, Errorf(Invalid, "tenants",
				"%s is not a tenant or a glob of tenants: want lower-case letters, digits, '-' and '*', at most %d characters", quote(glob), MaxGlobLen)
		}
	}
	if slices.Contains(globs, "*") {
		return Selector{}, nil
	}
	sorted := slices.Clone(globs)
	slices.Sort(sorted)
	return Selector{globs: slices.Compact(sorted)}, nil
}

func validGlob(glob string) bool {
	if glob == "" || len(glob) > MaxGlobLen {
		return false
	}
	for _, c := range []byte(glob) {
		if c != '*' && c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// All reports whether s selects all tenants, whatever their names.
func (s Selector) All() bool { return len(s.globs) == 0 }

// Globs returns what ParseSelector makes s of; nil if s selects all tenants. The
// caller owns the slice.
func (s Selector) Globs() []string { return slices.Clone(s.globs) }

// Matches reports whether s selects the tenant.
func (s Selector) Matches(tenant string) bool {
	return s.All() || slices.ContainsFunc(s.globs, func(glob string) bool { return matches(glob, tenant) })
}

// matches reports whether the whole of text matches the glob, in time that is
// linear in their product.
func matches(glob, text string) bool {
	star, mark := -1, 0
	g, t := 0, 0
	for t < len(text) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, t
			g++
		case g < len(glob) && glob[g] == text[t]:
			g++
			t++
		case star >= 0: // let the last star take one more
			mark++
			g, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// Within reports whether every tenant that s selects is selected by one glob of
// outer. It may say no where it takes several globs of outer to cover one of s.
func (s Selector) Within(outer Selector) bool {
	if outer.All() {
		return true
	}
	if s.All() {
		return false
	}
	for _, glob := range s.globs {
		// A glob whose stars are read as characters that no other glob has literally
		// matches outer's only where outer has a star too.
		if !slices.ContainsFunc(outer.globs, func(o string) bool { return matches(o, glob) }) {
			return false
		}
	}
	return true
}

// Group returns the name of the group of all agents that follow what s selects:
// GroupAll, or "g-" and 16 hexadecimal digits of the SHA-256 of the globs.
func (s Selector) Group() string {
	if s.All() {
		return GroupAll
	}
	sum := sha256.Sum256([]byte(strings.Join(s.globs, "\n")))
	return "g-" + hex.EncodeToString(sum[:8])
}

// String returns the globs with commas between them; "*" for all tenants.
func (s Selector) String() string {
	if s.All() {
		return "*"
	}
	return strings.Join(s.globs, ",")
}
