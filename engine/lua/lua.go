package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/diagnose"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Name is the engine's name in a version.
const Name = "lua"

// Engine compiles and runs Lua. It is safe for concurrent use.
type Engine struct {
	pool     *pool
	watchdog watchdog
	accounts accounts
	patterns hostapi.Patterns
}

// New returns an engine. It needs no closing: while no call runs, it has no
// goroutine, at the latest 100 ms after the last one.
func New() *Engine {
	return &Engine{pool: newPool()}
}

// Name returns "lua".
func (*Engine) Name() string { return Name }

// HeapSpared returns how often the heap has grown too much while calls ran that had made
// too little to be why. None of them was stopped. It grows once a second at most.
func (e *Engine) HeapSpared() uint64 { return e.watchdog.spared.Load() }

// Check is engine.Engine's.
func (*Engine) Check(src engine.Source) error {
	if _, _, err := compileAll(src); err != nil {
		return err
	}
	return nil
}

func compileAll(src engine.Source) (compile.Compiled, map[string]*tenantLibrary, *script.Error) {
	c, err := compile.Compile(compile.ChunkName, src, sandbox())
	if err != nil {
		return c, nil, err
	}
	libraries, err := compileLibraries(src.Libraries)
	return c, libraries, err
}

// Compile is engine.Engine's.
func (e *Engine) Compile(src engine.Source) (engine.Program, error) {
	c, libraries, err := compileAll(src)
	if err != nil {
		return nil, err
	}
	p := &program{
		engine: e, entrypoint: src.Entrypoint, libraries: libraries,
		Compiled: c, constant: c.Wrapped && compile.DefinesOnly(c.Proto), size: compile.Size(c.Proto), decodesConfig: c.UsesConfig,
	}
	for _, l := range libraries {
		p.size += compile.Size(l.Proto)
		p.decodesConfig = p.decodesConfig || l.UsesConfig
	}
	return p, nil
}

// HasGlobal reports whether every script has a global variable of the name.
func HasGlobal(name string) bool { return sandbox().HasGlobal(name) }

// HasMember reports whether the global variable is a library, and whether it has the member.
func HasMember(global, member string) (isLib, has bool) {
	members := values.Members(sandbox().base.RawGetString(global))
	return members != nil, members != nil && members.RawGetString(member) != vm.LNil
}

// NearestGlobal returns the global variable whose name differs least from the name; "" if none is similar.
func NearestGlobal(name string) string { return diagnose.Nearest(name, sandbox().base) }

// NearestMember is NearestGlobal for a member of a library.
func NearestMember(global, member string) string {
	if members := values.Members(sandbox().base.RawGetString(global)); members != nil {
		return diagnose.Nearest(member, members)
	}
	return ""
}

// HasModule reports whether require returns something for the name in every script.
func HasModule(name string) bool { return sandbox().HasModule(name) }

// Requires is engine.Checker's.
func (*Engine) Requires(src engine.Source) ([]engine.Require, error) {
	c, err := compile.Compile(compile.ChunkName, src, sandbox())
	if err != nil {
		return nil, err
	}
	return c.Requires, nil
}
