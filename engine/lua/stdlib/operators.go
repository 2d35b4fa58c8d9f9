package stdlib

import (
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Operators returns the builtins behind operators, by what the compiler leaves for them.
func Operators() map[string]*vm.LFunction {
	return map[string]*vm.LFunction{
		compile.Concat: values.Builtin(operatorConcat),
		compile.Length: values.Builtin(operatorLength),
		compile.Arg:    values.Builtin(operatorArg),
	}
}

// operatorLength is the operator #.
func operatorLength(l *vm.LState) int {
	switch v := l.Get(1).(type) {
	case vm.LString:
		return l.Return(vm.LNumber(len(v)))
	case *vm.LTable:
		if v.Metatable == nil || luajson.IsMarked(v) {
			return l.Return(vm.LNumber(bind.Border(v)))
		}
	}
	return lengthByMeta(l, l.Get(1))
}

func lengthByMeta(l *vm.LState, v vm.LValue) int {
	if fn := l.GetMetaField(v, "__len"); fn != vm.LNil {
		l.Push(fn)
		l.Push(v)
		l.Call(1, 1)
		return 1
	}
	t, ok := v.(*vm.LTable)
	if !ok {
		l.RaiseError("attempt to get length of %s", l.G.Describe(l, 1, l.Get(1), nil))
	}
	return l.Return(vm.LNumber(bind.Border(t)))
}

// operatorConcat is the operator "..", for a whole chain: it joins from the end.
func operatorConcat(l *vm.LState) int {
	n := l.GetTop()
	least, most := 0, 0 // bytes of what comes of it
	for i := 1; i <= n; i++ {
		switch v := l.Get(i).(type) {
		case vm.LString:
			least += len(v)
		case vm.LNumber:
			most += bind.MaxNumberText
		default:
			return concatByMeta(l, n)
		}
	}
	bind.CapString(l, least) // before it is put together
	t := bind.NewText(l, least+most)
	for i := 1; i <= n; i++ {
		t.AddValue(l.Get(i))
	}
	return l.Return(t.Value())
}

// textBytes returns the length of a string, and 0 for a number.
func textBytes(v vm.LValue) int {
	s, _ := v.(vm.LString)
	return len(s)
}

// concatByMeta joins operands of which some are neither string nor number.
func concatByMeta(l *vm.LState, n int) int {
	result := l.Get(n)
	for i := n - 1; i >= 1; i-- {
		left := l.Get(i)
		if bind.IsText(left) && bind.IsText(result) {
			t := bind.NewText(l, textBytes(left)+textBytes(result))
			t.AddValue(left)
			t.AddValue(result)
			result = t.Value()
			continue
		}
		fn := l.GetMetaField(left, "__concat")
		if fn == vm.LNil {
			fn = l.GetMetaField(result, "__concat")
		}
		if fn == vm.LNil {
			culprit := i
			if bind.IsText(left) {
				culprit = i + 1
			}
			l.RaiseError("attempt to concatenate %s", l.G.Describe(l, culprit, l.Get(culprit), nil))
		}
		l.Push(fn)
		l.Push(left)
		l.Push(result)
		result = l.CallOne(2)
	}
	return l.Return(result)
}

// operatorArg makes the table that functions with "..." find as arg.
func operatorArg(l *vm.LState) int {
	n := l.GetTop()
	l.Charge(n)
	t := vm.NewTable(n, 1)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, l.Get(i))
	}
	t.RawSetString("n", vm.LNumber(n))
	bind.AllocateTable(l, t)
	return l.Return(t)
}
