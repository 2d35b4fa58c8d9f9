//go:build !no_wasm

package engines

import "github.com/scriptorium-dev/scriptorium/engine"

var wasmEngines []func(Config) engine.Engine
