// Package engines assembles the engines that a binary has: one for each runtime of scripts. The build tags no_wasm and
// no_rego leave engines out; an agent without an engine keeps the versions before, and says why.
package engines

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config says where the engines run.
type Config struct {
	// CacheDir keeps machine code between restarts; "" keeps it in memory.
	CacheDir string
	// Isolated: nobody is slowed down by what a script takes in this process, beside the script's own tenant.
	Isolated bool
	// NoMachineCode: the process cannot make memory executable.
	NoMachineCode bool
	// Without names engines that are left out, as the build tags leave them out. Lua always stays.
	Without []string
}

// Set is the engines of a process.
type Set struct {
	Lua  *lua.Engine
	rest []engine.Engine
}

// optional is an engine that a build tag leaves out.
type optional struct {
	engine func(Config) (engine.Engine, error)
	check  engine.Checker
}

// New returns the engines. It fails if the folder for machine code cannot be used.
func New(cfg Config) (*Set, error) {
	s := &Set{Lua: lua.New()}
	for _, o := range slices.Concat(wasmEngines, regoEngines) {
		if slices.Contains(cfg.Without, o.check.Name()) {
			continue
		}
		e, err := o.engine(cfg)
		if err != nil {
			return nil, err
		}
		s.rest = append(s.rest, e)
	}
	return s, nil
}

// All returns the engines, Lua first.
func (s *Set) All() []engine.Engine { return append([]engine.Engine{s.Lua}, s.rest...) }

// ByName returns the engines by their names.
func (s *Set) ByName() map[string]engine.Engine {
	named := map[string]engine.Engine{}
	for _, e := range s.All() {
		named[e.Name()] = e
	}
	return named
}

// Of returns the engine with the name, which a manifest or a version says. One that says none is in Lua.
func (s *Set) Of(name string) (engine.Engine, error) {
	name = cmp.Or(name, script.EngineLua)
	if e, ok := s.ByName()[name]; ok {
		return e, nil
	}
	return nil, script.Errorf(script.Invalid, "runtime", "this binary has no engine for %.80q, only for %s", name,
		strings.Join(slices.Sorted(maps.Keys(s.ByName())), ", "))
}

// Offline returns the engines of a command that runs scripts for the user who starts it.
func Offline() *Set {
	s, err := New(Config{Isolated: true})
	if err != nil {
		panic(err) // without a folder nothing fails
	}
	return s
}

// Checkers returns what a control plane needs of the engines, by their names. They run nothing.
func Checkers() map[string]engine.Checker {
	named := map[string]engine.Checker{script.EngineLua: lua.New()}
	for _, o := range slices.Concat(wasmEngines, regoEngines) {
		named[o.check.Name()] = o.check
	}
	return named
}
