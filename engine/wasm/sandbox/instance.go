package sandbox

import (
	"container/list"
	"context"
	"crypto/rand"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// instance is one of a module. It serves one call at a time, of one tenant.
type instance struct {
	of        *Module
	module    api.Module // nil until prepare
	memory    memory
	functions []api.Function
	gas       api.MutableGlobal
	stack     api.MutableGlobal
	globals   []api.MutableGlobal
	writes    [2]api.MutableGlobal // which blocks of memory were written to; nil if nothing tells
	image     *image               // what it is reset to; nil if it is for one call
	recycle   bool                 // memory is reset to the module's base when the call is over, and can serve the next one
	outside   bool                 // Initialize has used what is of its call
	deep      bool                 // the call has had all of the stack
	mark      uint64               // see Call.Mark
	call      Call

	user   user // whose it is
	joined bool // the pool knows it

	// While it is in the pool:
	place     *list.Element
	idleBytes int
}

// bytes estimates what the instance holds.
func (i *instance) bytes() int {
	n := instanceBytes + cap(i.memory.buffer)
	for _, f := range i.functions {
		if f != nil {
			n += functionBytes
		}
	}
	if i.image != nil {
		n += i.image.bytes / 2 // others share it
	}
	return n
}

const (
	instanceBytes = 8 << 10
	functionBytes = 40 << 10 // wazero keeps a stack for each function that is called from outside
	// shallow is how much stack a call begins with, as the frames are estimated. An instance whose call needs more
	// does not keep its stacks.
	shallow = 8 << 10
)

// take returns an instance for a call of inv. Without reuse it is a new one in any case; pooled says that the memory of
// another may be used for it, which is as if it were new.
func (m *Module) take(inv *engine.Invocation, reuse, pooled bool) *instance {
	key := user{m, inv.Tenant, inv.Limits.OrDefaults().WasmMemory, reuse}
	if pooled {
		if i := m.sandbox.pool.take(key); i != nil {
			return i
		}
	}
	i := &instance{of: m, user: key, recycle: pooled && !reuse && !m.source.Module.HasStart}
	i.call.instance = i
	return i
}

// prepare makes what the call needs of a new instance, and charges its memory.
func (i *instance) prepare(reuse bool) error {
	c := &i.call
	if i.module != nil {
		c.attach(i)
		i.makeShallow()
		if err := c.grow(0, i.memory.length()); err != nil {
			return err
		}
		return nil
	}
	if err := i.instantiate(); err != nil {
		return err
	}
	if !reuse && i.recycle {
		i.base()
	}
	if reuse && !i.holdsReferences() {
		if img := i.of.sandbox.pool.image(i.user); img != nil && i.restore(img) {
			i.image = img
			i.of.sandbox.pool.join(i)
			return nil
		}
	}
	if init := i.module.ExportedFunction(i.of.source.Initialize); init != nil && i.of.source.Initialize != "" {
		if err := c.ended(init.CallWithStack(c, nil)); err != nil {
			return err
		}
	}
	if setup := i.of.source.Setup; setup != nil {
		if err := setup(c); err != nil {
			return err
		}
	}
	if reuse && !i.outside {
		i.image = i.capture()
		i.of.sandbox.pool.join(i)
	}
	return nil
}

// holdsReferences reports whether a global can hold a function. One of another instance would run in that.
func (i *instance) holdsReferences() bool {
	return slices.ContainsFunc(i.globals, func(g api.MutableGlobal) bool {
		return g.Type() != I32 && g.Type() != I64 && g.Type() != F32 && g.Type() != F64
	})
}

func (i *instance) instantiate() error {
	c, m := &i.call, i.of
	if m.pages*PageBytes > c.maxMemory {
		return script.Errorf(script.Limit, "limits.wasm.memory", "the module begins with %d KiB of memory, and may have %d: raise limits.wasm.memory", m.pages*PageBytes>>10, c.maxMemory>>10)
	}
	if err := c.prepay(m.source.Module.Segments * segmentCost); err != nil {
		return err
	}
	i.memory.call = c
	ctx := experimental.WithMemoryAllocator(context.Context(c), &i.memory)
	mod, err := m.runtime.InstantiateModule(ctx, m.compiled, moduleConfig)
	if err := c.ended(err); err != nil {
		return err
	}
	i.module = mod
	if i.functions == nil {
		i.functions = make([]api.Function, len(m.source.Functions))
	}
	for _, name := range m.source.Module.MutableGlobals {
		i.globals = append(i.globals, mutable(mod, name))
	}
	i.gas, i.stack = mutable(mod, instrument.GasName), mutable(mod, instrument.StackName)
	for n, name := range instrument.WritesNames() {
		i.writes[n] = mutable(mod, name)
	}
	if c.module == nil { // else a start function has got its instructions by refill
		c.attach(i)
	}
	i.makeShallow() // a start function runs on a stack of its own
	c.Charge(int(max(m.pages, freePages)-freePages) * pageCost)
	return nil
}

// A page of memory that a module begins with costs as many instructions as one that it grows by, but for the first 2 MiB.
const (
	freePages = 32
	pageCost  = 1 << 10
	// segmentCost is what a segment of data or an element of a table costs, which may take 100 ns.
	segmentCost = 2
)

// moduleConfig is the same for all: no name, no start functions, no files. Nobody reads the source of random numbers: the
// default one takes 10 µs to make.
var moduleConfig = wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(rand.Reader)

// attach gives the call the instance, and the instance the call's first instructions.
func (c *Call) attach(i *instance) {
	c.module, c.gas = i.module, i.gas
	n := min(c.later, c.slice())
	c.later -= n
	c.gas.Set(uint64(n))
}

// makeShallow gives a call the first part of the stack.
func (i *instance) makeShallow() { i.stack.Set(uint64(min(shallow, i.of.source.Module.Stack))) }

// deepen gives a call the rest of the stack when it first needs that.
func (i *instance) deepen() {
	if i.stack == nil || i.deep || int32(i.stack.Get()) >= 0 {
		return
	}
	i.deep = true
	i.stack.Set(uint64(uint32(int32(i.stack.Get()) + max(i.of.source.Module.Stack-shallow, 0))))
}

// function returns an exported function, nil if there is none.
func (i *instance) function(n int) api.Function {
	if i.functions[n] == nil {
		i.functions[n] = i.module.ExportedFunction(i.of.source.Functions[n])
	}
	return i.functions[n]
}

// drop frees what the instance holds.
func (i *instance) drop() {
	i.of.sandbox.pool.leave(i)
	i.close()
	i.memory.buffer = nil
}

func (i *instance) close() {
	if i.module != nil {
		_ = i.module.Close(context.Background())
		i.module = nil
	}
}

// end makes the call hold nothing of what is over.
func (c *Call) end() {
	c.Inv, c.State, c.ctx, c.failure = nil, nil, nil, nil
}

// give resets the instance and keeps it for the tenant's next call. It reports whether it did.
func (m *Module) give(i *instance) bool {
	switch {
	case m.closed.Load():
		return false
	case i.recycle:
		base := m.base.Load()
		if base == nil {
			return false
		}
		i.clean(base)
		i.close()
		i.memory.buffer = i.memory.buffer[:0]
		clear(i.functions)
		i.globals, i.outside, i.mark = i.globals[:0], false, 0
	case !i.reset():
		return false
	}
	if i.deep {
		clear(i.functions)
		i.deep = false
	}
	return m.sandbox.pool.put(i)
}

// base notes how memory is in a new instance, before anything has run: zeros and the data of the module.
func (i *instance) base() {
	if i.of.base.Load() == nil {
		img := i.capture()
		img.globals = nil
		i.of.base.CompareAndSwap(nil, img)
	}
	if !i.joined {
		i.of.sandbox.pool.join(i)
	}
}
