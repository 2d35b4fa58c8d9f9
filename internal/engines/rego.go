//go:build !no_rego

package engines

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
)

var regoEngines = []optional{{
	engine: func(cfg Config) (engine.Engine, error) {
		return rego.New(rego.Config{Isolated: cfg.Isolated, Sandbox: sandboxOf(cfg, "rego")})
	},
	check: rego.Checker{},
}}
