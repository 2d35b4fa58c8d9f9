//go:build !no_wasm || !no_rego

package engines

import (
	"path/filepath"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
)

// sandboxOf returns how WebAssembly runs; dir is the folder of its machine code in the cache.
func sandboxOf(cfg Config, dir string) sandbox.Config {
	s := sandbox.Config{Interpreter: cfg.NoMachineCode}
	if cfg.CacheDir != "" && !cfg.NoMachineCode {
		s.CacheDir = filepath.Join(cfg.CacheDir, dir)
	}
	return s
}
