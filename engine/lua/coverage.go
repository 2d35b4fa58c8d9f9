package lua

import (
	"maps"
	"slices"
	"sync"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Coverage notes which instructions calls of one program execute, when it is their Invocation.Profile. It is safe for
// concurrent use. Calls are slower with it.
type Coverage struct {
	mu       sync.Mutex
	executed map[*vm.FunctionProto][]uint64 // how often each instruction was executed
}

var _ engine.Profiler = (*Coverage)(nil)

// NewCoverage returns a Coverage without calls.
func NewCoverage() *Coverage { return &Coverage{executed: map[*vm.FunctionProto][]uint64{}} }

// Sample implements engine.Profiler. A Coverage gets instructions by record.
func (*Coverage) Sample([]engine.Frame, uint64) {}

// record counts the instruction that the frame executes.
func (c *Coverage) record(f *vm.Frame) {
	if f != nil && f.Fn != nil && !f.Fn.IsG {
		c.add(f.Fn.Proto, f.Pc-1)
	}
}

func (c *Coverage) add(p *vm.FunctionProto, pc int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.executed[p]
	if counts == nil {
		counts = make([]uint64, len(p.Code))
		c.executed[p] = counts
	}
	if pc >= 0 && pc < len(counts) {
		counts[pc]++
	}
}

// recordAll counts all instructions of a chunk that defines constants alone: see definition.
func (c *Coverage) recordAll(p *vm.FunctionProto) {
	for pc := range p.Code {
		c.add(p, pc)
	}
}

// Branch is a condition: of an if, a while or a repeat, or an and or an or.
type Branch struct {
	Line int
	// Taken and Skipped are how often the code after the condition was executed, and how often it was skipped.
	Taken, Skipped uint64
}

// Covered is the coverage of a source.
type Covered struct {
	Lines    map[int]uint64 // how often each line with code was executed
	Branches []Branch       // in the order of their lines
}

// Of returns the coverage of the program's source, which is code.
func (c *Coverage) Of(p engine.Program, code []byte) Covered {
	if lua, ok := p.(*program); ok {
		return c.of(lua.Proto, code)
	}
	return Covered{Lines: map[int]uint64{}}
}

// OfLibrary returns the coverage of a library that the program was compiled with, whose source is code.
func (c *Coverage) OfLibrary(p engine.Program, library script.Name, code []byte) Covered {
	if lua, ok := p.(*program); ok && lua.libraries[library.String()] != nil {
		return c.of(lua.libraries[library.String()].Proto, code)
	}
	return Covered{Lines: map[int]uint64{}}
}

func (c *Coverage) of(proto *vm.FunctionProto, code []byte) Covered {
	all := Covered{Lines: map[int]uint64{}}
	written := compile.CodeLines(code) // wrap adds code to the first line
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(&all, proto)
	maps.DeleteFunc(all.Lines, func(line int, _ uint64) bool { return !written[line] })
	all.Branches = slices.DeleteFunc(all.Branches, func(b Branch) bool { return !written[b.Line] })
	slices.SortStableFunc(all.Branches, func(a, b Branch) int { return a.Line - b.Line })
	return all
}

// collect adds a function and those in it.
func (c *Coverage) collect(all *Covered, p *vm.FunctionProto) {
	counts := c.executed[p]
	if counts == nil {
		counts = make([]uint64, len(p.Code))
	}
	for pc := 0; pc < len(p.Code); pc++ {
		line := p.DbgSourcePositions[pc]
		op := p.Code[pc].Op()
		if op == glua.OP_RETURN && pc == len(p.Code)-1 {
			break // every function ends with it
		}
		all.Lines[line] = max(all.Lines[line], counts[pc])
		switch op {
		case glua.OP_EQ, glua.OP_LT, glua.OP_LE, glua.OP_TEST, glua.OP_TESTSET:
			if pc+1 < len(p.Code) && p.Code[pc+1].Op() == glua.OP_JMP {
				jumps := counts[pc+1]
				all.Branches = append(all.Branches, Branch{Line: line, Taken: counts[pc] - min(jumps, counts[pc]), Skipped: jumps})
			}
		case glua.OP_CLOSURE:
			pc += p.ClosureAt(pc).NumUpvalues
		}
	}
	for _, inner := range p.FunctionPrototypes {
		c.collect(all, inner)
	}
}
