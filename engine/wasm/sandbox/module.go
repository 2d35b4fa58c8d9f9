package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Source is a module to compile.
type Source struct {
	Module     *instrument.Module
	Imports    []Import
	Initialize string // the function that each instance runs first; it need not exist
	// Setup, if it is not nil, is called for each instance after Initialize. What it does is part of what an instance
	// is reset to.
	Setup     func(c *Call) error
	Functions []string // exports that calls call, by their index; one that does not exist cannot be called
}

// Import is a function that a module may import.
type Import struct {
	Module, Name    string
	Params, Results []ValueType
	// Call gets the parameters in stack and leaves the results there.
	Call func(c *Call, stack []uint64)
}

// Module is a compiled module. It is safe for concurrent use.
type Module struct {
	sandbox  *Sandbox
	source   Source
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	name     string
	pages    uint64 // of memory at the beginning
	size     int
	epoch    time.Time
	closed   atomic.Bool
	base     atomic.Pointer[image] // how memory is in a new instance; nil if none was seen
}

// Compile makes a module ready to run. It runs nothing of it.
func (s *Sandbox) Compile(src Source) (m *Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			m, err = nil, &script.Error{Kind: script.Script, Message: "the module cannot be compiled", Err: fmt.Errorf("panic: %v", r)}
		}
	}()
	m = &Module{sandbox: s, source: src, epoch: time.Now()}
	if err := m.compile(src); err != nil {
		return nil, err
	}
	return m, nil
}

// compile uses what the cache has. If the cache fails, for example because the disk is full, it does without.
func (m *Module) compile(src Source) error {
	ctx := context.Background()
	if m.sandbox.cache != nil {
		dir, done := m.sandbox.cache.open(src.Module.Code)
		if files, err := wazero.NewCompilationCacheWithDir(dir); err == nil {
			err = m.compileWith(ctx, src, runtimeConfig(false).WithCompilationCache(files))
			done(err == nil)
			if err == nil {
				return nil
			}
		}
	}
	return m.compileWith(ctx, src, runtimeConfig(m.sandbox.config.Interpreter))
}

func runtimeConfig(interpreter bool) wazero.RuntimeConfig {
	c := wazero.NewRuntimeConfig()
	if interpreter {
		c = wazero.NewRuntimeConfigInterpreter()
	}
	// One page more than a module may have: see memory.shrink.
	return c.WithMemoryLimitPages(MaxMemory/PageBytes + 1).WithDebugInfoEnabled(false).WithCoreFeatures(api.CoreFeaturesV2)
}

func (m *Module) compileWith(ctx context.Context, src Source, config wazero.RuntimeConfig) error {
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	compiled, err := m.runtime.CompileModule(ctx, src.Module.Code)
	if err == nil {
		m.compiled = compiled
		err = m.link(ctx, src.Imports)
	}
	if err != nil {
		_ = m.runtime.Close(ctx)
		return compileError(err)
	}
	m.name = compiled.Name()
	m.pages = uint64(src.Module.MemoryMin)
	m.size = moduleBytes + codeFactor*len(src.Module.Code)
	meta := *src.Module // its code is not needed any more
	meta.Code = nil
	m.source.Module = &meta
	return nil
}

const (
	moduleBytes = 64 << 10 // of a module without code: host functions, types and names
	codeFactor  = 6        // bytes of machine code and of what wazero keeps to decode it, for one of wasm
)

// refillImport is what metered modules call when gas is below 0: it gets gas, and returns the gas to go on with.
func refillImport() Import {
	return Import{
		Module: instrument.MeterModule, Name: instrument.RefillName, Params: []ValueType{I64}, Results: []ValueType{I64},
		Call: func(c *Call, stack []uint64) { stack[0] = uint64(c.settle(int64(stack[0]))) },
	}
}

// link makes the host functions that the module imports.
func (m *Module) link(ctx context.Context, imports []Import) error {
	wanted := map[[2]string]bool{}
	for _, f := range m.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		wanted[[2]string{module, name}] = true
	}
	byModule := map[string]wazero.HostModuleBuilder{}
	builder := func(module string) wazero.HostModuleBuilder {
		if byModule[module] == nil {
			byModule[module] = m.runtime.NewHostModuleBuilder(module)
		}
		return byModule[module]
	}
	imports = append([]Import{refillImport()}, imports...)
	for _, i := range imports {
		if !wanted[[2]string{i.Module, i.Name}] {
			continue
		}
		call := i.Call
		builder(i.Module).NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			c := callOf(ctx)
			c.entered(mod)
			call(c, stack)
		}), i.Params, i.Results).WithName(i.Name).Export(i.Name)
	}
	for name, b := range byModule {
		linking := ctx
		if name == instrument.MeterModule {
			linking = experimental.WithFunctionListenerFactory(ctx, sampler{})
		}
		if _, err := b.Instantiate(linking); err != nil {
			return err
		}
	}
	return nil
}

// compileError says what wazero finds wrong with a module.
func compileError(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return &script.Error{Kind: script.Script, Message: "the module is not valid WebAssembly: " + clip(text), Err: errors.Unwrap(err)}
}

// Size estimates the bytes that the module and its idle instances hold.
func (m *Module) Size() int { return m.size + m.sandbox.pool.bytesOf(m) }

// Close drops the idle instances. Calls in flight finish; later ones get fresh instances. The code is
// freed when nothing refers to it any more.
func (m *Module) Close() {
	m.closed.Store(true)
	m.sandbox.pool.forget(m)
}

// Check reports whether src compiles, without making machine code or running any of it.
func Check(src Source) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &script.Error{Kind: script.Script, Message: "the module cannot be compiled", Err: fmt.Errorf("panic: %v", r)}
		}
	}()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(true))
	defer func() { _ = r.Close(ctx) }()
	if _, err := r.CompileModule(ctx, src.Module.Code); err != nil {
		return compileError(err)
	}
	return nil
}
