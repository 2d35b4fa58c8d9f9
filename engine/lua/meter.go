package lua

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

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
	faulted                   // Go panicked; the state cannot be trusted

	// asked is no reason to stop: the call is to yield its turn. It takes the place of
	// running until it has.
	asked
)

// meter bounds a call. Once spent it stays spent, so a script that catches the error meets it
// again at its next instruction.
//
// All of it belongs to the goroutine that runs the call, save Stop, which the watchdog sets and
// whoever gives turns, and the fields that the watchdog guards. Meter.Left are the instructions
// until the call breathes, and Meter.Memory the bytes until its tenant's account is looked at.
type meter struct {
	vm.Meter
	unspent int64 // instructions that exhaust took away
	later   int64 // instructions of the budget after that
	unused  int64 // bytes that may be allocated after that
	reason  stopReason
	limits  script.Limits
	call    *call // that it is for
	turn    engine.Turn

	started time.Time

	sampling *sampling // nil unless the call is profiled

	account atomic.Pointer[account] // nil as long as there is little to count
	counted int64                   // bytes of it that are this call's

	// Guarded by watchdog.mu while armed.
	ctx      context.Context
	deadline time.Time
	slot     int
	heapBase uint64 // heap when the watchdog first saw the call; 0 before
}

// begin makes m ready for a new call.
func (m *meter) begin(limits script.Limits) {
	m.limits = limits
	m.Left, m.later, m.unspent = 0, int64(min(limits.Instructions, 1<<62)), 0
	m.refill()
	m.Memory, m.unused = 0, m.allowance()
	m.reserve()
	m.reason = running
	m.Stop.Store(uint32(running))
	m.started = time.Now()
}

// breath is how many instructions a call executes before it lets other threads have
// the processor for a moment: some 0.1 ms of a plain loop.
const breath = 5_000

// refill makes some of what is left of the budget what may be used now.
func (m *meter) refill() {
	n := min(m.later, max(breath, -m.Left))
	m.Left += n
	m.later -= n
}

// budget returns how many instructions the call may still execute.
func (m *meter) budget() int64 { return m.Left + m.later }

// exhaust leaves nothing of the budget.
func (m *meter) exhaust() {
	if m.Left >= 0 {
		m.unspent = m.budget()
	}
	m.Left, m.later = -1, 0
}

// used returns what the call has used so far.
func (m *meter) used() engine.Used {
	granted := int64(min(m.limits.Instructions, 1<<62))
	left := max(m.budget(), 0) + m.unspent
	return engine.Used{Instructions: uint64(max(granted-left, 0)), Allocated: uint64(max(m.allowance()-max(m.allocatable(), 0), 0))}
}

// GoesOn yields the call's turn if it is asked for, and reports whether the call may
// go on; if not, it settles why.
func (m *meter) GoesOn() bool {
	if m.Left < 0 && m.later > 0 {
		if m.sampling != nil {
			m.sample()
		} else {
			m.refill()
		}
		if m.turn != nil {
			m.turn.Breathe()
		}
	}
	if m.Left >= 0 && m.Stop.CompareAndSwap(uint32(asked), uint32(running)) && m.turn != nil {
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
	if now := stopReason(m.Stop.Load()); m.Left >= 0 && (now == running || now == asked) {
		return true
	}
	m.spend()
	return false
}

// ask asks the call to yield. It may be called from any goroutine, also when the call
// is over.
func (m *meter) ask() { m.Stop.CompareAndSwap(uint32(running), uint32(asked)) }

// halt stops the call, for the reason if there is none yet. It may be called from any
// goroutine.
func (m *meter) halt(why stopReason) {
	for {
		now := m.Stop.Load()
		if now != uint32(running) && now != uint32(asked) || m.Stop.CompareAndSwap(now, uint32(why)) {
			return
		}
	}
}

// spend settles why the call is stopped; the first reason counts.
func (m *meter) spend() {
	if m.reason == running {
		m.reason = stopReason(m.Stop.Load())
		if m.reason == running || m.reason == asked {
			m.reason = outOfBudget
		}
	}
	m.exhaust()
}

// Stopped is vm.Control's.
func (m *meter) Stopped() string { return m.stopError().Message }

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

// meterOf returns the meter of the call that l runs.
func meterOf(l *vm.LState) *meter { return l.Meter.Control.(*meter) }

// callOf returns the call that l runs.
func callOf(l *vm.LState) *call { return meterOf(l).call }
