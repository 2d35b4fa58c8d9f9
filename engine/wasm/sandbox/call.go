package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/script"
)

// slice is how many instructions a call executes before it looks at the clock and at its turn: some
// 20 µs of compiled code.
const slice = 20_000

// Call is one call of a tenant. It is the context of the functions that it calls, from which host functions
// get it: that saves a context for each call. It belongs to one goroutine.
type Call struct {
	Inv    *engine.Invocation
	Limits script.Limits
	// State is the caller's, for its host functions.
	State any

	ctx      context.Context
	sandbox  *Sandbox
	instance *instance
	module   api.Module
	gas      api.MutableGlobal
	later    int64 // instructions of the budget besides those in gas
	spent    bool
	started  time.Time
	deadline time.Time
	asked    atomic.Bool
	ask      func() // sets asked; made once
	failure  *script.Error
	stack    [4]uint64
	frames   []engine.Frame // of the last sample

	maxMemory uint64
	account   *account
	counted   int64
	allocated int64
}

// callKey is the key of the Call in contexts made of it.
type callKey struct{}

// callOf returns the call that a host function is called in.
func callOf(ctx context.Context) *Call {
	if c, ok := ctx.(*Call); ok {
		return c
	}
	return ctx.Value(callKey{}).(*Call)
}

// Deadline is context.Context's. The meter keeps the time.
func (*Call) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is context.Context's.
func (*Call) Done() <-chan struct{} { return nil }

// Err is context.Context's.
func (*Call) Err() error { return nil }

// Value is context.Context's.
func (c *Call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return nil
}

