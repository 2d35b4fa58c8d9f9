package lua

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// program is a compiled chunk. Its states belong to the engine's pool: they
// hold nothing of a program, so one that is idle costs no state.
type program struct {
	engine     *Engine
	entrypoint string
	compile.Compiled
	libraries     map[string]*tenantLibrary
	decodesConfig bool // the source uses the config, or a library does
	constant      bool // what the chunk gives; see define.go
	size          int
	closed        atomic.Bool

	definitions [2]atomic.Pointer[definition] // without and with coroutines
}

func (p *program) slot(coroutines bool) *atomic.Pointer[definition] {
	if coroutines {
		return &p.definitions[1]
	}
	return &p.definitions[0]
}

// OnResponse is engine.Program's.
func (p *program) OnResponse() bool { return p.Compiled.OnResponse }

// Size is engine.Program's.
func (p *program) Size() int { return p.size }

// Close is engine.Program's.
func (p *program) Close() { p.closed.Store(true) }

// Run is engine.Program's.
func (p *program) Run(ctx context.Context, inv *engine.Invocation, res *engine.Result) error {
	if ctx.Err() != nil {
		res.Reset()
		return lateError(ctx.Err())
	}
	s := p.engine.pool.get(inv.Tenant)
	s.meter.begin(inv.Limits.OrDefaults())
	if inv.Profile != nil {
		s.meter.profile(inv.Profile)
	}
	p.engine.watchdog.arm(ctx, &s.meter)
	if s.meter.turn = inv.Turn; inv.Turn != nil {
		inv.Turn.Bind(s.ask)
	}
	err := p.run(s, inv, res)
	p.engine.watchdog.disarm(&s.meter)
	if inv.Used != nil {
		*inv.Used = s.meter.used()
	}
	s.meter.closeAccount(&p.engine.accounts, inv.Tenant)
	s.meter.turn, s.meter.sampling = nil, nil
	if err != nil {
		res.Reset()
		return err // and s, which may be half-way through something, is dropped
	}
	s.clear()
	if !p.closed.Load() {
		p.engine.pool.put(s)
	}
	return nil
}

// lateError is for a call whose context has ended, because of cause, before it
// could begin.
func lateError(cause error) error {
	message := "the call's time ran out before it began"
	if errors.Is(cause, context.Canceled) {
		message = "the caller gave up before the call began"
	}
	return &script.Error{Kind: script.Timeout, Message: message, Err: cause}
}

// run is one call. Whatever happens in it ends in an error.
func (p *program) run(s *state, inv *engine.Invocation, res *engine.Result) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.meter.reason = faulted
			fault := s.meter.stopError()
			fault.Err = fmt.Errorf("panic: %v", r)
			err = fault
		}
	}()
	if err := p.prepare(s, inv); err != nil {
		return err
	}
	if err := s.call.enter(&s.meter); err != nil {
		return err
	}
	return p.collect(s, res)
}

// prepare makes the environment and the arguments of a call.
func (p *program) prepare(s *state, inv *engine.Invocation) error {
	c := &s.call
	c.program, c.inv = p, inv
	c.Patterns, c.Started = &p.engine.patterns, s.meter.started
	c.Host = hostapi.Call{Invocation: inv, Meter: &s.meter, StringBytes: s.meter.limits.StringBytes}
	d := luajson.NewDecoder(&c.JSON)
	if p.decodesConfig {
		text := inv.Config
		if len(text) == 0 {
			text = []byte("{}")
		}
		config, err := d.Object(s.meter.kept(text))
		if err != nil {
			return s.meter.invalid("config", err)
		}
		c.config = config
	}
	c.env = sandbox().environment(inv.Limits.Coroutines)
	if !p.Wrapped {
		c.env = environment(c, &p.Compiled)
	}
	if p.entrypoint == "" {
		c.Globals = c.env
		return p.setGlobals(s, &d, inv.Args)
	}
	for i, arg := range inv.Args {
		v, err := d.Value(s.meter.kept(arg))
		if err != nil {
			return s.meter.invalid(fmt.Sprintf("args[%d]", i), err)
		}
		c.Args = append(c.Args, v)
	}
	return nil
}

// kept returns a copy of what the caller may change once the call is over. It is counted.
func (m *meter) kept(text []byte) string {
	m.Made(bind.StringBytes + len(text))
	return string(text)
}

// invalid returns the error of a field that cannot be read, or of a call that ended while
// it was.
func (m *meter) invalid(field string, err error) error {
	if m.reason != running {
		return m.stopError()
	}
	return script.Errorf(script.Invalid, field, "%w", err)
}

// environment returns the globals of a chunk in a call.
func environment(c *call, of *compile.Compiled) *vm.LTable {
	env := vm.NewTable(0, 4)
	env.Metatable = sandbox().environment(c.inv.Limits.Coroutines).Metatable
	if of.UsesEnv {
		env.RawSetString("_G", env)
	}
	if of.UsesConfig {
		env.RawSetString("config", c.config)
	}
	return env
}

// setGlobals sets the members of the single argument of a chunk that is the
// program.
func (p *program) setGlobals(s *state, d *luajson.Decoder, args [][]byte) error {
	switch len(args) {
	case 0:
		return nil
	case 1:
		globals, err := d.Object(s.meter.kept(args[0]))
		if err != nil {
			return s.meter.invalid("args[0]", err)
		}
		o := luajson.Lazy(globals)
		for i := range o.Count() {
			if i%vm.Skipped == vm.Skipped-1 && !s.meter.Pay(0) {
				return s.meter.stopError()
			}
			s.call.env.RawSetString(o.Name(i), o.ValueAt(i))
		}
		return nil
	}
	return script.Errorf(script.Invalid, "args", "a script without entrypoint takes one argument, a JSON object, not %d", len(args))
}

// collect appends the results of the call to res.
func (p *program) collect(s *state, res *engine.Result) error {
	e := luajson.NewEncoder(&s.call.JSON, s.meter.limits.ResultBytes, "the results")
	e.Base = res.Bytes()
	for i := range s.l.GetTop() {
		err := res.Append(func(dst []byte) ([]byte, error) { return e.Value(dst, s.l.Get(i+1)) })
		if err != nil {
			return e.Fail(err, fmt.Sprintf("result %d", i+1))
		}
	}
	s.l.SetTop(0)
	return nil
}
