package lua

import (
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// Reading a member of a lazy object is what most scripts do most, and gopher-lua does
// it by a call of a function, some 300 ns; filling the table that a script returns is
// next, where gopher-lua hashes each name four times. Here both are done at once. As
// in vm.go, what this relies on is checked when the first engine is made.

// Where gopher-lua keeps what an instruction works on.
var stateLayout struct {
	registers, frame uintptr // of an LState
	values           uintptr // of its registers: a slice
	fn, base         uintptr // of a frame: its function, and where its registers begin
}

//go:linkname setRegister github.com/yuin/gopher-lua.(*registry).Set
func setRegister(registers unsafe.Pointer, at int, v glua.LValue)

// quicken replaces what executes some instructions.
func quicken() {
	state := reflect.TypeFor[glua.LState]()
	registers, frame := fieldOf(state, "reg"), fieldOf(state, "currentFrame")
	values := fieldOf(registers.Type.Elem(), "array")
	fn, base := fieldOf(frame.Type.Elem(), "Fn"), fieldOf(frame.Type.Elem(), "LocalBase")
	if values.Type != reflect.TypeFor[[]glua.LValue]() || fn.Type != reflect.TypeFor[*glua.LFunction]() || base.Type != reflect.TypeFor[int]() {
		panic(wrongVersion())
	}
	stateLayout.registers, stateLayout.frame = registers.Offset, frame.Offset
	stateLayout.values, stateLayout.fn, stateLayout.base = values.Offset, fn.Offset, base.Offset
	operations[glua.OP_GETTABLEKS] = quickIndex(operations[glua.OP_GETTABLEKS])
	operations[glua.OP_SETTABLEKS] = quickAssign(operations[glua.OP_SETTABLEKS])
	operations[glua.OP_NEWTABLE] = quickTable(operations[glua.OP_NEWTABLE])
}

func wrongVersion() string {
	return fmt.Sprintf("lua: this version of gopher-lua (%s) is not the one that vm.go was written for", glua.PackageVersion)
}

func fieldOf(t reflect.Type, name string) reflect.StructField {
	f, ok := t.FieldByName(name)
	if !ok {
		panic(wrongVersion())
	}
	return f
}

// frame is what an instruction works on.
type frame struct {
	registers unsafe.Pointer
	values    []glua.LValue
	base      int
	constants []glua.LValue
}

func frameOf(l *glua.LState) frame {
	registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
	current := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.frame))
	fn := *(**glua.LFunction)(unsafe.Add(current, stateLayout.fn))
	return frame{
		registers: registers,
		values:    *(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values)),
		base:      *(*int)(unsafe.Add(current, stateLayout.base)),
		constants: fn.Proto.Constants,
	}
}

// registersOf returns for how many values a state has room.
func registersOf(l *glua.LState) int {
	registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
	return cap(*(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values)))
}

// Operands of an instruction: A is a register, B and C are registers or, with the
// highest of nine bits, constants.
const (
	shiftA, shiftC  = 18, 9
	maskA, maskBC   = 0xff, 0x1ff
	constantOperand = 0x100
)

// operand returns the value of B or C.
func (f *frame) operand(n int) glua.LValue {
	if n&constantOperand != 0 {
		return f.constants[n&^constantOperand]
	}
	return f.values[f.base+n]
}

// quickIndex wraps A := B[C], with C a name.
func quickIndex(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		t, ok := f.values[f.base+int(instruction&maskBC)].(*glua.LTable)
		if !ok {
			return next(l, instruction, base)
		}
		o := lazyOf(t)
		name, ok := f.operand(int(instruction>>shiftC) & maskBC).(glua.LString)
		if o == nil || !ok || len(o.members) > lazyMembers {
			return next(l, instruction, base)
		}
		setRegister(f.registers, f.base+int(instruction>>shiftA)&maskA, o.get(callOf(l), string(name)))
		return 0
	}
}

// quickAssign wraps A[B] := C, with B a name, where A is a plain table and C is
// something.
func quickAssign(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		t, ok := f.values[f.base+int(instruction>>shiftA)&maskA].(*glua.LTable)
		if !ok || t.Metatable != glua.LNil {
			return next(l, instruction, base)
		}
		in := inside(t)
		key := f.operand(int(instruction & maskBC))
		name, ok := key.(glua.LString)
		value := f.operand(int(instruction>>shiftC) & maskBC)
		if !ok || in.strdict == nil || in.keys == nil || value == glua.LNil {
			return next(l, instruction, base)
		}
		before := len(in.strdict)
		in.strdict[string(name)] = value
		if len(in.strdict) == before {
			return 0
		}
		if _, known := in.k2i[key]; !known {
			room := footprintOf(t)
			in.k2i[key] = len(in.keys)
			in.keys = append(in.keys, key)
			if m, ok := l.Context().(*meter); ok && cap(in.keys) != room.keys {
				m.made(footprintOf(t).since(room))
			}
		}
		return 0
	}
}

// quickTable wraps A := {}: a constructor that names members gets room for them at
// once, counted as if they were there.
func quickTable(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		result := next(l, instruction, base)
		names := int(instruction>>shiftC) & maskBC
		m, ok := l.Context().(*meter)
		if names == 0 || !ok {
			return result
		}
		f := frameOf(l)
		t := f.values[f.base+int(instruction>>shiftA)&maskA].(*glua.LTable)
		in := inside(t)
		in.keys, in.k2i = make([]glua.LValue, 0, names), map[glua.LValue]int{}
		m.made(firstKeyBytes + keyBytes*names)
		return result
	}
}

// pairs yields what t.Next would. It is for tables that do not change meanwhile.
func pairs(t *glua.LTable) iter.Seq2[glua.LValue, glua.LValue] {
	return func(yield func(k, v glua.LValue) bool) {
		in := inside(t)
		for i, v := range in.array {
			if v != glua.LNil && !yield(glua.LNumber(i+1), v) {
				return
			}
		}
		for _, k := range in.keys {
			var v glua.LValue
			var ok bool
			if name, text := k.(glua.LString); text {
				v, ok = in.strdict[string(name)]
			} else {
				v, ok = in.dict[k]
			}
			if ok && v != glua.LNil && !yield(k, v) {
				return
			}
		}
	}
}
