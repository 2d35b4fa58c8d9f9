// Package wasm runs WebAssembly modules as scripts. A module exports its memory, scriptorium_alloc, and the function that
// is called: it gets the address and the length of the argument, JSON that the engine has written where
// scriptorium_alloc said, and returns those of the result, as address << 32 | length. It may import functions of the
// module "scriptorium", which are in host.go, and preview 1 of WASI without files, sockets and sleep.
//
// Each call has an instance of its own: _initialize runs in it under the limits of the call. With
// script.WasmOptions.Reuse, instances are kept, for one tenant each, and after each call memory and globals are made what
// they were after _initialize. That is no default because of what _initialize may have drawn: Go and others seed
// their random numbers there, which then are the same in all calls. An instance is not kept if its call failed, if
// _initialize has asked the host for the config, for values or counters, or if the module can change its tables.
//
// A module that imports http_handler, or exports handle_request and no scriptorium_alloc, keeps to the handler ABI of http-wasm
// instead: see engine/wasm/httpwasm.
//
// The package is the contracts alone. engine/wasm/instrument meters modules, and engine/wasm/sandbox runs them.
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
	guest, http, err := inspect(src)
	if err != nil {
		return nil, err
	}
	m, err := e.sandbox.Compile(guest)
	if err != nil {
		return nil, err
	}
	p := &program{module: m, reuse: src.Runtime.Wasm.Reuse, onResponse: http || guest.Functions[onResponse] != ""}
	if p.answer = p.handle; http {
		p.answer = exchange
	}
	p.body = p.call
	return p, nil
}

// Checker says whether modules keep to the contract. It makes no machine code.
type Checker struct{}

// Name returns "wasm".
func (Checker) Name() string { return Name }

// Check is engine.Checker's.
func (Checker) Check(src engine.Source) error {
	guest, _, err := inspect(src)
	if err != nil {
		return err
	}
	return sandbox.Check(guest)
}
