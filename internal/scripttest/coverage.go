package scripttest

import (
	"bytes"
	"slices"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
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
	if c == nil || m.Engine != script.EngineLua {
		return nil // only Lua says which lines a call executes
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

// Scripts returns the coverage of each script, in the order of the suites. Suites of one script count together, and a
// library counts what the scripts that require it execute.
func (c *Coverage) Scripts() []Covered {
	var all []Covered
	for _, p := range c.parts {
		covered := Covered{p.script, p.lua.Of(p.program.Engine(), p.script.Source)}
		if same := find(all, p.script.Name, p.script.Source); same != nil {
			same.add(covered.Covered)
			continue
		}
		all = append(all, covered)
	}
	for _, p := range c.parts {
		for _, l := range p.script.Settings.Libraries {
			if same := find(all, l.Name, []byte(l.Source)); same != nil {
				same.add(p.lua.OfLibrary(p.program.Engine(), l.Name, []byte(l.Source)))
			}
		}
	}
	return all
}

// find returns the coverage of the script with that source; nil if there is none.
func find(all []Covered, name script.Name, source []byte) *Covered {
	i := slices.IndexFunc(all, func(c Covered) bool { return c.Script.Name == name && bytes.Equal(c.Script.Source, source) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// add adds what another program executes of the same source. Its conditions are in the same order.
func (c *Covered) add(other lua.Covered) {
	for line, n := range other.Lines {
		c.Lines[line] += n
	}
	for i, b := range other.Branches[:min(len(other.Branches), len(c.Branches))] {
		c.Branches[i].Taken += b.Taken
		c.Branches[i].Skipped += b.Skipped
	}
}
