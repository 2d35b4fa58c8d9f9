package scripttest

import (
	"maps"
	"slices"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
)

// Coverage is what tests execute of scripts.
type Coverage struct{ parts []part }

// part is the coverage of one suite's program.
type part struct {
	script  *manifest.Manifest
	program *offline.Program
	lua     *lua.Coverage
}

// add returns what notes what the program executes; nil if c is nil.
func (c *Coverage) add(m *manifest.Manifest, p *offline.Program) engine.Profiler {
	if c == nil {
		return nil
	}
	added := part{m, p, lua.NewCoverage()}
	c.parts = append(c.parts, added)
	return added.lua
}

// Covered is the coverage of one script, by all suites.
type Covered struct {
	Script *manifest.Manifest
	lua.Covered
}

// Share is how many of some things were executed.
type Share struct{ Executed, All int }

// Percent returns the share; 100 if there is nothing to execute.
func (s Share) Percent() float64 {
	if s.All == 0 {
		return 100
	}
	return 100 * float64(s.Executed) / float64(s.All)
}

// Add returns both shares together.
func (s Share) Add(other Share) Share { return Share{s.Executed + other.Executed, s.All + other.All} }

// LineShare returns the share of the lines with code.
func (c *Covered) LineShare() (s Share) {
	for _, n := range c.Lines {
		s.All++
		if n > 0 {
			s.Executed++
		}
	}
	return s
}

// BranchShare returns the share of the ways that conditions can go.
func (c *Covered) BranchShare() (s Share) {
	for _, b := range c.Branches {
		for _, n := range []uint64{b.Taken, b.Skipped} {
			s.All++
			if n > 0 {
				s.Executed++
			}
		}
	}
	return s
}

// Scripts returns the coverage of each script, in the order of the suites. Suites of one script count together.
func (c *Coverage) Scripts() []Covered {
	var all []Covered
	for _, p := range c.parts {
		covered := p.lua.Of(p.program.Engine(), p.script.Source)
		same := func(o Covered) bool {
			return o.Script.Name == p.script.Name && string(o.Script.Source) == string(p.script.Source)
		}
		i := slices.IndexFunc(all, same)
		if i < 0 {
			all = append(all, Covered{p.script, covered})
			continue
		}
		for line := range maps.Keys(covered.Lines) {
			all[i].Lines[line] += covered.Lines[line]
		}
		for k, b := range covered.Branches { // of the same code, so in the same order
			all[i].Branches[k].Taken += b.Taken
			all[i].Branches[k].Skipped += b.Skipped
		}
	}
	return all
}
