package lua

import (
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
)

// Reading a member of a lazy object is what most scripts do most, and gopher-lua does
// it by a call of a function, some 300 ns; finding a builtin takes it up to five maps
// on the way from the environment to the library's members; and filling the table that
// a script returns hashes each name four times. Here each is done at once. As in vm.go,
// what this relies on is checked when the first engine is made.

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
	operations[glua.OP_GETGLOBAL] = quickGlobal(operations[glua.OP_GETGLOBAL])
	operations[glua.OP_SELF] = quickMethod(operations[glua.OP_SELF])
	operations[glua.OP_GETTABLEKS] = quickIndex(operations[glua.OP_GETTABLEKS])
	operations[glua.OP_SETTABLEKS] = quickAssign(countGrowth(operations[glua.OP_SETTABLEKS]))
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
	fn        *glua.LFunction
}

func frameOf(l *glua.LState) frame {
	registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
	current := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.frame))
	return frame{
		registers: registers,
		values:    *(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values)),
		base:      *(*int)(unsafe.Add(current, stateLayout.base)),
		fn:        *(**glua.LFunction)(unsafe.Add(current, stateLayout.fn)),
	}
}

// registers returns what a state's registers hold, unused ones included.
func registers(l *glua.LState) []glua.LValue {
	registers := *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(l), stateLayout.registers))
	return *(*[]glua.LValue)(unsafe.Add(registers, stateLayout.values))
}

// operand returns the value of B or C.
func (f *frame) operand(n int) glua.LValue {
	if n&constantOperand != 0 {
		return f.fn.Proto.Constants[n&^constantOperand]
	}
	return f.values[f.base+n]
}

// quickIndex wraps A := B[C], with C a name.
func quickIndex(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		name, ok := f.operand(int(instruction>>shiftC) & maskBC).(glua.LString)
		if !ok {
			return next(l, instruction, base)
		}
		var value glua.LValue
		switch v := f.values[f.base+int(instruction&maskBC)].(type) {
		case *glua.LTable:
			if o := lazyOf(v); o != nil && len(o.members) <= lazyMembers {
				value = o.get(callOf(l), string(name))
				if isNil(value) && isDerived(string(name)) {
					value = nil // lazyIndex may raise errors
				}
			}
		case *glua.LUserData:
			if lib, ok := v.Value.(library); ok {
				value = inside(lib.members).strdict[string(name)]
			}
		}
		if value == nil {
			return next(l, instruction, base)
		}
		setRegister(f.registers, f.base+int(instruction>>shiftA)&maskA, value)
		return 0
	}
}

// quickGlobal wraps A := what is called Bx, for programs that set no globals.
func quickGlobal(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		b := sandbox()
		var globals *glua.LTable
		switch f.fn.Env {
		case b.bareEnv:
			globals = b.base
		case b.withoutBareEnv:
			globals = b.without
		default:
			return next(l, instruction, base)
		}
		name, _ := f.fn.Proto.Constants[instruction&maskBx].(glua.LString)
		value, ok := inside(globals).strdict[string(name)]
		if !ok {
			return next(l, instruction, base)
		}
		setRegister(f.registers, f.base+int(instruction>>shiftA)&maskA, value)
		return 0
	}
}

// quickMethod wraps A, A+1 := B[C], B, where B is a string.
func quickMethod(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		receiver := f.values[f.base+int(instruction&maskBC)]
		if _, ok := receiver.(glua.LString); !ok {
			return next(l, instruction, base)
		}
		name, _ := f.operand(int(instruction>>shiftC) & maskBC).(glua.LString)
		method, ok := inside(sandbox().strings).strdict[string(name)]
		if !ok {
			return next(l, instruction, base)
		}
		a := f.base + int(instruction>>shiftA)&maskA
		setRegister(f.registers, a, method)
		setRegister(f.registers, a+1, receiver)
		return 0
	}
}

// isNil is v == glua.LNil, without a call.
func isNil(v glua.LValue) bool {
	_, is := v.(*glua.LNilType)
	return is
}

// quickAssign wraps A[B] := C, with B a name, where A is a plain table and C is
// something.
func quickAssign(next execute) execute {
	return func(l *glua.LState, instruction uint32, base unsafe.Pointer) int {
		f := frameOf(l)
		t, ok := f.values[f.base+int(instruction>>shiftA)&maskA].(*glua.LTable)
		if !ok || !isNil(t.Metatable) {
			return next(l, instruction, base)
		}
		in := inside(t)
		key := f.operand(int(instruction & maskBC))
		name, ok := key.(glua.LString)
		value := f.operand(int(instruction>>shiftC) & maskBC)
		if !ok || in.strdict == nil || in.keys == nil || isNil(value) {
			return next(l, instruction, base)
		}
		before := len(in.strdict)
		in.strdict[string(name)] = value
		if len(in.strdict) == before {
			return 0
		}
		known := len(in.keys) > before // or all that there ever were have values, and are others
		if known {
			_, known = in.k2i[key]
		}
		if !known {
			room := footprintOf(t)
			in.k2i[key] = len(in.keys)
			in.keys = append(in.keys, key)
			if m, ok := l.Context().(*meter); ok {
				m.made(footprintOf(t).since(room))
			}
		}
		return 0
	}
}

// skipped is how many keys of what was removed are stepped over before they are paid for.
const skipped = 64

// next returns the key after key and its value, as t.Next does, in which one step goes over
// all that was removed: here that is charged. It ends early when the call is to end.
func (m *meter) next(t *glua.LTable, key glua.LValue) (glua.LValue, glua.LValue) {
	in := inside(t)
	at, first := 0, isNil(key)
	if n, ok := key.(glua.LNumber); ok && n > 0 && n < maxArrayIndex && n == glua.LNumber(int(n)) {
		at = int(n)
	} else if !first {
		at = len(in.array) + 1
	}
	steps := 0
	for ; at < len(in.array); at++ {
		if v := in.array[at]; !isNil(v) {
			return glua.LNumber(at + 1), v
		}
		if steps++; steps%skipped == 0 && !m.pay(skipped/hostapi.KeysPerInstruction) {
			return glua.LNil, glua.LNil
		}
	}
	from := 0
	if at > len(in.array) {
		from = in.k2i[key] + 1
	}
	for _, k := range in.keys[min(from, len(in.keys)):] {
		if v := in.value(k); v != nil {
			return k, v
		}
		if steps++; steps%skipped == 0 && !m.pay(skipped/hostapi.KeysPerInstruction) {
			break
		}
	}
	return glua.LNil, glua.LNil
}

// value returns the value of a key that is not in the array; nil if there is none.
func (in *tableInside) value(k glua.LValue) glua.LValue {
	var v glua.LValue
	var ok bool
	if name, text := k.(glua.LString); text {
		v, ok = in.strdict[string(name)]
	} else {
		v, ok = in.dict[k]
	}
	if !ok || isNil(v) {
		return nil
	}
	return v
}

// pairs yields what next would. It is for tables that do not change meanwhile.
func (m *meter) pairs(t *glua.LTable) iter.Seq2[glua.LValue, glua.LValue] {
	return func(yield func(k, v glua.LValue) bool) {
		in := inside(t)
		for i, v := range in.array {
			if !isNil(v) && !yield(glua.LNumber(i+1), v) {
				return
			}
		}
		for i, k := range in.keys {
			if i%skipped == skipped-1 && !m.pay(0) {
				return
			}
			if v := in.value(k); v != nil && !yield(k, v) {
				return
			}
		}
	}
}
