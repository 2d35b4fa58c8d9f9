package lua

import (
	"reflect"
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// gopher-lua leaves on a state's stack what was called, and with a function all that it
// refers to: a state that idles would keep what a call made. So the frames that a call
// used are emptied behind it. As in vm.go, what this relies on is checked when the first
// engine is made. (The registers are emptied by gopher-lua: TestIdleStatesKeepNothing.)

// callFrame is how gopher-lua lays out a frame of the stack.
type callFrame struct {
	Idx        int
	Fn         *glua.LFunction
	Parent     *callFrame
	Pc         int
	Base       int
	LocalBase  int
	ReturnBase int
	NArgs      int
	NRet       int
	TailCall   int
}

// frames is where gopher-lua keeps its stack of frames, beginning with the outermost.
type frames []callFrame

// stackOffset is where a state has the interface that its stack of frames is behind.
var stackOffset uintptr

// findFrames finds out where the stack of frames is. A state is needed to see what
// gopher-lua makes.
func findFrames() {
	l := glua.NewState(stateOptions())
	defer l.Close()
	field := fieldOf(reflect.TypeFor[glua.LState](), "stack")
	stack := reflect.ValueOf(l).Elem().FieldByIndex(field.Index).Elem()
	if field.Type.Kind() != reflect.Interface || stack.Kind() != reflect.Pointer {
		panic(wrongVersion())
	}
	array := fieldOf(stack.Type().Elem(), "array")
	if array.Offset != 0 || array.Type.Kind() != reflect.Slice || !sameFrame(array.Type.Elem()) ||
		stack.Elem().FieldByIndex(array.Index).Len() != callStackSize {
		panic(wrongVersion())
	}
	stackOffset = field.Offset
}

// sameFrame reports whether theirs is laid out as callFrame is.
func sameFrame(theirs reflect.Type) bool {
	ours := reflect.TypeFor[callFrame]()
	if theirs.Kind() != reflect.Struct || theirs.NumField() != ours.NumField() || theirs.Size() != ours.Size() {
		return false
	}
	for i := range ours.NumField() {
		a, b := ours.Field(i), theirs.Field(i)
		same := a.Type == b.Type || a.Type == reflect.PointerTo(ours) && b.Type == reflect.PointerTo(theirs)
		if a.Name != b.Name || a.Offset != b.Offset || !same {
			return false
		}
	}
	return true
}

// framesOf returns the frames of a state, all that it will ever have.
func framesOf(l *glua.LState) frames {
	type dynamic struct{ table, stack unsafe.Pointer } // an interface with methods
	stack := (*dynamic)(unsafe.Add(unsafe.Pointer(l), stackOffset)).stack
	return *(*frames)(stack)
}

// empty drops what the frames refer to, when no call is running. Used ones have no gap
// between them.
func (f frames) empty() {
	for i := range f {
		if f[i].Fn == nil {
			return
		}
		f[i].Fn = nil
	}
}
