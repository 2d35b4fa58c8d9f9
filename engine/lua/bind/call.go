// Package bind is what functions of Go need that scripts call: the call that runs them (Call), their arguments, what
// they charge and allocate, the texts that they put together, and errors. Packages stdlib and hostlib are made with it.
package bind

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Call is what builtins use of the call that runs them.
type Call struct {
	JSON     luajson.Store
	Host     hostapi.Call
	Patterns *hostapi.Patterns
	Names    map[*vm.LFunction]string // of builtins
	Random   *rand.Rand               // set by math.randomseed, for this call alone
	Started  time.Time
	Args     []vm.LValue // of the entrypoint
	Globals  *vm.LTable  // that stand for the arguments where there is no entrypoint; else nil
	Cookies  *vm.LTable  // of the request, once they were asked for
	Query    *vm.LTable  // the request's query, once it was asked for

	scratch []byte // in which short strings are put together
}

// Store lets package luajson find the store.
func (c *Call) Store() *luajson.Store { return &c.JSON }

// CallOf returns what builtins use of the call that l runs.
func CallOf(l *vm.LState) *Call { return l.G.Call.(*Call) }

// PushJSON pushes what a JSON text says that nobody changes, or raises the problem with it behind prefix.
func PushJSON(l *vm.LState, text string, prefix ...string) int {
	d := luajson.NewDecoder(&CallOf(l).JSON)
	v, err := d.Value(text)
	l.Charge(0) // fails here if the budget is why decoding did
	if err != nil {
		l.RaiseError("%s: %s", strings.Join(prefix, ""), err.Error())
	}
	return l.Return(v)
}

// HostOf returns what the call of l may use of hostapi.
func HostOf(l *vm.LState) *hostapi.Call { return &CallOf(l).Host }

// StringBytes is what a string takes besides its bytes.
const StringBytes = 32

// ChargeBytes charges for n bytes read or written.
func ChargeBytes(l *vm.LState, n int) { l.Charge(n / hostapi.BytesPerInstruction) }

// CapString refuses a string of n bytes that is over the limit.
func CapString(l *vm.LState, n int) {
	if most := CallOf(l).Host.StringBytes; n > most {
		RaiseLimit(l, "a string of %d bytes is over the limit of %d", n, most)
	}
}

// Allocate counts n bytes that are about to be allocated, and stops the script if they
// are too many.
func Allocate(l *vm.LState, n int) {
	if l.Meter.Made(n); l.Meter.Left < 0 {
		l.Charge(0)
	}
}

// AllocateTable counts a table that a builtin is about to hand out.
func AllocateTable(l *vm.LState, t *vm.LTable) {
	Allocate(l, vm.TableBytes+t.Footprint().Since(vm.Footprint{}))
}

// AllocateString counts a string of n bytes, and what it is put together in.
func AllocateString(l *vm.LState, n int) { Allocate(l, StringBytes+2*n) }
