package lua

import (
	"math/rand/v2"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// binding is what builtins use of the call that runs them.
type binding struct {
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

// Store implements caller.
func (c *binding) Store() *luajson.Store { return &c.JSON }

// bindingOf returns what builtins use of the call that l runs.
func bindingOf(l *vm.LState) *binding { return l.G.Call.(*binding) }

// hostOf returns what the call of l may use of hostapi.
func hostOf(l *vm.LState) *hostapi.Call { return &bindingOf(l).Host }
