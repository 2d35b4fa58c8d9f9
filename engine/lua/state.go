package lua

import (
	"unsafe"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/script"
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
	host    hostapi.Call // what it may use of hostapi
	env     *glua.LTable
	config  glua.LValue // if the program uses it
	args    []glua.LValue
	cookies *glua.LTable // of the request, once they were asked for
	query   *glua.LTable // the request's query, once it was asked for
	defined definition   // what the chunk has given, if it was run
	// required is what libraries have given, by their names; nil for one whose chunk runs.
	required map[string]glua.LValue

	coroutines []*coroutine // that were made
	resumed    int          // of them, within each other

	members      []member // of the lazy objects that were made
	innerMembers []member // of the objects in them
	inner        []innerObject
	names        []span32 // of the objects that are being decoded
}

// enter executes the chunk in its environment, and calls the entrypoint if there is
// one, or engine.OnResponse. What is returned is on the stack then.
func (c *call) enter(m *meter) error {
	if c.program.entrypoint == "" {
		c.l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	} else {
		d, err := c.define(m)
		if err != nil {
			return err
		}
		fn := d.entry
		if c.inv.OnResponse {
			if fn = d.onResponse; fn == nil {
				return nil
			}
		}
		c.l.Push(fn)
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

// define returns what the chunk defines, which is run unless it is known what that gives.
func (c *call) define(m *meter) (*definition, error) {
	coroutines := c.inv.Limits.Coroutines
	if d := c.program.definition(coroutines); d != nil && m.budget() > d.instructions && m.allocatable() > d.bytes {
		m.left -= d.instructions
		if m.sampling != nil {
			m.sampleChunk()
		}
		m.made(int(d.bytes))
		return d, nil
	}
	instructions, bytes := m.budget(), m.allocatable()
	entry, onResponse, err := c.runChunk(m)
	if err != nil {
		return nil, err
	}
	d := &c.defined
	var ok bool
	if d.entry, ok = entry.(*glua.LFunction); !ok {
		return nil, noEntrypoint(c.program.entrypoint)
	}
	if d.onResponse, ok = onResponse.(*glua.LFunction); !ok && onResponse != glua.LNil {
		return nil, script.Errorf(script.Script, "", "the script sets the global %s to a %s: it can only be a function", engine.OnResponse, onResponse.Type())
	}
	d.instructions, d.bytes = instructions-m.budget(), bytes-m.allocatable()
	c.program.keep(coroutines, *d)
	return d, nil
}

// runChunk runs the chunk and returns what the names of the entrypoint and of engine.OnResponse
// stand for then.
func (c *call) runChunk(m *meter) (entry, onResponse glua.LValue, err error) {
	c.l.Push(&glua.LFunction{Proto: c.program.proto, Env: c.env})
	args, results := 0, 0
	if c.program.wrapped {
		results = 2 // of which the second is nil if the chunk returns one
	}
	if c.program.wrapped && c.program.usesConfig {
		c.l.Push(c.config)
		args = 1
	}
	if err := c.l.PCall(args, results, nil); err != nil {
		return nil, nil, callError(err, m)
	}
	if !c.program.wrapped {
		return c.env.RawGetString(c.program.entrypoint), c.env.RawGetString(engine.OnResponse), nil
	}
	entry, onResponse = c.l.Get(-2), c.l.Get(-1)
	c.l.Pop(2)
	return entry, onResponse, nil
}

// clear drops everything of the call and keeps the slices' memory.
func (c *call) clear() {
	c.program, c.inv, c.env, c.config, c.cookies, c.query = nil, nil, nil, nil, nil, nil
	c.host, c.defined, c.required = hostapi.Call{}, definition{}, nil
	c.coroutines, c.resumed = nil, 0
	c.names, c.args = c.names[:0], emptied(c.args)
	c.members, c.innerMembers, c.inner = emptied(c.members), emptied(c.innerMembers), emptied(c.inner)
}

// emptied returns s without its elements, and with its memory.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}
