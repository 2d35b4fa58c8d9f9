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
	ask    func() // meter.ask
	frames frames // of l

	older, newer *state // in the pool's list
	bytes        int    // that it holds while it is there
}

func newState(tenant string) *state {
	setLibraryLimits()
	s := &state{
		tenant: tenant,
		l:      glua.NewState(stateOptions()),
	}
	s.frames = framesOf(s.l)
	s.call.l, s.meter.call, s.ask = s.l, &s.call, s.meter.ask
	s.l.SetContext(&s.meter)
	s.l.Options = coroutineOptions(s.l.Options)
	s.l.SetMetatable(glua.LString(""), sandbox().stringMeta)
	for _, v := range []glua.LValue{glua.LNil, glua.LFalse, glua.LNumber(0), &glua.LFunction{}, s.l} {
		s.l.SetMetatable(v, sandbox().plainMeta)
	}
	return s
}

func stateOptions() glua.Options {
	return glua.Options{
		CallStackSize:    callStackSize,
		RegistrySize:     registrySize,
		RegistryMaxSize:  registryMaxSize,
		RegistryGrowStep: registryGrowStep,
		SkipOpenLibs:     true,
	}
}

// clear drops all of the call that is over.
func (s *state) clear() {
	s.call.clear()
	s.frames.empty()
}

// Sizes of what a state is made of.
const (
	frameBytes = 80   // of a call on the stack
	fixedBytes = 4096 // of all that is the same in each state
)

// size returns about how many bytes a state holds that runs no call.
func (s *state) size() int {
	c := &s.call
	return fixedBytes + callStackSize*frameBytes + cap(registers(s.l))*int(unsafe.Sizeof(glua.LValue(nil))) +
		(cap(c.members)+cap(c.innerMembers))*int(unsafe.Sizeof(member{})) +
		cap(c.inner)*int(unsafe.Sizeof(innerObject{})) + cap(c.names)*int(unsafe.Sizeof(span32{}))
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
	cookies *glua.LTable // of the request, once they were asked for
	query   *glua.LTable // the request's query, once it was asked for

	coroutines []*coroutine // that were made
	resumed    int          // of them, within each other

	members      []member // of the lazy objects that were made
	innerMembers []member // of the objects in them
	inner        []innerObject
	names        []span32 // of the objects that are being decoded
}

// enter executes the chunk in its environment, and calls the entrypoint if there is
// one. What is returned is on the stack then.
func (c *call) enter(m *meter) error {
	if c.program.entrypoint == "" {
		c.l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	} else {
		entry, err := c.define(m)
		if err != nil {
			return err
		}
		c.l.Push(entry)
		for _, arg := range c.args {
			c.l.Push(arg)
		}
	}
	if err := c.l.PCall(len(c.args), glua.MultRet, nil); err != nil {
		return callError(err, m)
	}
	if m.reason != running {
		return m.stopError()
	}
	return nil
}

// define returns the entrypoint, for which the chunk is run unless it is known what
// that gives.
func (c *call) define(m *meter) (*glua.LFunction, error) {
	coroutines := c.inv.Limits.Coroutines
	if d := c.program.definition(coroutines); d != nil && m.budget() > d.instructions && m.allocatable() > d.bytes {
		m.left -= d.instructions
		m.made(int(d.bytes))
		return d.entry, nil
	}
	instructions, bytes := m.budget(), m.allocatable()
	value, err := c.runChunk(m)
	if err != nil {
		return nil, err
	}
	fn, ok := value.(*glua.LFunction)
	if !ok {
		return nil, noEntrypoint(c.program.entrypoint)
	}
	c.program.keep(coroutines, &definition{entry: fn, instructions: instructions - m.budget(), bytes: bytes - m.allocatable()})
	return fn, nil
}

// runChunk runs the chunk and returns what the entrypoint's name stands for then.
func (c *call) runChunk(m *meter) (glua.LValue, error) {
	c.l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	args, results := 0, 0
	if c.program.wrapped {
		results = 1
	}
	if c.program.wrapped && c.program.usesConfig {
		c.l.Push(c.config)
		args = 1
	}
	if err := c.l.PCall(args, results, nil); err != nil {
		return nil, callError(err, m)
	}
	if !c.program.wrapped {
		return c.env.RawGetString(c.program.entrypoint), nil
	}
	value := c.l.Get(-1)
	c.l.Pop(1)
	return value, nil
}

// clear drops everything of the call and keeps the slices' memory.
func (c *call) clear() {
	c.program, c.inv, c.env, c.config, c.cookies, c.query = nil, nil, nil, nil, nil, nil
	c.coroutines, c.resumed = nil, 0
	c.names, c.args = c.names[:0], emptied(c.args)
	c.members, c.innerMembers, c.inner = emptied(c.members), emptied(c.innerMembers), emptied(c.inner)
}

// emptied returns s without its elements, and with its memory.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}
