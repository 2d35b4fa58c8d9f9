package stdlib

import (
	"sort"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/bind"
	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

var tableFunctions = map[string]vm.LGFunction{
	"concat": tableConcat,
	"getn":   tableGetn,
	"insert": tableInsert,
	"maxn":   tableMaxn,
	"remove": tableRemove,
	"sort":   tableSort,
}

func tableConcat(l *vm.LState) int {
	separator := bind.OptString(l, 2, "")
	list := bind.ArgTable(l)
	first, last := bind.OptInt(l, 3, 1), bind.OptLast(l, 4, list)
	t := bind.NewText(l, 0)
	for i := first; i <= last; i++ {
		v := list.RawGetInt(i)
		if !bind.IsText(v) {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", values.Name(v), i)
		}
		t.AddValue(v)
		if i < last {
			t.Add(separator)
		}
		l.Charge(1)
	}
	return l.Return(t.Value())
}

func tableGetn(l *vm.LState) int { return l.Return(vm.LNumber(bind.Border(bind.ArgTable(l)))) }

func tableInsert(l *vm.LState) int {
	t := bind.ArgTable(l)
	end := bind.Border(t) + 1
	switch l.GetTop() {
	case 2:
		l.Set(t, vm.LNumber(end), l.Get(2))
	case 3:
		position := bind.ArgInt(l, 2)
		for i := max(end, position); i > position; i-- {
			l.Charge(1)
			l.Set(t, vm.LNumber(i), t.RawGetInt(i-1))
		}
		l.Set(t, vm.LNumber(position), l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(l *vm.LState) int {
	t := bind.ArgTable(l)
	end := bind.Border(t)
	position := bind.OptInt(l, 2, end)
	if position < 1 || position > end {
		return 0
	}
	removed := t.RawGetInt(position)
	for i := position; i < end; i++ {
		l.Charge(1)
		t.RawSetInt(i, t.RawGetInt(i+1))
	}
	t.RawSetInt(end, vm.LNil)
	return l.Return(removed)
}

func tableMaxn(l *vm.LState) int {
	t := bind.ArgTable(l)
	m := l.Meter
	highest := vm.LNumber(0)
	for k, _ := m.Next(t, vm.LNil); k != vm.LNil; k, _ = m.Next(t, k) {
		l.Charge(1)
		if n, ok := k.(vm.LNumber); ok {
			highest = max(highest, n)
		}
	}
	return l.Return(highest)
}

// tableSort sorts a copy and writes it back: what the comparator does to the
// table, or an order that contradicts itself, cannot confuse it.
func tableSort(l *vm.LState) int {
	t := bind.ArgTable(l)
	var less *vm.LFunction
	if l.Get(2) != vm.LNil {
		less = bind.ArgFunction(l, 2)
	}
	n := bind.Border(t)
	bind.Allocate(l, vm.ItemBytes*n)
	values := make([]vm.LValue, n)
	for i := range values {
		l.Charge(1)
		values[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(&sorter{l: l, values: values, less: less})
	for i, v := range values {
		l.Charge(0)
		l.Set(t, vm.LNumber(i+1), v) // the comparator may have emptied it
	}
	return 0
}

// sorter sorts values by a script's function, or by "<".
type sorter struct {
	l      *vm.LState
	values []vm.LValue
	less   *vm.LFunction
}

func (s *sorter) Len() int      { return len(s.values) }
func (s *sorter) Swap(i, j int) { s.values[i], s.values[j] = s.values[j], s.values[i] }

func (s *sorter) Less(i, j int) bool {
	s.l.Charge(1)
	if s.less == nil {
		return lessThan(s.l, s.values[i], s.values[j])
	}
	s.l.Push(s.less)
	s.l.Push(s.values[i])
	s.l.Push(s.values[j])
	return vm.LVAsBool(s.l.CallOne(2))
}

func lessThan(l *vm.LState, a, b vm.LValue) bool {
	if a, ok := a.(vm.LString); ok {
		if b, ok := b.(vm.LString); ok {
			bind.ChargeBytes(l, min(len(a), len(b), hostapi.PieceBytes))
			return l.Meter.Compare(string(a), string(b)) < 0
		}
	}
	return l.LessThan(a, b)
}
