package lua

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Bounds of the coroutines of a call.
const (
	maxCoroutines      = 32 // created
	maxResumed         = 8  // resumed within each other
	coroutineStack     = 64 // values on the stack of a fresh one
	coroutineMaxStack  = 16384
	coroutineCost      = 501 // instructions: a stack is made
	switchCost         = 20  // instructions: a resume and the yield after it take as long
	coroutineMoveLimit = 8000
)

// status of a coroutine, in the words that scripts get.
type status string

const (
	suspended     status = "suspended"
	runningStatus status = "running"
	normal        status = "normal" // it resumed another
	dead          status = "dead"
)

// coroutine is a thread with the states of those that wait for others. It is not a goroutine: a
// resume is a call of Go, and a yield its return.
type coroutine struct {
	l      *vm.LState
	status status
}

var coroutineFunctions = map[string]vm.LGFunction{
	"create":  coroutineCreate,
	"resume":  coroutineResume,
	"running": coroutineRunning,
	"status":  coroutineStatus,
	"wrap":    coroutineWrap,
	"yield":   coroutineYield,
}

// newCoroutine makes a coroutine of the first argument.
func newCoroutine(l *vm.LState) *coroutine {
	if fn, ok := l.Get(1).(*vm.LFunction); !ok || fn.IsG {
		bind.ArgError(l, 1, "Lua function expected")
	}
	c := callOf(l)
	l.Charge(coroutineCost)
	if len(c.coroutines) >= maxCoroutines {
		bind.RaiseLimit(l, "more than %d coroutines in one call", maxCoroutines)
	}
	options := vm.Options{Calls: callStackSize, Values: coroutineStack, MaxValues: coroutineMaxStack, Grow: registryGrowStep}
	co := &coroutine{l: l.NewThread(bind.ArgFunction(l, 1), options), status: suspended}
	c.coroutines = append(c.coroutines, co)
	return co
}

// coroutineOf returns what l is, or nil if it is no coroutine.
func (c *call) coroutineOf(l *vm.LState) *coroutine {
	for _, co := range c.coroutines {
		if co.l == l {
			return co
		}
	}
	return nil
}

func argCoroutine(l *vm.LState) *coroutine {
	th, ok := l.Get(1).(*vm.LState)
	if !ok {
		bind.ArgError(l, 1, "coroutine expected")
	}
	return callOf(l).coroutineOf(th)
}

func coroutineCreate(l *vm.LState) int { return l.Return(newCoroutine(l).l) }

func coroutineStatus(l *vm.LState) int { return l.Return(vm.LString(argCoroutine(l).status)) }

// coroutineRunning returns the running coroutine; nil outside of any.
func coroutineRunning(l *vm.LState) int {
	if co := callOf(l).coroutineOf(l); co != nil {
		return l.Return(co.l)
	}
	return l.Return(vm.LNil)
}

func coroutineResume(l *vm.LState) int {
	co := argCoroutine(l)
	n, failure := co.resume(l, l.GetTop()-1)
	if failure != nil {
		l.Push(vm.LFalse)
		l.Push(caught(failure, meterOf(l)))
		return 2
	}
	l.Insert(vm.LTrue, l.GetTop()-n+1)
	return n + 1
}

// coroutineWrap returns a function that resumes, and whose errors are the
// coroutine's.
func coroutineWrap(l *vm.LState) int {
	co := newCoroutine(l)
	l.Push(values.Builtin(func(l *vm.LState) int {
		if co.status != suspended {
			l.RaiseError("cannot resume %s coroutine", co.status)
		}
		n, failure := co.resume(l, l.GetTop())
		if failure != nil {
			l.Raise(failure)
		}
		return n
	}))
	return 1
}

// resume runs co with the last args values until it yields or ends. It pushes the n values that
// co handed out; or co has failed.
func (co *coroutine) resume(l *vm.LState, args int) (n int, failure vm.LValue) {
	c := callOf(l)
	l.Charge(switchCost + 1 + args)
	if co.status != suspended {
		return 0, vm.LString("cannot resume " + string(co.status) + " coroutine")
	}
	if c.resumed >= maxResumed {
		bind.RaiseLimit(l, "coroutines are resumed more than %d deep", maxResumed)
	}
	if args >= coroutineMoveLimit {
		l.RaiseError("too many arguments to resume")
	}
	if from := c.coroutineOf(l); from != nil {
		from.status = normal
		defer func() { from.status = runningStatus }()
	}
	c.resumed++
	co.status = runningStatus
	n, failure = l.Resume(co.l, args)
	c.resumed--
	co.status = suspended
	if co.l.Dead {
		co.status = dead
		l.Charge(1) // its stack is dropped
	}
	if l.Charge(n + 1); failure != nil {
		l.Charge(1)
	}
	return n, failure
}

// coroutineYield hands its arguments to what resumed the coroutine.
func coroutineYield(l *vm.LState) int {
	l.Charge(1 + l.GetTop())
	calls, ok := l.CanYield()
	if l.Charge(calls); !ok {
		l.RaiseError("attempt to yield across metamethod/C-call boundary")
	}
	return vm.Yield
}
