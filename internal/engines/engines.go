// Package engines assembles the engines that a binary has: one for each runtime of scripts. The build tags no_wasm and
// no_rego leave engines out; an agent without an engine keeps the versions before, and says why.
package engines

import (
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
	// Isolated: the process has a tenant of its own, and no memory in it becomes executable.
	Isolated bool
}

// Set is the engines of a process.
type Set struct {
	Lua  *lua.Engine
	rest []engine.Engine
}

// New returns the engines.
func New(cfg Config) *Set {
	s := &Set{Lua: lua.New()}
	for _, add := range optional {
		s.rest = append(s.rest, add(cfg))
	}
	return s
}

// optional are the constructors of the engines that build tags leave out. Their files fill it.
var optional = slices.Concat(wasmEngines, regoEngines)

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

// Of returns the engine with the name, which a manifest or a version says.
func (s *Set) Of(name string) (engine.Engine, error) {
	if e, ok := s.ByName()[name]; ok {
		return e, nil
	}
	return nil, script.Errorf(script.Invalid, "runtime", "this binary has no engine for %.80q, only for %s", name,
		strings.Join(slices.Sorted(maps.Keys(s.ByName())), ", "))
}

// Checkers returns what a control plane needs of the engines, by their names. They run nothing.
func Checkers() map[string]engine.Checker {
	named := map[string]engine.Checker{}
	for name, e := range New(Config{Isolated: true}).ByName() {
		named[name] = e
	}
	return named
}
