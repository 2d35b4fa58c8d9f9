package lua

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/script"
)

// bytesPerInstruction is how many bytes a builtin may read or write for one
// instruction of the budget.
const bytesPerInstruction = 64

// stopReason says why a call was stopped before its end.
type stopReason uint32

const (
	running     stopReason = iota
	outOfBudget            // the instructions are used up
	outOfTime              // the wall clock ran out
	cancelled              // the caller's context ended
	outOfMemory            // the process's heap grew too much while the call ran
	faulted                // gopher-lua panicked; the state cannot be trusted
)

// meter counts down a call's instructions. It is the context.Context of the
// call's state: gopher-lua asks it for Done before each instruction, and a
// closed channel there stops the script. Once spent it stays spent, so a script
// that catches the error meets it again at its next instruction.
//
// All of it belongs to the goroutine that runs the call, save stop, which the
// watchdog sets, and the fields that the watchdog guards.
type meter struct {
	left   int64
	stop   atomic.Uint32
	reason stopReason
	limits script.Limits
	call   *call // that it is for

	started time.Time
	random  *rand.Rand // set by math.randomseed, for this call alone

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
	m.left = int64(min(limits.Instructions, 1<<62))
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
	m.spend()
	return closedChannel
}

// spend settles why the call is stopped; the first reason counts.
func (m *meter) spend() {
	if m.reason == running {
		m.reason = stopReason(m.stop.Load())
		if m.reason == running {
			m.reason = outOfBudget
		}
	}
	m.left = -1
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
	case faulted:
		return script.Errorf(script.Internal, "", "the script met a fault of the engine and was stopped")
	default:
		return script.Errorf(script.Limit, "", "the call used up its %d instructions", m.limits.Instructions)
	}
}

// charge takes n instructions from the budget and stops the script if that was
// too much, or if the watchdog says so.
func (m *meter) charge(l *glua.LState, n int) {
	m.left -= int64(n)
	if m.left >= 0 && m.stop.Load() == uint32(running) {
		return
	}
	m.spend()
	l.RaiseError("%s", m.stopError().Message)
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

// checkString is for a string of n bytes that is about to be made: it is
// refused if it is over the limit, and charged for otherwise.
func (m *meter) checkString(l *glua.LState, n int) {
	m.capString(l, n)
	m.chargeBytes(l, n)
}

// meterOf returns the meter of the call that l runs.
func meterOf(l *glua.LState) *meter { return l.Context().(*meter) }

// callOf returns the call that l runs.
func callOf(l *glua.LState) *call { return meterOf(l).call }
