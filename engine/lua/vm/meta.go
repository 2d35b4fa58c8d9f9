package vm

import (
	"math"

	glua "github.com/yuin/gopher-lua"
)

// maxLoop is how many tables __index may lead through.
const maxLoop = 100

// word is what messages call a value: that userdata which scripts meet is null.
func word(v LValue) string {
	if t := v.Type(); t != LTUserData {
		return t.String()
	}
	return "null"
}

// Metatable returns the metatable of a value; nil if it has none.
func (ls *LState) Metatable(v LValue) *LTable {
	switch v := v.(type) {
	case *LTable:
		return v.Metatable
	case *LUserData:
		return v.Metatable
	case LString:
		return ls.G.Strings
	}
	return nil
}

// metaOf returns the metamethod of a value; nil if it has none.
func (ls *LState) metaOf(v LValue, event string) LValue {
	if meta := ls.Metatable(v); meta != nil {
		return meta.name(event)
	}
	return nil
}

// GetMetaField returns the metamethod of a value.
func (ls *LState) GetMetaField(v LValue, event string) LValue { return orNil(ls.metaOf(v, event)) }

// callMeta calls a metamethod for its result.
func (ls *LState) callMeta(fn *LFunction, a, b LValue) LValue {
	top := ls.top
	ls.Push(fn)
	ls.Push(a)
	ls.Push(b)
	ls.call(top, 2, 1, top)
	return ls.pop()
}

// GetTable returns of[key].
func (ls *LState) GetTable(of, key LValue) LValue {
	name, isName := key.(LString)
	for range maxLoop {
		t, isTable := of.(*LTable)
		if isTable {
			var v LValue
			if isName {
				v = t.name(string(name))
			} else {
				v = t.get(key)
			}
			if v != nil && !IsNil(v) {
				return v
			}
			if t.Metatable == nil {
				return LNil
			}
		}
		switch next := ls.metaOf(of, "__index").(type) {
		case nil:
			if !isTable {
				ls.refuse("index", 1, of, key)
			}
			return LNil
		case *LFunction:
			return ls.callMeta(next, of, key)
		default:
			of = next
		}
	}
	ls.RaiseError("loop in gettable")
	return nil
}

// RawSet is LTable's, and refuses nil and NaN.
func (ls *LState) RawSet(t *LTable, key, v LValue) {
	switch k := key.(type) {
	case LNumber:
		if math.IsNaN(float64(k)) {
			ls.RaiseError("table index is NaN")
		}
	case *LNilType:
		ls.RaiseError("table index is nil")
	}
	t.RawSet(key, v)
}

// setTable is of[key] = v.
func (ls *LState) setTable(of, key, v LValue) {
	for range maxLoop {
		t, isTable := of.(*LTable)
		if isTable {
			if t.Metatable == nil {
				ls.set(t, key, v)
				return
			}
			if now := t.get(key); now != nil && !IsNil(now) {
				ls.set(t, key, v)
				return
			}
		}
		switch next := ls.metaOf(of, "__newindex").(type) {
		case nil:
			if !isTable {
				ls.refuse("index", 1, of, key)
			}
			ls.set(t, key, v)
			return
		case *LFunction:
			top := ls.top
			ls.Push(next)
			ls.Push(of)
			ls.Push(key)
			ls.Push(v)
			ls.call(top, 3, 0, top)
			return
		default:
			of = next
		}
	}
	ls.RaiseError("loop in settable")
}

// refuse raises an error about an operand, which was asked for the key if there is one.
func (ls *LState) refuse(what string, operand int, v, key LValue) {
	ls.RaiseError("attempt to %s %s", what, ls.G.Describe(ls, operand, v, key))
}

// number returns an operand of an operator of numbers.
func (ls *LState) number(v LValue) (LNumber, bool) {
	switch v := v.(type) {
	case LNumber:
		return v, true
	case LString:
		return ls.G.Number(ls, v)
	}
	return 0, false
}

