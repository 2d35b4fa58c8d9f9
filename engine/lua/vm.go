package lua

import (
	"fmt"
	"reflect"
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// gopher-lua offers no way to see what an instruction allocates, and one instruction
// may allocate half a megabyte. So the few that allocate are wrapped here, where
// gopher-lua keeps what executes each: the others cost nothing more. What this relies
// on of gopher-lua's inside is checked when the first engine is made, and
// TestAllocationIsCounted holds that it works: an upgrade cannot turn it off unseen.

// execute executes an instruction, whose operation is in its highest bits.
type execute func(l *glua.LState, instruction uint32, base unsafe.Pointer) int

// operations are what gopher-lua executes instructions with.
//
//go:linkname operations github.com/yuin/gopher-lua.jumpTable
var operations [glua.OP_NOP + 1]execute

// tableInside is how gopher-lua lays out a table.
type tableInside struct {
	Metatable glua.LValue
	array     []glua.LValue
	dict      map[glua.LValue]glua.LValue
	strdict   map[string]glua.LValue
	keys      []glua.LValue // all that there ever were
	k2i       map[glua.LValue]int
}

func inside(t *glua.LTable) *tableInside { return (*tableInside)(unsafe.Pointer(t)) }

// countAllocations has every state's instructions count what they allocate.
func countAllocations() {
	mirror, table := reflect.TypeFor[tableInside](), reflect.TypeFor[glua.LTable]()
	same := mirror.NumField() == table.NumField()
	for i := 0; same && i < table.NumField(); i++ {
		a, b := mirror.Field(i), table.Field(i)
		same = a.Name == b.Name && a.Type == b.Type && a.Offset == b.Offset
	}
	if !same || operations[glua.OP_NEWTABLE] == nil {
		panic(fmt.Sprintf("lua: this version of gopher-lua (%s) is not the one that vm.go was written for", glua.PackageVersion))
	}
	for _, op := range []int{glua.OP_SETTABLE, glua.OP_SETLIST} { // OP_SETTABLEKS is quickAssign's
		operations[op] = countGrowth(operations[op])
	}
	operations[glua.OP_NEWTABLE] = countTable(operations[glua.OP_NEWTABLE])
	operations[glua.OP_CLOSURE] = countClosure(operations[glua.OP_CLOSURE])
}

// registerA returns the value in an instruction's first register.
func registerA(l *glua.LState, instruction uint32) glua.LValue {
	return l.Get(int(instruction>>shiftA)&maskA + 1)
}

// countGrowth wraps what assigns to members of a table.
func countGrowth(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		t, ok := registerA(l, instruction).(*glua.LTable)
		if ok && !isNil(t.Metatable) {
			t = assigned(t)
		}
		m, metered := l.Context().(*meter)
		if t == nil || !metered {
			return next(l, instruction, base)
		}
		before := footprintOf(t)
		result := next(l, instruction, base)
		if after := footprintOf(t); after != before {
			m.made(after.since(before))
		}
		return result
	}
}

// countTable wraps what makes a table. A constructor that names members gets room for
// them at once: gopher-lua makes room for values alone, and 32 of it without a hint.
func countTable(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		m, ok := l.Context().(*meter)
		if !ok {
			return next(l, instruction, base)
		}
		items, names := int(instruction&maskBC), int(instruction>>shiftC)&maskBC
		switch {
		case names > 0:
			m.made(tableBytes + itemBytes*items + (nameRoomBytes+itemBytes)*names)
		case items > 0:
			m.made(tableBytes + itemBytes*items)
		default:
			m.made(tableBytes + nameRoomBytes)
			return next(l, instruction|1<<shiftC, base)
		}
		result := next(l, instruction, base)
		if t, ok := registerA(l, instruction).(*glua.LTable); ok && names > 0 {
			in := inside(t)
			in.keys, in.k2i = make([]glua.LValue, 0, names), make(map[glua.LValue]int)
		}
		return result
	}
}

// countClosure wraps what makes a function.
func countClosure(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		result := next(l, instruction, base)
		m, ok := l.Context().(*meter)
		if !ok {
			return result
		}
		if fn, ok := registerA(l, instruction).(*glua.LFunction); ok {
			m.made(closureBytes + upvalueBytes*len(fn.Upvalues))
		}
		return result
	}
}
