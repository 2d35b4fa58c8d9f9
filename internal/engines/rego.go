//go:build !no_rego

package engines

import "github.com/scriptorium-dev/scriptorium/engine"

var regoEngines []func(Config) engine.Engine
