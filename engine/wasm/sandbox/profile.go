package sandbox

import (
	"context"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
)

// sampler takes the samples of profiled calls when they ask for instructions, of which they get few at a time. wazero
// shows the stack to listeners alone.
type sampler struct{}

var (
	_ experimental.FunctionListenerFactory = sampler{}
	_ experimental.FunctionListener        = sampler{}
)

// NewFunctionListener is experimental.FunctionListenerFactory's.
func (s sampler) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener { return s }

// Before is experimental.FunctionListener's.
func (sampler) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, stack experimental.StackIterator) {
	c := callOf(ctx)
	if c.Inv.Profile == nil || c.instance.module == nil {
		return
	}
	frames := c.frames[:0]
	for stack.Next() {
		def := stack.Function().Definition()
		if def.ModuleName() == instrument.MeterModule {
			continue
		}
		if len(frames) == engine.MaxProfileDepth-1 {
			frames = append(frames, engine.Frame{Builtin: engine.Deeper})
			break
		}
		frames = append(frames, c.frame(def))
	}
	c.frames = frames
	c.Inv.Profile.Sample(frames, engine.ProfileEvery)
}

// frame names a function by its index in the tenant's module: its names are the tenant's.
func (c *Call) frame(def api.FunctionDefinition) engine.Frame {
	index := int32(def.Index())
	if int(index) > len(c.instance.of.source.Module.Imports) { // the meter's import moved it
		index--
	}
	return engine.Frame{Function: index}
}

// After is experimental.FunctionListener's.
func (sampler) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort is experimental.FunctionListener's.
func (sampler) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// slice is how many instructions the call gets at once.
func (c *Call) slice() int64 {
	if c.Inv.Profile != nil {
		return engine.ProfileEvery
	}
	return slice
}
