package lua

import (
	"sort"

	glua "github.com/yuin/gopher-lua"
)

func tableFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"concat": tableConcat,
		"getn":   tableGetn,
		"insert": tableInsert,
		"maxn":   tableMaxn,
		"remove": tableRemove,
		"sort":   tableSort,
	}
}

func tableConcat(l *glua.LState) int {
	separator := optString(l, 2, "")
	list := argTable(l)
	first, last := optInt(l, 3, 1), optLast(l, 4, list)
	t := newText(l, 0)
	for i := first; i <= last; i++ {
		v := rawGetIndex(list, i)
		if !isText(v) {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", valueName(v), i)
		}
		t.addValue(v)
		if i < last {
			t.add(separator)
		}
		t.meter.charge(l, 1)
	}
	l.Push(t.value())
	return 1
}

func tableGetn(l *glua.LState) int {
	l.Push(glua.LNumber(border(argTable(l))))
	return 1
}

func tableInsert(l *glua.LState) int {
	t := argTable(l)
	end := border(t) + 1
	switch l.GetTop() {
	case 2:
		setIndex(l, t, end, l.Get(2))
	case 3:
		position := argInt(l, 2)
		for i := max(end, position); i > position; i-- {
			meterOf(l).charge(l, 1)
			setIndex(l, t, i, rawGetIndex(t, i-1))
		}
		setIndex(l, t, position, l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(l *glua.LState) int {
	t := argTable(l)
	end := border(t)
	position := optInt(l, 2, end)
	if position < 1 || position > end {
		return 0
	}
	removed := rawGetIndex(t, position)
	for i := position; i < end; i++ {
		meterOf(l).charge(l, 1)
		t.RawSetInt(i, rawGetIndex(t, i+1))
	}
	t.RawSetInt(end, glua.LNil)
	l.Push(removed)
	return 1
}

func tableMaxn(l *glua.LState) int {
	t := argTable(l)
	m := meterOf(l)
	highest := glua.LNumber(0)
	for k, _ := m.next(t, glua.LNil); k != glua.LNil; k, _ = m.next(t, k) {
		m.charge(l, 1)
		if n, ok := k.(glua.LNumber); ok {
			highest = max(highest, n)
		}
	}
	l.Push(highest)
	return 1
}

// tableSort sorts a copy and writes it back: what the comparator does to the
// table, or an order that contradicts itself, cannot confuse it.
func tableSort(l *glua.LState) int {
	t := argTable(l)
	var less *glua.LFunction
	if l.Get(2) != glua.LNil {
		less = argFunction(l, 2)
	}
	m := meterOf(l)
	n := border(t)
	m.make(l, itemBytes*n)
	values := make([]glua.LValue, n)
	for i := range values {
		m.charge(l, 1)
		values[i] = rawGetIndex(t, i+1)
	}
	sort.Sort(&sorter{l: l, meter: m, values: values, less: less})
	for i, v := range values {
		m.charge(l, 0)
		setIndex(l, t, i+1, v) // the comparator may have emptied it
	}
	return 0
}

// sorter sorts values by a script's function, or by "<".
type sorter struct {
	l      *glua.LState
	meter  *meter
	values []glua.LValue
	less   *glua.LFunction
}

func (s *sorter) Len() int      { return len(s.values) }
func (s *sorter) Swap(i, j int) { s.values[i], s.values[j] = s.values[j], s.values[i] }

func (s *sorter) Less(i, j int) bool {
	s.meter.charge(s.l, 1)
	if s.less == nil {
		return lessThan(s.l, s.meter, s.values[i], s.values[j])
	}
	s.l.Push(s.less)
	s.l.Push(s.values[i])
	s.l.Push(s.values[j])
	s.l.Call(2, 1)
	result := glua.LVAsBool(s.l.Get(-1))
	s.l.Pop(1)
	return result
}

func lessThan(l *glua.LState, m *meter, a, b glua.LValue) bool {
	if a, ok := a.(glua.LString); ok {
		if b, ok := b.(glua.LString); ok {
			m.chargeBytes(l, min(len(a), len(b), pieceBytes))
			return m.compare(string(a), string(b)) < 0
		}
	}
	return l.LessThan(a, b)
}
