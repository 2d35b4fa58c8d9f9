package lua

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/script"
)

// bytesPerInstruction is how many bytes a builtin may read or write for one
// instruction of the budget.
const bytesPerInstruction = hostapi.BytesPerInstruction

// stopReason says why a call was stopped before its end.
type stopReason uint32

const (
	running        stopReason = iota
	outOfBudget               // the instructions are used up
	outOfTime                 // the wall clock ran out
	cancelled                 // the caller's context ended
	outOfMemory               // the process's heap grew too much while the call ran
	outOfAllowance            // the call allocated too much
	outOfShare                // the calls of its tenant did, together
	faulted                   // gopher-lua panicked; the state cannot be trusted

	// asked is no reason to stop: the call is to yield its turn. It takes the place of
	// running until it has.
	asked
)

// meter counts down a call's instructions. It is the context.Context of the
// call's state: gopher-lua asks it for Done before each instruction, and a
// closed channel there stops the script. Once spent it stays spent, so a script
// that catches the error meets it again at its next instruction.
//
// All of it belongs to the goroutine that runs the call, save stop, which the
// watchdog sets and whoever gives turns, and the fields that the watchdog guards.
type meter struct {
	left    int64 // instructions until the call breathes
	unspent int64 // instructions that exhaust took away
	later   int64 // instructions of the budget after that
	memory  int64 // bytes that may be allocated until its tenant's account is looked at; see memory.go
	unused  int64 // bytes that may be allocated after that
	stop    atomic.Uint32
	reason  stopReason
	limits  script.Limits
	call    *call // that it is for
	turn    engine.Turn

	started time.Time
	random  *rand.Rand // set by math.randomseed, for this call alone
	scratch []byte     // in which short strings are put together

	sampling *sampling // nil unless the call is profiled

	account atomic.Pointer[account] // nil as long as there is little to count
	counted int64                   // bytes of it that are this call's

	// Guarded by watchdog.mu while armed.
	ctx      context.Context
	deadline time.Time
	slot     int
	heapBase uint64 // heap when the watchdog first saw the call; 0 before
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// begin makes m ready for a new call.
func (m *meter) begin(limits script.Limits) {
	m.limits = limits
	m.left, m.later, m.unspent = 0, int64(min(limits.Instructions, 1<<62)), 0
	m.refill()
	m.memory, m.unused = 0, m.allowance()
	m.reserve()
	m.reason = running
	m.stop.Store(uint32(running))
	m.random = nil
	m.started = time.Now()
}

// Done is called before every instruction: keep it small.
func (m *meter) Done() <-chan struct{} {
	if m.left--; m.left >= 0 && m.stop.Load() == uint32(running) {
		return nil
	}
	if m.goesOn() {
		return nil
	}
	return closedChannel
}

// breath is how many instructions a call executes before it lets other threads have
// the processor for a moment: some 0.1 ms of a plain loop.
const breath = 5_000

// refill makes some of what is left of the budget what may be used now.
func (m *meter) refill() {
	n := min(m.later, max(breath, -m.left))
	m.left += n
	m.later -= n
}

// budget returns how many instructions the call may still execute.
func (m *meter) budget() int64 { return m.left + m.later }

// exhaust leaves nothing of the budget.
func (m *meter) exhaust() {
	if m.left >= 0 {
		m.unspent = m.budget()
	}
	m.left, m.later = -1, 0
}

// used returns what the call has used so far.
func (m *meter) used() engine.Used {
	granted := int64(min(m.limits.Instructions, 1<<62))
	left := max(m.budget(), 0) + m.unspent
	return engine.Used{Instructions: uint64(max(granted-left, 0)), Allocated: uint64(max(m.allowance()-max(m.allocatable(), 0), 0))}
}

// goesOn yields the call's turn if it is asked for, and reports whether the call may
// go on; if not, it settles why.
func (m *meter) goesOn() bool {
	if m.left < 0 && m.later > 0 {
		if m.sampling != nil {
			m.sample()
		} else {
			m.refill()
		}
		if m.turn != nil {
			m.turn.Breathe()
		}
	}
	if m.left >= 0 && m.stop.CompareAndSwap(uint32(asked), uint32(running)) && m.turn != nil {
		m.turn.Yield()
		// The clock did not stop meanwhile, and the watchdog may not have looked yet.
		switch {
		case m.ctx.Err() == context.Canceled:
			m.halt(cancelled)
		case !time.Now().Before(m.deadline):
			m.halt(outOfTime)
		}
	}
	// Asked again meanwhile, it yields at the next instruction.
	if now := stopReason(m.stop.Load()); m.left >= 0 && (now == running || now == asked) {
		return true
	}
	m.spend()
	return false
}

// ask asks the call to yield. It may be called from any goroutine, also when the call
// is over.
func (m *meter) ask() { m.stop.CompareAndSwap(uint32(running), uint32(asked)) }

// halt stops the call, for the reason if there is none yet. It may be called from any
// goroutine.
func (m *meter) halt(why stopReason) {
	for {
		now := m.stop.Load()
		if now != uint32(running) && now != uint32(asked) || m.stop.CompareAndSwap(now, uint32(why)) {
			return
		}
	}
}

// spend settles why the call is stopped; the first reason counts.
func (m *meter) spend() {
	if m.reason == running {
		m.reason = stopReason(m.stop.Load())
		if m.reason == running || m.reason == asked {
			m.reason = outOfBudget
		}
	}
	m.exhaust()
}

// Err returns why the call was stopped, or nil while it may run.
func (m *meter) Err() error {
	if m.reason == running {
		return nil
	}
	return m.stopError()
}

// Deadline is part of context.Context; the watchdog keeps the time.
func (*meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is part of context.Context.
func (*meter) Value(any) any { return nil }

func (m *meter) stopError() *script.Error {
	switch m.reason {
	case outOfTime:
		return script.Errorf(script.Timeout, "", "the call ran longer than %v", m.limits.Timeout)
	case cancelled:
		return script.Errorf(script.Timeout, "", "the caller gave up before the call ended")
	case outOfMemory:
		return script.Errorf(script.Limit, "", "the call was stopped because memory ran short while it ran")
	case outOfAllowance:
		return script.Errorf(script.Limit, "", "the call made more than %d KiB of strings, tables and functions", m.allowance()>>10)
	case outOfShare:
		return script.Errorf(script.Limit, "tenant.memory", "the calls of the tenant that run have made more than %d MiB together: its setting memory bounds them", m.call.inv.Memory>>20)
	case faulted:
		return script.Errorf(script.Internal, "", "the script met a fault of the engine and was stopped")
	default:
		return script.Errorf(script.Limit, "", "the call used up its %d instructions", m.limits.Instructions)
	}
}

// pay takes n instructions from the budget, yields the call's turn if it is asked for,
// and reports whether the call may go on.
func (m *meter) pay(n int) bool {
	m.left -= int64(n)
	return m.left >= 0 && m.stop.Load() == uint32(running) || m.goesOn()
}

// Pay is pay, for hostapi.
func (m *meter) Pay(n int) bool { return m.pay(n) }

// Make is make, for hostapi, and reports whether the call may go on.
func (m *meter) Make(n int) bool {
	m.made(n)
	return m.left >= 0 || m.pay(0)
}

// charge is pay, and stops the script if it may not go on.
func (m *meter) charge(l *glua.LState, n int) {
	if !m.pay(n) {
		l.RaiseError("%s", m.stopError().Message)
	}
}

// chargeBytes charges for n bytes read or written.
func (m *meter) chargeBytes(l *glua.LState, n int) {
	m.charge(l, n/bytesPerInstruction)
}

// capString refuses a string of n bytes that is over the limit.
func (m *meter) capString(l *glua.LState, n int) {
	if n > m.limits.StringBytes {
		raiseLimit(l, "a string of %d bytes is over the limit of %d", n, m.limits.StringBytes)
	}
}

// meterOf returns the meter of the call that l runs.
func meterOf(l *glua.LState) *meter { return l.Context().(*meter) }

// callOf returns the call that l runs.
func callOf(l *glua.LState) *call { return meterOf(l).call }
