package lua

import (
	"unsafe"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
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
	ask    func()          // meter.ask

	older, newer *state // in the pool's list
	bytes        int    // that it holds while it is there
}

func newState(tenant string) *state {
	setLibraryLimits()
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
	s.call.l, s.meter.call, s.ask = s.l, &s.call, s.meter.ask
	s.l.SetContext(&s.meter)
	s.l.Options = coroutineOptions(s.l.Options)
	s.l.SetMetatable(glua.LString(""), sandbox().stringMeta)
	for _, v := range []glua.LValue{glua.LNil, glua.LFalse, glua.LNumber(0), &glua.LFunction{}, s.l} {
		s.l.SetMetatable(v, sandbox().plainMeta)
	}
	s.enter = builtin(func(l *glua.LState) int { return s.call.enter(l, &s.meter) })
	return s
}

// Sizes of what a state is made of.
const (
	frameBytes = 80   // of a call on the stack
	fixedBytes = 4096 // of all that is the same in each state
)

// size returns about how many bytes a state holds that runs no call.
func (s *state) size() int {
	c := &s.call
	return fixedBytes + callStackSize*frameBytes + registersOf(s.l)*int(unsafe.Sizeof(glua.LValue(nil))) +
		(cap(c.members)+cap(c.innerMembers))*int(unsafe.Sizeof(member{})) +
		cap(c.inner)*int(unsafe.Sizeof(innerObject{})) + cap(c.names)*int(unsafe.Sizeof(""))
}

// trim drops what can be dropped if the state holds more than most bytes. It returns
// how many it then holds.
func (s *state) trim(most int) int {
	size := s.size()
	if size <= most {
		return size
	}
	s.call.members, s.call.innerMembers, s.call.inner, s.call.names = nil, nil, nil, nil
	return s.size()
}

// call is what a state is running: one invocation of a program.
type call struct {
	l       *glua.LState
	program *program
	inv     *engine.Invocation
	env     *glua.LTable
	config  glua.LValue // if the program uses it
	args    []glua.LValue
	results []glua.LValue // what the program returned, once entered

	coroutines []*coroutine // that were made
	resumed    int          // of them, within each other

	members      []member // of the lazy objects that were made
	innerMembers []member // of the objects in them
	inner        []innerObject
	names        []string // of the objects that are being decoded
}

// enter executes the chunk in its environment, calls the entrypoint if there is
// one, and keeps what is returned.
func (c *call) enter(l *glua.LState, m *meter) int {
	l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	if c.program.entrypoint == "" {
		l.Call(0, glua.MultRet)
	} else {
		c.define(l)
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

// define runs the chunk, which is on the stack, and puts the entrypoint in its
// place.
func (c *call) define(l *glua.LState) {
	var value glua.LValue
	switch {
	case !c.program.wrapped:
		l.Call(0, 0)
		value = c.env.RawGetString(c.program.entrypoint)
	case c.program.usesConfig:
		l.Push(c.config)
		l.Call(1, 1)
	default:
		l.Call(0, 1)
	}
	if c.program.wrapped {
		value = l.Get(-1)
		l.Pop(1)
	}
	fn, ok := value.(*glua.LFunction)
	if !ok {
		raise(l, noEntrypoint(c.program.entrypoint))
	}
	l.Push(fn)
}

// clear drops everything of the call and keeps the slices' memory.
func (c *call) clear() {
	clear(c.args)
	clear(c.results)
	clear(c.members)
	clear(c.innerMembers)
	clear(c.inner)
	clear(c.names[:cap(c.names)])
	*c = call{
		l: c.l, args: c.args[:0], results: c.results[:0], names: c.names[:0],
		members: c.members[:0], innerMembers: c.innerMembers[:0], inner: c.inner[:0],
	}
}
