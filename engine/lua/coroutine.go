package lua

import (
	"reflect"

	glua "github.com/yuin/gopher-lua"
)

// Bounds of the coroutines of a call.
const (
	maxCoroutines      = 32 // created
	maxResumed         = 8  // resumed within each other
	coroutineStack     = 64 // values on the stack of a fresh one
	coroutineMaxStack  = 16384
	coroutineCost      = 500 // instructions: a stack of some 24 KiB is made
	switchCost         = 20  // instructions: a resume and the yield after it take as long
	coroutineMoveLimit = maxResults
)

// status of a coroutine, in the words that scripts get.
type status string

const (
	suspended     status = "suspended"
	runningStatus status = "running"
	normal        status = "normal" // it resumed another
	dead          status = "dead"
)

// coroutine is a thread of gopher-lua's with what it does not know: the states of
// those that wait for others, and how many values a yield has room for. It is not a
// goroutine: a resume is a call of Go, and a yield its return.
type coroutine struct {
	l      *glua.LState
	status status
	wanted int // values that the yield it waits in is to return, or glua.MultRet
}

// threads is what there is of gopher-lua's coroutine library: they know parts that
// it does not show.
type threads struct{ create, resume glua.LGFunction }

// newThreads takes them from a library that is thrown away.
func newThreads() threads {
	l := glua.NewState(glua.Options{SkipOpenLibs: true, CallStackSize: 8, RegistrySize: 64})
	defer l.Close()
	l.Push(l.NewFunction(glua.OpenCoroutine))
	l.Call(0, 1)
	members := l.Get(-1).(*glua.LTable)
	function := func(name string) glua.LGFunction { return members.RawGetString(name).(*glua.LFunction).GFunction }
	return threads{create: function("create"), resume: function("resume")}
}

func coroutineFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"create":  coroutineCreate,
		"resume":  coroutineResume,
		"running": coroutineRunning,
		"status":  coroutineStatus,
		"wrap":    coroutineWrap,
		"yield":   coroutineYield,
	}
}

// addCoroutines adds the library, and makes the environments of scripts that may
// not use it.
func (b *box) addCoroutines() {
	without := newTable()
	b.base.ForEach(func(name, v glua.LValue) { without.RawSet(name, v) })
	b.without, b.withoutMeta = without, protected(without)
	b.withoutBareEnv = newTable()
	b.withoutBareEnv.Metatable = b.withoutMeta
	b.threads = newThreads()
	b.library("coroutine", coroutineFunctions(), nil)
}

// environments returns the metatable of environments, and the one of programs
// that set no globals.
func (b *box) environments(coroutines bool) (meta, bare *glua.LTable) {
	if coroutines {
		return b.envMeta, b.bareEnv
	}
	return b.withoutMeta, b.withoutBareEnv
}

// newCoroutine makes a coroutine of the first argument.
func newCoroutine(l *glua.LState) *coroutine {
	if fn, ok := l.Get(1).(*glua.LFunction); !ok || fn.IsG {
		argError(l, 1, "Lua function expected")
	}
	m, c := meterOf(l), callOf(l)
	m.charge(l, coroutineCost)
	if len(c.coroutines) >= maxCoroutines {
		raiseLimit(l, "more than %d coroutines in one call", maxCoroutines)
	}
	l.SetTop(1)
	sandbox().threads.create(l)
	co := &coroutine{l: l.Get(-1).(*glua.LState), status: suspended}
	co.l.SetContext(m)
	c.coroutines = append(c.coroutines, co)
	return co
}

// coroutineOptions are those of the threads that a state makes.
func coroutineOptions(o glua.Options) glua.Options {
	o.RegistrySize, o.RegistryMaxSize = coroutineStack, coroutineMaxStack
	return o
}

// coroutineOf returns what l is, or nil if it is no coroutine.
func (c *call) coroutineOf(l *glua.LState) *coroutine {
	for _, co := range c.coroutines {
		if co.l == l {
			return co
		}
	}
	return nil
}

func argCoroutine(l *glua.LState) *coroutine {
	th, ok := l.Get(1).(*glua.LState)
	if !ok {
		argError(l, 1, "coroutine expected")
	}
	return callOf(l).coroutineOf(th)
}

func coroutineCreate(l *glua.LState) int {
	l.Push(newCoroutine(l).l)
	return 1
}

func coroutineStatus(l *glua.LState) int {
	l.Push(glua.LString(argCoroutine(l).status))
	return 1
}

// coroutineRunning returns the running coroutine; nil outside of any.
func coroutineRunning(l *glua.LState) int {
	if co := callOf(l).coroutineOf(l); co != nil {
		l.Push(co.l)
		return 1
	}
	l.Push(glua.LNil)
	return 1
}

