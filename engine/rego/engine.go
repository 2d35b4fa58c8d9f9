package rego

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config is how an engine runs policies.
type Config struct {
	// Isolated says that each tenant has a process of its own. Policies that have to be interpreted run only then.
	Isolated bool
	// Sandbox is how policies run that are compiled to WebAssembly.
	Sandbox sandbox.Config
}

// Engine compiles policies and runs them. It implements engine.Engine.
type Engine struct {
	config  Config
	sandbox *sandbox.Sandbox
}

var _ engine.Tester = (*Engine)(nil)

// New returns an engine. It fails if the directory of the sandbox's cache cannot be used.
func New(config Config) (*Engine, error) {
	s, err := sandbox.New(config.Sandbox)
	if err != nil {
		return nil, err
	}
	return &Engine{config: config, sandbox: s}, nil
}

// Name is engine.Checker's.
func (*Engine) Name() string { return script.EngineRego }

// Check is engine.Checker's.
func (*Engine) Check(src engine.Source) error { return Checker{}.Check(src) }

// Compile is engine.Engine's. A policy that has to be interpreted is an error unless tenants have processes of their own.
func (e *Engine) Compile(src engine.Source) (engine.Program, error) {
	p, err := compile(src)
	if err != nil {
		return nil, err
	}
	plan, err := p.plan(src.Runtime.Rego)
	switch {
	case err != nil:
		return nil, err
	case plan.reason == "":
		w, err := newWasmProgram(e.sandbox, p, plan, src)
		if err != nil {
			return nil, err
		}
		return w, nil
	case !e.config.Isolated:
		return nil, script.Errorf(script.Script, "", "this policy has to be interpreted, because %s: set isolation: process for its tenant, or change the policy so that it compiles to WebAssembly", plan.reason)
	}
	return newProgram(p, src), nil
}

// Checker says whether policies compile. It runs nothing, and accepts those that have to be interpreted.
type Checker struct{}

// Name is engine.Checker's.
func (Checker) Name() string { return script.EngineRego }

// Check is engine.Checker's.
func (Checker) Check(src engine.Source) error {
	_, _, err := Target(src)
	return err
}

// Target says how the source runs, "wasm" or "interpreted", and why it does not run as WebAssembly. Its errors are those of
// Check.
func Target(src engine.Source) (target, reason string, err error) {
	p, compileErr := compile(src)
	if compileErr != nil {
		return "", "", compileErr
	}
	plan, compileErr := p.plan(src.Runtime.Rego)
	switch {
	case compileErr != nil:
		return "", "", compileErr
	case plan.reason != "":
		return script.RegoTargetInterpreted, plan.reason, nil
	}
	return script.RegoTargetWasm, "", nil
}
