package rego

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config is how an engine runs policies.
type Config struct {
	// Isolated says that each tenant has a process of its own. Policies that have to be interpreted run only then.
	Isolated bool
}

// Engine compiles policies. It implements engine.Engine.
type Engine struct{ config Config }

// New returns an engine.
func New(config Config) *Engine { return &Engine{config: config} }

// Name is engine.Checker's.
func (*Engine) Name() string { return script.EngineRego }

// Check is engine.Checker's.
func (*Engine) Check(src engine.Source) error {
	if _, err := compile(src); err != nil {
		return err
	}
	return nil
}

// Compile is engine.Engine's.
func (e *Engine) Compile(src engine.Source) (engine.Program, error) {
	p, err := compile(src)
	if err != nil {
		return nil, err
	}
	return newProgram(p, src), nil
}
