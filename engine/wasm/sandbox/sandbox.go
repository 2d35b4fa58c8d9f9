// Package sandbox runs functions of WebAssembly modules for tenants that can be hostile. It is the only
// owner of wazero. Its callers say what a module may import and what a call does; the sandbox meters,
// bounds and resets.
//
// A module has to be metered before it comes here (see engine/wasm/instrument): it counts its
// instructions down in a global and calls MeterModule.MeterFunction when there are none left. In that function the
// sandbox decides whether the call goes on. So a call ends within one slice of instructions after its
// time is up, without a goroutine that watches it, and without locking.
package sandbox

import (
	"os"
	"runtime"

	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ValueType is the type of a parameter or result of a function.
type ValueType = api.ValueType

// The types.
const (
	I32 = api.ValueTypeI32
	I64 = api.ValueTypeI64
	F32 = api.ValueTypeF32
	F64 = api.ValueTypeF64
)

// PageBytes is the size of a page of linear memory.
const PageBytes = 64 << 10

// MaxMemory is how many bytes of linear memory a module may have at most, whatever the limits.
const MaxMemory = 64 << 20

// Config says how a Sandbox works. The zero Config keeps nothing on disk.
type Config struct {
	// CacheDir is where compiled code is kept for the next start; empty means nowhere. It must belong to
	// this user alone: what is in it is executed.
	CacheDir string
	// CacheBytes bounds what is in CacheDir; 0 means DefaultCacheBytes.
	CacheBytes int64
	// Interpreter executes modules without making machine code, for processes that may have no memory
	// that is executable. It takes some 20 times as long.
	Interpreter bool
	// IdleBytes bounds the memory of the instances that wait for calls; 0 means DefaultIdleBytes.
	IdleBytes int
}

// Defaults of Config.
const (
	DefaultCacheBytes = 256 << 20
	DefaultIdleBytes  = 64 << 20
)

// Sandbox is what modules share: the idle instances, the accounts of tenants and the cache of compiled
// code. It is safe for concurrent use, and has no goroutine.
type Sandbox struct {
	config   Config
	cache    *cache // nil: nothing is kept on disk
	pool     *pool
	accounts accounts
}

// New returns a sandbox. It fails if the directory of the cache cannot be used.
func New(config Config) (*Sandbox, error) {
	if config.CacheBytes == 0 {
		config.CacheBytes = DefaultCacheBytes
	}
	if config.IdleBytes == 0 {
		config.IdleBytes = DefaultIdleBytes
	}
	s := &Sandbox{config: config, pool: newPool(2*runtime.GOMAXPROCS(0), config.IdleBytes)}
	if config.CacheDir != "" && !config.Interpreter {
		if err := os.MkdirAll(config.CacheDir, 0o700); err != nil {
			return nil, script.Errorf(script.Unavailable, "", "the directory for compiled modules cannot be made: %w", err)
		}
		c, err := openCache(config.CacheDir, config.CacheBytes)
		if err != nil {
			return nil, err
		}
		s.cache = c
	}
	return s, nil
}
