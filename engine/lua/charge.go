package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// bytesPerInstruction is how many bytes a builtin may read or write for one
// instruction of the budget.
const bytesPerInstruction = hostapi.BytesPerInstruction

// Sizes of what builtins allocate, in bytes.
const (
	stringBytes = 32 // besides its bytes
)

// chargeBytes charges for n bytes read or written.
func chargeBytes(l *vm.LState, n int) { l.Charge(n / bytesPerInstruction) }

// capString refuses a string of n bytes that is over the limit.
func capString(l *vm.LState, n int) {
	if most := bindingOf(l).Host.StringBytes; n > most {
		raiseLimit(l, "a string of %d bytes is over the limit of %d", n, most)
	}
}

// allocate counts n bytes that are about to be allocated, and stops the script if they
// are too many.
func allocate(l *vm.LState, n int) {
	if l.Meter.Made(n); l.Meter.Left < 0 {
		l.Charge(0)
	}
}

// allocateTable counts a table that a builtin is about to hand out.
func allocateTable(l *vm.LState, t *vm.LTable) {
	allocate(l, vm.TableBytes+t.Footprint().Since(vm.Footprint{}))
}

// allocateString counts a string of n bytes, and what it is put together in.
func allocateString(l *vm.LState, n int) { allocate(l, stringBytes+2*n) }