// begin makes c ready for a call of inv.
func (c *Call) begin(ctx context.Context, s *Sandbox, inv *engine.Invocation) {
	c.Inv, c.Limits, c.State = inv, inv.Limits.OrDefaults(), nil
	c.ctx, c.sandbox, c.module, c.gas = ctx, s, nil, nil
	c.later, c.spent = int64(min(c.Limits.Instructions, 1<<62)), false
	c.started, c.failure = time.Now(), nil
	c.deadline = c.started.Add(c.Limits.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(c.deadline) {
		c.deadline = d
	}
	c.maxMemory = uint64(max(c.Limits.WasmMemory, 0))
	c.account, c.counted, c.allocated = nil, 0, 0
	if c.asked.Store(false); c.ask == nil {
		c.ask = func() { c.asked.Store(true) }
	}
	if inv.Turn != nil {
		inv.Turn.Bind(c.ask)
	}
}

// stopped is what a host function panics with to end a call; Call.failure says why.
type stopped struct{}

func (stopped) Error() string { return "the call was stopped" }

// Fail ends the call with err. It is for host functions, and does not return.
func (c *Call) Fail(err *script.Error) {
	if c.failure == nil {
		c.failure = err
	}
	panic(stopped{})
}

// Failf is Fail with an error of kind Script.
func (c *Call) Failf(format string, args ...any) {
	c.Fail(script.Errorf(script.Script, "", format, args...))
}

// entered notes which instance a host function was called by: a start function calls before the instance is known.
func (c *Call) entered(mod api.Module) {
	if c.module == nil {
		c.module = mod
		c.gas = mutable(mod, instrument.GasName)
	}
}

func mutable(mod api.Module, name string) api.MutableGlobal {
	g, _ := mod.ExportedGlobal(name).(api.MutableGlobal)
	return g
}

// settle gives instructions for those that are left, a negative number if more were used than there were. It
// ends the call if there are none. It gives stack, too, if there is none left.
func (c *Call) settle(left int64) int64 {
	c.instance.deepen()
	if err := c.look(); err != nil {
		c.gas.Set(uint64(left))
		c.Fail(err)
	}
	n := min(c.later, max(c.slice()-left, 0))
	left, c.later = left+n, c.later-n
	if left < 0 {
		c.Fail(c.exhausted())
	}
	return left
}

// exhausted is the error of a call that has no instructions left.
func (c *Call) exhausted() *script.Error {
	c.spent, c.later = true, 0
	return script.Errorf(script.Limit, "", "the call used up its %d instructions", c.Limits.Instructions)
}

// prepay charges before there is an instance.
func (c *Call) prepay(n int) error {
	if c.later -= int64(n); c.later < 0 {
		return c.exhausted()
	}
	return nil
}

func (c *Call) left() int64 { return int64(c.gas.Get()) }

// look yields the call's turn if it is asked for, and says whether its time is up.
func (c *Call) look() *script.Error {
	if turn := c.Inv.Turn; turn != nil {
		turn.Breathe()
		if c.asked.Swap(false) {
			turn.Yield()
		}
	}
	if err := c.ctx.Err(); err != nil && errors.Is(err, context.Canceled) {
		return script.Errorf(script.Timeout, "", "the caller gave up before the call ended")
	}
	if !time.Now().Before(c.deadline) {
		return script.Errorf(script.Timeout, "", "the call ran longer than %v", c.Limits.Timeout)
	}
	return nil
}

// bytesPerInstruction is how many bytes a host function reads or writes for one instruction.
const bytesPerInstruction = 64

// Charge takes n instructions from the budget.
func (c *Call) Charge(n int) {
	left := c.left() - int64(n)
	if left < 0 {
		left = c.settle(left)
	}
	c.gas.Set(uint64(left))
}

// ChargeBytes charges for n bytes that were read or written.
func (c *Call) ChargeBytes(n int) { c.Charge(1 + n/bytesPerInstruction) }

// Pay and Make make c a hostapi.Meter. They end the call rather than to report that it may not go on.
func (c *Call) Pay(instructions int) bool { c.Charge(instructions); return true }

// Make counts bytes that are made outside of the module's memory.
func (c *Call) Make(bytes int) bool { c.allocated += int64(bytes); return true }

// used returns what the call has used so far.
func (c *Call) used() engine.Used {
	granted := int64(min(c.Limits.Instructions, 1<<62))
	left := c.later
	if c.gas != nil && !c.spent {
		left += c.left()
	}
	return engine.Used{Instructions: uint64(min(max(granted-left, 0), granted)), Allocated: uint64(max(c.allocated, 0))}
}

// Epoch returns when the module was compiled, from when a monotonic clock may count.
func (c *Call) Epoch() time.Time { return c.instance.of.epoch }

// Outside says that a host function answers with what is of this call or changes. An instance whose Initialize has
// asked for that serves one call alone.
func (c *Call) Outside() { c.instance.outside = true }

// Mark returns what SetMark has set, 0 if nothing has. It is part of what an instance is reset to.
func (c *Call) Mark() uint64 { return c.instance.mark }

// SetMark keeps a number with the instance, for host functions that Initialize calls to make a setting.
func (c *Call) SetMark(mark uint64) { c.instance.mark = mark }

// Read returns n bytes of memory, which stay valid until the module runs again. It ends the call if they are not all there.
func (c *Call) Read(address, n uint32) []byte {
	b, ok := c.module.Memory().Read(address, n)
	if !ok {
		c.Failf("the module passed %d bytes at address %d, which are not all in its memory of %d bytes", n, address, c.module.Memory().Size())
	}
	return b
}

// Write writes to memory. It ends the call if there is no room.
func (c *Call) Write(address uint32, b []byte) {
	if len(b) == 0 {
		return
	}
	mem := c.module.Memory()
	if uint64(len(b)) > uint64(mem.Size()) || !mem.Write(address, b) {
		c.Failf("the module passed a buffer of %d bytes at address %d, which are not all in its memory of %d bytes", len(b), address, mem.Size())
	}
	c.instance.touch(address, len(b))
}

// Stack returns room for parameters and results, which is used again by each call.
func (c *Call) Stack() []uint64 { return c.stack[:] }

// Invoke calls the function with the index in Source.Functions: its parameters are in stack, and its results afterwards.
func (c *Call) Invoke(function int, stack []uint64) error {
	fn := c.instance.function(function)
	if fn == nil {
		return script.Errorf(script.Script, "", "the module exports no function %q", c.instance.of.source.Functions[function])
	}
	return c.ended(fn.CallWithStack(c, stack))
}

// Has reports whether there is a function with the index in Source.Functions.
func (c *Call) Has(function int) bool { return c.instance.function(function) != nil }
