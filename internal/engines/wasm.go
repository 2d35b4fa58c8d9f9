//go:build !no_wasm

package engines

import (
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
)

var wasmEngines = []optional{{
	engine: func(cfg Config) (engine.Engine, error) { return wasm.New(sandboxOf(cfg, "wasm")) },
	check:  wasm.Checker{},
}}
