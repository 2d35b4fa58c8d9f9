package lua

import (
	glua "github.com/yuin/gopher-lua"
)

const (
	callStackSize    = 256   // calls within each other, builtins included
	registrySize     = 512   // values on the stack of a fresh state
	registryMaxSize  = 32768 // values on the stack at most: 512 KiB
	registryGrowStep = 1024
)

// state is a gopher-lua state with its meter. Between calls it holds nothing of
// a call: globals live in an environment made for each, and what the libraries
// are made of is shared by all states and cannot be changed by scripts.
type state struct {
	tenant string
	l      *glua.LState
	meter  meter
	call   call
	enter  *glua.LFunction // runs call

	older, newer *state // in the pool's list
}

func newState(tenant string) *state {
	s := &state{
		tenant: tenant,
		l: glua.NewState(glua.Options{
			CallStackSize:    callStackSize,
			RegistrySize:     registrySize,
			RegistryMaxSize:  registryMaxSize,
			RegistryGrowStep: registryGrowStep,
			SkipOpenLibs:     true,
		}),
	}
	s.l.SetContext(&s.meter)
	s.l.SetMetatable(glua.LString(""), sandbox().stringMeta)
	for _, v := range []glua.LValue{glua.LNil, glua.LFalse, glua.LNumber(0), &glua.LFunction{}} {
		s.l.SetMetatable(v, sandbox().plainMeta)
	}
	s.enter = builtin(func(l *glua.LState) int { return s.call.enter(l, &s.meter) })
	return s
}

// call is what a state is running: one invocation of a program.
type call struct {
	program *program
	env     *glua.LTable
	args    []glua.LValue
	results []glua.LValue // what the program returned, once entered
}

// enter executes the chunk in its environment, calls the entrypoint if there is
// one, and keeps what is returned.
func (c *call) enter(l *glua.LState, m *meter) int {
	l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	if c.program.entrypoint == "" {
		l.Call(0, glua.MultRet)
	} else {
		l.Call(0, 0)
		fn, ok := c.env.RawGetString(c.program.entrypoint).(*glua.LFunction)
		if !ok {
			raise(l, noEntrypoint(c.program.entrypoint))
		}
		l.Push(fn)
		for _, arg := range c.args {
			l.Push(arg)
		}
		l.Call(len(c.args), glua.MultRet)
	}
	if m.reason != running {
		l.RaiseError("%s", m.stopError().Message)
	}
	for i := range l.GetTop() {
		c.results = append(c.results, l.Get(i+1))
	}
	l.SetTop(0)
	return 0
}

// clear drops everything of the call and keeps the slices' memory.
func (c *call) clear() {
	clear(c.args)
	clear(c.results)
	*c = call{args: c.args[:0], results: c.results[:0]}
}
