package lua

import (
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// null is json.null.
var null = &vm.LUserData{Metatable: nullMeta()}

func nullMeta() *vm.LTable {
	meta := &vm.LTable{}
	meta.RawSetString("__metatable", vm.LFalse)
	meta.RawSetString("__tostring", builtin(func(l *vm.LState) int {
		l.Push(vm.LString("null"))
		return 1
	}))
	return meta
}

// library is what the userdata of a library holds.
type library struct{ members *vm.LTable }

// module is what a library is made of.
type module struct {
	Name      string
	Functions map[string]vm.LGFunction
	Values    map[string]vm.LValue // that are no functions
}

// protected returns a metatable that finds members in index, and that scripts
// can neither read nor replace.
func protected(index *vm.LTable) *vm.LTable {
	meta := &vm.LTable{}
	meta.RawSetString("__index", index)
	meta.RawSetString("__metatable", vm.LFalse)
	return meta
}

// noEnv is the environment of builtins, which use none.
var noEnv = &vm.LTable{}

// builtin returns fn as a function for scripts.
func builtin(fn vm.LGFunction) *vm.LFunction {
	return &vm.LFunction{IsG: true, Env: noEnv, GFunction: fn}
}

// typeName is what type() returns for v.
func typeName(v vm.LValue) string {
	if isLibrary(v) {
		return "table"
	}
	return v.Type().String()
}

func isLibrary(v vm.LValue) bool { return libraryMembers(v) != nil }

// libraryMembers returns what is in the library v; nil if it is none.
func libraryMembers(v vm.LValue) *vm.LTable {
	if ud, ok := v.(*vm.LUserData); ok {
		if lib, ok := ud.Value.(library); ok {
			return lib.members
		}
	}
	return nil
}

// valueName is what messages call v: its type, save for the values that are
// userdata to Lua alone.
func valueName(v vm.LValue) string {
	if v == vm.LValue(null) {
		return "null"
	}
	return typeName(v)
}

// keyText is k for an error message.
func keyText(k vm.LValue) string {
	switch k := k.(type) {
	case vm.LString:
		return hostapi.KeyText(string(k))
	case vm.LNumber:
		return numeral.Format(float64(k))
	}
	return valueName(k)
}

// stringOf returns buf as a string; nobody may change it any more.
func stringOf(buf []byte) vm.LString {
	return vm.LString(unsafe.String(unsafe.SliceData(buf), len(buf)))
}
