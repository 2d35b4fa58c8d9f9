package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/hostlib"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	callStackSize    = 256   // calls within each other, builtins included
	registrySize     = 512   // values on the stack of a fresh state
	registryMaxSize  = 32768 // values on the stack at most: 512 KiB
	registryGrowStep = 1024
)

// state is a state of the machine with its meter. Between calls it holds nothing of
// a call: globals live in an environment made for each, and what the libraries
// are made of is shared by all states and cannot be changed by scripts.
type state struct {
	tenant string
	l      *vm.LState
	meter  meter
	call   call
	ask    func() // meter.ask

	older, newer *state // in the pool's list
	bytes        int    // that it holds while it is there
}

func newState(tenant string) *state {
	s := &state{tenant: tenant}
	s.meter.Control = &s.meter
	s.l = vm.NewState(&s.meter.Meter, vm.Options{Calls: callStackSize, Values: registrySize, MaxValues: registryMaxSize, Grow: registryGrowStep})
	s.call.l, s.meter.call, s.ask = s.l, &s.call, s.meter.ask
	s.call.JSON, s.call.Names = luajson.NewStore(&s.meter.Meter, &s.call), sandbox().names
	g := s.l.G
	g.Call = &s.call.Call
	g.Strings, g.Number, g.Describe = sandbox().stringMeta, bind.TextNumber, described
	return s
}

// clear drops all of the call that is over.
func (s *state) clear() {
	s.call.clear()
	s.l.Forget()
}

// fixedBytes is the size of all that is the same in each state.
const fixedBytes = 2048

// size returns about how many bytes a state holds that runs no call.
func (s *state) size() int {
	return fixedBytes + s.l.Bytes() + s.call.JSON.Bytes()
}

// trim drops what can be dropped if the state holds more than most bytes. It returns
// how many it then holds.
func (s *state) trim(most int) int {
	size := s.size()
	if size <= most {
		return size
	}
	s.call.JSON.Trim()
	return s.size()
}

// call is what a state is running: one invocation of a program.
type call struct {
	bind.Call
	l       *vm.LState
	program *program
	inv     *engine.Invocation
	env     *vm.LTable
	config  vm.LValue  // if the program uses it
	defined definition // what the chunk has given, if it was run
	// required is what libraries have given, by their names; nil for one whose chunk runs.
	required map[string]vm.LValue

	coroutines []*coroutine // that were made
	resumed    int          // of them, within each other
}

// enter executes the chunk in its environment, and calls the entrypoint if there is
// one, or engine.OnResponse. What is returned is on the stack then.
func (c *call) enter(m *meter) error {
	if c.program.entrypoint == "" {
		c.l.Push(&vm.LFunction{Proto: c.program.Proto, Env: c.env})
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
		for _, arg := range c.Args {
			c.l.Push(arg)
		}
	}
	if err := c.l.PCall(len(c.Args), vm.MultRet); err != nil {
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
		m.Left -= d.instructions
		if m.sampling != nil {
			m.sampleChunk()
		}
		m.Made(int(d.bytes))
		return d, nil
	}
	instructions, bytes := m.budget(), m.allocatable()
	entry, onResponse, err := c.runChunk(m)
	if err != nil {
		return nil, err
	}
	d := &c.defined
	var ok bool
	if d.entry, ok = entry.(*vm.LFunction); !ok {
		return nil, compile.NoEntrypoint(c.program.entrypoint)
	}
	if d.onResponse, ok = onResponse.(*vm.LFunction); !ok && onResponse != vm.LNil {
		return nil, script.Errorf(script.Script, "", "the script sets the global %s to a %s: it can only be a function", engine.OnResponse, onResponse.Type())
	}
	d.instructions, d.bytes = instructions-m.budget(), bytes-m.allocatable()
	c.program.keep(coroutines, *d)
	return d, nil
}

// runChunk runs the chunk and returns what the names of the entrypoint and of engine.OnResponse
// stand for then.
func (c *call) runChunk(m *meter) (entry, onResponse vm.LValue, err error) {
	c.l.Push(&vm.LFunction{Proto: c.program.Proto, Env: c.env})
	args, results := 0, 0
	if c.program.Wrapped {
		results = 2 // of which the second is nil if the chunk returns one
	}
	if c.program.Wrapped && c.program.UsesConfig {
		c.l.Push(c.config)
		args = 1
	}
	if err := c.l.PCall(args, results); err != nil {
		return nil, nil, callError(err, m)
	}
	if !c.program.Wrapped {
		return c.env.RawGetString(c.program.entrypoint), c.env.RawGetString(engine.OnResponse), nil
	}
	entry, onResponse = c.l.Get(-2), c.l.Get(-1)
	c.l.Pop(2)
	return entry, onResponse, nil
}

// clear drops everything of the call and keeps the slices' memory.
func (c *call) clear() {
	c.program, c.inv, c.env, c.config, c.Globals, c.Cookies, c.Query, c.Random = nil, nil, nil, nil, nil, nil, nil, nil
	c.Host, c.defined, c.required = hostapi.Call{}, definition{}, nil
	c.coroutines, c.resumed = nil, 0
	clear(c.Args)
	c.Args = c.Args[:0]
	c.JSON.Clear()
}

// IsRequest implements luajson.Owner, as do the next two.
func (c *call) IsRequest(t *vm.LTable) bool { return hostlib.IsRequest(&c.Call, t) }

// Derived returns cookies or parameters of the query.
func (*call) Derived(l *vm.LState, t *vm.LTable, name string) vm.LValue {
	return hostlib.Derived(l, t, name)
}

// Stopped returns why the call must end.
func (c *call) Stopped() *script.Error {
	if m := meterOf(c.l); m.reason != running {
		return m.stopError()
	}
	return nil
}
