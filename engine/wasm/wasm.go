// Package wasm runs WebAssembly modules as scripts. docs/wasm.md describes the contract: what a module exports and may
// import, and how argument and result pass through its memory.
//
// The package is the contract alone. Instructions are metered by engine/wasm/instrument, and engine/wasm/sandbox runs
// what comes of it.
package wasm

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Name is the engine's name in a version.
const Name = script.EngineWasm

// Config says how an Engine works; see sandbox.Config. The zero Config keeps nothing on disk.
type Config = sandbox.Config

// Engine compiles and runs WebAssembly. It is safe for concurrent use, and has no goroutine.
type Engine struct{ sandbox *sandbox.Sandbox }

// New returns an engine. It fails if the directory of the cache cannot be used.
func New(config Config) (*Engine, error) {
	s, err := sandbox.New(config)
	if err != nil {
		return nil, err
	}
	return &Engine{sandbox: s}, nil
}

// Name returns "wasm".
func (*Engine) Name() string { return Name }

// Check is engine.Checker's.
func (*Engine) Check(src engine.Source) error { return Checker{}.Check(src) }

// Compile is engine.Engine's.
func (e *Engine) Compile(src engine.Source) (engine.Program, error) {
	guest, err := inspect(src)
	if err != nil {
		return nil, err
	}
	m, err := e.sandbox.Compile(guest)
	if err != nil {
		return nil, err
	}
	p := &program{module: m, entrypoint: src.Entrypoint, onResponse: guest.Functions[onResponse] != "", reuse: src.Runtime.Wasm.Reuse}
	p.body = p.call
	return p, nil
}

// Checker says whether modules keep to the contract. It makes no machine code.
type Checker struct{}

// Name returns "wasm".
func (Checker) Name() string { return Name }

// Check is engine.Checker's.
func (Checker) Check(src engine.Source) error {
	guest, err := inspect(src)
	if err != nil {
		return err
	}
	return sandbox.Check(guest)
}
