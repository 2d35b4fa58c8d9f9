package lua

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// sampling is what a call that is profiled has besides. Its instructions are handed out so that the
// meter runs dry at each sample: between two samples, and in all other calls, an instruction costs
// what it costs without a profile.
type sampling struct {
	to       engine.Profiler
	coverage *Coverage      // to, if it is one: each instruction is a sample
	stack    []engine.Frame // Room for a sample, once there was one
}

// profile has the call take samples, the first one at random: a call with few instructions has one
// as often as it should.
func (m *meter) profile(to engine.Profiler) {
	coverage, _ := to.(*Coverage)
	m.sampling = &sampling{to: to, coverage: coverage}
	m.later += m.Left
	m.Left = 0
	if coverage != nil {
		return
	}
	m.grant(rand.Int64N(engine.ProfileEvery))
}

// grant makes some of what is left of the budget what may be used now.
func (m *meter) grant(n int64) {
	n = min(n, m.later)
	m.Left += n
	m.later -= n
}

// sample takes a sample of where the call is. It stands for all that was used since the last one, for
// instance by a builtin that charged for much at once.
func (m *meter) sample() {
	if c := m.sampling.coverage; c != nil {
		if l := m.call.l.G.CurrentThread; l != nil { // else the call reads its arguments
			c.record(l.Frame())
		}
		m.grant(-m.Left)
		return
	}
	m.sampleAt(m.frames())
}

func (m *meter) sampleAt(stack []engine.Frame) {
	due := 1 + (-m.Left-1)/engine.ProfileEvery
	m.sampling.to.Sample(stack, uint64(due*engine.ProfileEvery))
	m.grant(due * engine.ProfileEvery)
}

// sampleChunk takes a sample of the chunk if one is due: the call has paid for it, and did not run
// it.
func (m *meter) sampleChunk() {
	if c := m.sampling.coverage; c != nil {
		c.recordAll(m.call.program.Proto)
		return
	}
	if m.Left < 0 && m.later > 0 {
		m.sampleAt(append(m.sampling.stack[:0], engine.Frame{}))
	}
}

// frames returns where the call is.
func (m *meter) frames() []engine.Frame {
	s := m.sampling
	if s.stack == nil {
		s.stack = make([]engine.Frame, 0, engine.MaxProfileDepth)
	}
	stack := s.stack[:0]
	for l := m.call.l.G.CurrentThread; l != nil; l = l.Parent {
		for f := l.Frame(); f != nil; f = f.Parent {
			if len(stack) == engine.MaxProfileDepth {
				stack[len(stack)-1] = engine.Frame{Builtin: engine.Deeper}
				return stack
			}
			stack = append(stack, frameAt(f))
		}
	}
	if len(stack) == 0 {
		stack = append(stack, engine.Frame{Builtin: engine.Outside})
	}
	return stack
}

func frameAt(f *vm.Frame) engine.Frame {
	if f.Fn == nil {
		return engine.Frame{Builtin: engine.Outside}
	}
	if f.Fn.IsG {
		return engine.Frame{Builtin: builtinName(f.Fn)}
	}
	p := f.Fn.Proto
	if p.SourceName != compile.ChunkName { // its lines are not those of the source
		return engine.Frame{Builtin: fmt.Sprintf("%s:%d", p.SourceName, p.LineDefined)}
	}
	return engine.Frame{Function: int32(p.LineDefined), Line: int32(p.Line(f.Pc - 1))} //nolint:gosec // of a source of at most 1 MiB
}

// builtinName returns what a profile calls a function of the engine.
func builtinName(fn *vm.LFunction) string {
	b := sandbox()
	if name, ok := b.names[fn]; ok {
		return name
	}
	for name, operator := range b.operators {
		if operator == fn {
			return strings.TrimPrefix(name, compile.OperatorPrefix)
		}
	}
	return "(builtin)"
}
