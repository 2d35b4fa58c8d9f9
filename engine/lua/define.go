package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Each call starts afresh: it runs the chunk, then the entrypoint. A chunk that does
// nothing but define functions and constants, none of which a function ever assigns
// to, gives the same each time, and nothing that a script could change: its
// entrypoint is kept and serves all calls. This is read off the code, where each
// instruction but a few disqualifies. A call pays for the chunk all the same, so that
// what a script may do does not depend on what ran before it.

// definition is what a chunk gave that is constant. It is shared by all calls.
type definition struct {
	entry        *vm.LFunction
	onResponse   *vm.LFunction // nil if it defines none
	instructions int64         // that the chunk took
	bytes        int64         // that it allocated
}

// definition returns what the program's chunk is known to give in calls with, or
// without, coroutines; nil if it must be run.
func (p *program) definition(coroutines bool) *definition {
	return p.slot(coroutines).Load()
}

// keep keeps what the chunk gave, if it may be.
func (p *program) keep(coroutines bool, d definition) {
	if !p.constant || p.slot(coroutines).Load() != nil {
		return
	}
	f := freezer{functions: map[*vm.LFunction]*vm.LFunction{}, variables: map[*vm.Upvalue]*vm.Upvalue{}}
	d.entry = f.function(d.entry)
	if d.onResponse != nil {
		d.onResponse = f.function(d.onResponse)
	}
	if f.ok() {
		p.slot(coroutines).Store(new(d))
	}
}

// freezer copies functions that are constant. The originals hold on to the stack of
// the state that made them.
type freezer struct {
	functions map[*vm.LFunction]*vm.LFunction
	variables map[*vm.Upvalue]*vm.Upvalue
	refused   bool
}

func (f *freezer) ok() bool { return !f.refused }

func (f *freezer) function(fn *vm.LFunction) *vm.LFunction {
	if fn.IsG {
		_, known := sandbox().names[fn]
		f.refused = f.refused || !known
		return fn
	}
	if known := f.functions[fn]; known != nil {
		return known
	}
	frozen := &vm.LFunction{Proto: fn.Proto, Env: fn.Env, Upvalues: make([]*vm.Upvalue, len(fn.Upvalues))}
	f.functions[fn] = frozen
	for i, v := range fn.Upvalues {
		frozen.Upvalues[i] = f.variable(v)
	}
	return frozen
}

func (f *freezer) variable(v *vm.Upvalue) *vm.Upvalue {
	if known := f.variables[v]; known != nil {
		return known
	}
	frozen := &vm.Upvalue{}
	f.variables[v] = frozen
	switch value := v.Value().(type) {
	case vm.LString, vm.LNumber, vm.LBool, *vm.LNilType:
		frozen.SetValue(value)
	case *vm.LFunction:
		frozen.SetValue(f.function(value))
	case *vm.LUserData:
		f.refused = f.refused || value != values.Null && !values.IsLibrary(value)
		frozen.SetValue(value)
	default:
		f.refused = true
	}
	f.refused = f.refused || !v.IsClosed()
	return frozen
}
