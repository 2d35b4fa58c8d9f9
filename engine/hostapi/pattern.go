package hostapi

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a pattern. Parsing may take long for a short pattern, and its program be
// large: each of these was a way to that.
const (
	maxPatternBytes  = 1024
	maxPatternSize   = 1000 // instructions of its program, and runes of its sets
	maxPatternGroups = 32   // each thread of the matcher carries their positions along
	maxUnicodeSets   = 16   // \p{…}
	maxFoldedRanges  = 2    // ranges beyond ASCII in any case, each 8 ms

	runesPerSize     = 16 // runes of sets that count as one instruction
	groupsPerCost    = 8  // groups that make a step cost twice as much
	compileBaseCost  = 200
	compileByteCost  = 10
	compileSizeCost  = 5
	compileSetCost   = 3000
	compileRangeCost = 80_000

	// Memory, roughly.
	patternBytes = 4 << 10  // of a pattern, whatever it is
	bytesPerByte = 200      // of a pattern, to parse it
	bytesPerSet  = 20 << 10 // the same of a \p{…}
	bytesPerSize = 500      // of what is kept
)

// Pattern is a compiled regular expression, as RE2 has them: linear in the text, which Lua's own patterns are not, and
// with alternatives. It is safe for concurrent use.
type Pattern struct {
	text        string
	first       *regexp.Regexp                 // for a search from the beginning
	rest        func() (*regexp.Regexp, error) // for one from the second character on: it matches the one before, too
	restPaid    atomic.Bool
	groups      int
	cost        int // steps for each character
	compileCost int // of rest
	bytes       int // of memory, roughly
}

// Pattern returns the pattern, compiled, from the cache or new.
func (c *Call) Pattern(cache *Patterns, text string) (*Pattern, *script.Error) {
	if p := cache.get(c.Tenant, text); p != nil {
		return p, nil
	}
	p, err := compilePattern(text, func(instructions, bytes int) bool { return c.Pay(instructions) && c.Make(bytes) })
	if err != nil {
		return nil, err
	}
	cache.put(c.Tenant, p)
	return p, nil
}

// compilePattern compiles text and has what it costs charged before each step.
func compilePattern(text string, charge func(instructions, bytes int) bool) (*Pattern, *script.Error) {
	if len(text) > maxPatternBytes {
		return nil, fault("pattern", "the pattern is longer than 1024 bytes")
	}
	sets := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	if sets > maxUnicodeSets {
		return nil, fault("pattern", `the pattern has more than 16 of \p{…}`)
	}
	ranges := foldedRanges(text)
	if ranges > maxFoldedRanges {
		return nil, fault("pattern", "the pattern has more than 2 ranges beyond ASCII without regard to case")
	}
	parse := compileBaseCost + len(text)*compileByteCost + sets*compileSetCost + ranges*compileRangeCost
	if !charge(2*parse, 2*(patternBytes+len(text)*bytesPerByte+sets*bytesPerSet)) { // regexp parses it again, and so does compileRest
		return nil, stopped()
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, malformed(err)
	}
	size := programSize(tree)
	groups := tree.MaxCap()
	switch {
	case size > maxPatternSize:
		return nil, fault("pattern", "the pattern is too large once its repetitions are written out")
	case groups > maxPatternGroups:
		return nil, fault("pattern", "the pattern has more than 32 groups")
	}
	bytes := patternBytes + len(text) + size*bytesPerSize
	if !charge(size*compileSizeCost, bytes) {
		return nil, stopped()
	}
	first, err := regexp.Compile(text)
	if err != nil {
		return nil, malformed(err)
	}
	text = strings.Clone(text) // what it was cut out of may be large
	return &Pattern{
		text:        text,
		first:       first,
		rest:        sync.OnceValues(func() (*regexp.Regexp, error) { return compileRest(text) }),
		groups:      groups,
		cost:        (size + 1) * (groupsPerCost + groups) / groupsPerCost,
		compileCost: parse + size*compileSizeCost,
		bytes:       bytes,
	}, nil
}

func malformed(err error) *script.Error {
	return fault("pattern", "malformed pattern: %s", Clip(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
}

// compileRest compiles what matches a character, any others and the pattern. A pattern
// that stands alone may be another one within a text: what \Q begins ends nowhere. So
// it is written out anew from what was understood.
func compileRest(text string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`)
}

// foldedRanges returns how many ranges that reach beyond ASCII may have to be looked
// through for other cases, if the pattern ever asks for any case.
func foldedRanges(text string) int {
	if !ignoresCase(text) {
		return 0
	}
	n := strings.Count(text, `-\x`)
	for i := range len(text) - 1 {
		if text[i] == '-' && text[i+1] >= 0x80 {
			n++
		}
	}
	return n
}

// ignoresCase reports whether the pattern may have the flag i.
func ignoresCase(text string) bool {
	for {
		_, rest, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU-"))]
		if strings.Contains(flags, "i") {
			return true
		}
		text = rest
	}
}

// Groups returns how many captures a match has.
func (p *Pattern) Groups() int { return p.groups }

// programSize is at least what the program of a pattern has of instructions, and a
// share of the runes in its sets. It does not count beyond maxPatternSize.
func programSize(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size += len(re.Rune) / runesPerSize
	case syntax.OpCapture:
		size++
	case syntax.OpAlternate:
		size += len(re.Sub)
	}
	for _, sub := range re.Sub {
		size += programSize(sub)
		if size > maxPatternSize {
			return size
		}
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Max, re.Min+1, 1)
	}
	return size
}