func coroutineResume(l *glua.LState) int {
	co := argCoroutine(l)
	if err, ok := co.resume(l); !ok {
		l.SetTop(0)
		l.Push(glua.LFalse)
		l.Push(caught(&glua.ApiError{Object: err}, meterOf(l)))
		return 2
	}
	return l.GetTop()
}

// coroutineWrap returns a function that resumes, and whose errors are the
// coroutine's.
func coroutineWrap(l *glua.LState) int {
	co := newCoroutine(l)
	l.Push(builtin(func(l *glua.LState) int {
		if co.status != suspended {
			l.RaiseError("cannot resume %s coroutine", co.status)
		}
		l.Insert(co.l, 1)
		err, ok := co.resume(l)
		if !ok {
			l.Error(err, 0)
		}
		l.Remove(1)
		return l.GetTop()
	}))
	return 1
}

// resume runs co, which is l's first argument, with the others until it yields or
// ends. If ok, all that is on l's stack then is true and the values that it handed
// out; if not, err is what it raised.
func (co *coroutine) resume(l *glua.LState) (err glua.LValue, ok bool) {
	m, c := meterOf(l), callOf(l)
	m.charge(l, switchCost+l.GetTop())
	if co.status != suspended {
		return glua.LString("cannot resume " + string(co.status) + " coroutine"), false
	}
	if c.resumed >= maxResumed {
		raiseLimit(l, "coroutines are resumed more than %d deep", maxResumed)
	}
	if l.GetTop() > coroutineMoveLimit {
		l.RaiseError("too many arguments to resume")
	}
	co.fit(l)
	if from := c.coroutineOf(l); from != nil {
		from.status = normal
		defer func() { from.status = runningStatus }()
	}
	c.resumed++
	co.status = runningStatus
	err, ok = co.run(l)
	c.resumed--
	m.charge(l, l.GetTop())
	return err, ok
}

// fit makes the arguments, after co itself, as many as the yield has room for:
// gopher-lua would leave registers unset.
func (co *coroutine) fit(l *glua.LState) {
	if co.wanted == glua.MultRet || !co.started() {
		return
	}
	for l.GetTop() < 1+co.wanted {
		l.Push(glua.LNil)
	}
	l.SetTop(1 + co.wanted)
}

// started reports whether co was resumed before.
func (co *coroutine) started() bool {
	_, ok := co.l.GetStack(0)
	return ok
}

// run lets gopher-lua resume co. What panics on the way, such as a stack that is
// full, leaves it dead.
func (co *coroutine) run(l *glua.LState) (err glua.LValue, ok bool) {
	current := l.G.CurrentThread
	defer func() {
		if r := recover(); r != nil {
			api, known := r.(*glua.ApiError)
			if !known {
				panic(r)
			}
			err, ok = api.Object, false
		}
		l.G.CurrentThread = current
		if !ok {
			co.l.Dead = true
		}
		if co.l.Dead {
			co.status = dead
		} else {
			co.status = suspended
		}
	}()
	sandbox().threads.resume(l)
	l.Remove(1) // co
	if glua.LVAsBool(l.Get(1)) {
		return nil, true
	}
	return l.Get(2), false
}

// coroutineYield hands its arguments to what resumed the coroutine.
func coroutineYield(l *glua.LState) int {
	meterOf(l).charge(l, 1+l.GetTop())
	co := callOf(l).coroutineOf(l)
	if co == nil || !canYield(l) {
		l.RaiseError("attempt to yield across metamethod/C-call boundary")
	}
	yield, _ := l.GetStack(0)
	co.wanted = frameInt(yield, "NRet")
	return -1 // which makes gopher-lua yield
}

// canYield reports whether nothing but calls of Lua is between the coroutine's
// beginning and its yield: neither a builtin, such as pcall and sort, nor what the
// machine calls on its own, metamethods and iterators. All of that sits on the stack
// of Go, which a yield would cut.
func canYield(l *glua.LState) bool {
	m := meterOf(l)
	for level := 1; ; level++ {
		frame, ok := l.GetStack(level)
		if !ok {
			return true
		}
		m.charge(l, 1)
		value, err := l.GetInfo("f", frame, glua.LNil)
		if err != nil {
			return false
		}
		fn := value.(*glua.LFunction)
		if fn.IsG {
			return false
		}
		if pc := frameInt(frame, "Pc") - 1; int(fn.Proto.Code[pc]>>opcodeShift) != glua.OP_CALL {
			return false
		}
	}
}

// frameInt reads a field of a call's frame, which gopher-lua has no function for.
func frameInt(d *glua.Debug, field string) int {
	return int(reflect.ValueOf(d).Elem().FieldByName("frame").Elem().FieldByName(field).Int())
}
