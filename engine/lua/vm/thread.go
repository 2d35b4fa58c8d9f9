package vm

// NewThread returns a thread that calls fn once it is resumed.
func (ls *LState) NewThread(fn *LFunction, o Options) *LState {
	th := newThread(ls.G, ls.Meter, o)
	th.Push(fn)
	return th
}

// Resume lets th run with the last args values, which it takes, until it yields or ends. What it hands out is pushed, n
// values. If it fails it is dead, and what was raised is returned.
func (ls *LState) Resume(th *LState, args int) (n int, failure LValue) {
	defer func() {
		ls.G.CurrentThread, th.Parent = ls, nil
		if r := recover(); r != nil {
			err, ok := r.(*APIError)
			if !ok {
				panic(r)
			}
			th.die()
			n, failure = 0, err.Object
		}
	}()
	th.Parent, ls.G.CurrentThread = ls, th
	for _, v := range ls.reg[ls.top-args : ls.top] {
		th.Push(v)
	}
	ls.Pop(args)
	if th.frame == nil {
		if f := th.enter(0, args, MultRet, 0); f.Fn.IsG {
			th.RaiseError("a coroutine begins with a function of Lua")
		}
	} else {
		th.continueWith(args)
	}
	th.execute(nil)
	from := 0
	if th.frame == nil {
		th.Dead = true
	} else { // it yields what is on the stack of the function that has said so
		from = th.frame.Base
	}
	n = th.top - from
	for _, v := range th.reg[from:th.top] {
		ls.Push(v)
	}
	if th.Dead {
		th.die()
		return n, nil
	}
	f := th.frame
	th.wanted = f.results
	th.setTop(f.returnBase, max(th.top, f.top))
	th.frame = f.Parent
	return n, nil
}

// continueWith makes the last args values the results of the yield that the thread waits in.
func (ls *LState) continueWith(args int) {
	if ls.wanted == MultRet {
		return
	}
	for ; args < ls.wanted; args++ {
		ls.Push(LNil)
	}
	ls.Pop(args - ls.wanted)
	ls.top = ls.frame.top
}

func (ls *LState) die() {
	ls.Dead = true
	ls.unwind(nil, 0)
	ls.reg, ls.first, ls.frame = nil, nil, nil
}

// CanYield reports whether nothing but calls of Lua is between the thread's beginning and the function of Go that runs:
// neither another function of Go, such as pcall and sort, nor what the machine calls on its own, metamethods and
// iterators. All of that sits on the stack of Go, which a yield would cut. calls is how many there are.
func (ls *LState) CanYield() (calls int, ok bool) {
	for f := ls.frame.Parent; f != nil; f = f.Parent {
		calls++
		if f.Fn.IsG || f.Fn.Proto.Code[f.Pc-1].Op() != opCall {
			return calls, false
		}
	}
	return calls, ls.Parent != nil
}