// arithmetic is a op b of values that are not both numbers.
func (ls *LState) arithmetic(op int, a, b LValue) LValue {
	x, ok := ls.number(a)
	y, ok2 := ls.number(b)
	if ok && ok2 {
		return calculate(op, x, y)
	}
	event := [...]string{"__add", "__sub", "__mul", "__div", "__mod", "__pow"}[op-glua.OP_ADD]
	fn, found := ls.metaOf(a, event).(*LFunction)
	if !found {
		fn, found = ls.metaOf(b, event).(*LFunction)
	}
	switch {
	case found:
		return ls.callMeta(fn, a, b)
	case ok:
		ls.refuse("perform arithmetic on", 2, b, nil)
	}
	ls.refuse("perform arithmetic on", 1, a, nil)
	return nil
}

func calculate(op int, x, y LNumber) LNumber {
	switch op {
	case glua.OP_ADD:
		return x + y
	case glua.OP_SUB:
		return x - y
	case glua.OP_MUL:
		return x * y
	case glua.OP_DIV:
		return x / y
	case glua.OP_MOD:
		return LNumber(Modulo(float64(x), float64(y)))
	}
	return LNumber(math.Pow(float64(x), float64(y)))
}

// negative is -v of what is no number.
func (ls *LState) negative(v LValue) LValue {
	if n, ok := ls.number(v); ok {
		return -n
	}
	fn, ok := ls.metaOf(v, "__unm").(*LFunction)
	if !ok {
		ls.refuse("perform arithmetic on", 1, v, nil)
	}
	return ls.callMeta(fn, v, v)
}

// Modulo is the operator %: what is left has the sign of b.
func Modulo(a, b float64) float64 {
	rest := math.Mod(a, b)
	switch {
	case rest == 0:
		return 0 // without a sign
	case rest < 0 && b > 0, rest > 0 && b < 0:
		rest += b
	}
	return rest
}

// Equal is a == b.
func (ls *LState) Equal(a, b LValue) bool {
	if a == b {
		return true
	}
	switch a.(type) {
	case *LTable:
		if _, ok := b.(*LTable); !ok {
			return false
		}
	case *LUserData:
		if _, ok := b.(*LUserData); !ok {
			return false
		}
	default:
		return false
	}
	result, ok := ls.compareBy("__eq", a, b)
	return ok && result
}

// compareBy compares by a metamethod that both have; ok is false if they have not.
func (ls *LState) compareBy(event string, a, b LValue) (result, ok bool) {
	fn, ok := ls.metaOf(a, event).(*LFunction)
	if !ok {
		return false, false
	}
	if other, ok := ls.metaOf(b, event).(*LFunction); !ok || fn != other {
		return false, false
	}
	return LVAsBool(ls.callMeta(fn, a, b)), true
}

// LessThan is a < b.
func (ls *LState) LessThan(a, b LValue) bool { return ls.less(a, b, false) }

// less is a < b, or a <= b.
func (ls *LState) less(a, b LValue, orEqual bool) bool {
	switch x := a.(type) {
	case LNumber:
		if y, ok := b.(LNumber); ok {
			return x < y || orEqual && x == y
		}
	case LString:
		if y, ok := b.(LString); ok {
			c := ls.Meter.Compare(string(x), string(y))
			return c < 0 || orEqual && c == 0
		}
	}
	if a.Type() == b.Type() {
		if orEqual {
			if result, ok := ls.compareBy("__le", a, b); ok {
				return result
			}
			if result, ok := ls.compareBy("__lt", b, a); ok {
				return !result
			}
		} else if result, ok := ls.compareBy("__lt", a, b); ok {
			return result
		}
		ls.RaiseError("attempt to compare two %s values", word(a))
	}
	ls.RaiseError("attempt to compare %s with %s", word(a), word(b))
	return false
}
