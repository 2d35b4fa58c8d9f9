// Package values is what scripts find besides the values of the machine: libraries, null, and functions of Go.
package values

import (
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/lua/numeral"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Null is json.null.
var Null = &vm.LUserData{Metatable: nullMeta()}

func nullMeta() *vm.LTable {
	meta := &vm.LTable{}
	meta.RawSetString("__metatable", vm.LFalse)
	meta.RawSetString("__tostring", Builtin(func(l *vm.LState) int {
		return l.Return(vm.LString("null"))
	}))
	return meta
}

// Library is what the userdata of a library holds.
type Library struct{ Members *vm.LTable }

// Module is what a library is made of.
type Module struct {
	Name      string
	Functions map[string]vm.LGFunction
	Values    map[string]vm.LValue // that are no functions
}

// Protected returns a metatable that finds members in index, and that scripts
// can neither read nor replace.
func Protected(index *vm.LTable) *vm.LTable {
	meta := &vm.LTable{}
	meta.RawSetString("__index", index)
	meta.RawSetString("__metatable", vm.LFalse)
	return meta
}

// noEnv is the environment of builtins, which use none.
var noEnv = &vm.LTable{}

// Builtin returns fn as a function for scripts.
func Builtin(fn vm.LGFunction) *vm.LFunction {
	return &vm.LFunction{IsG: true, Env: noEnv, GFunction: fn}
}

// TypeName is what type() returns for v.
func TypeName(v vm.LValue) string {
	if IsLibrary(v) {
		return "table"
	}
	return v.Type().String()
}

// IsLibrary reports whether v is a library.
func IsLibrary(v vm.LValue) bool { return Members(v) != nil }

// Members returns what is in the library v; nil if it is none.
func Members(v vm.LValue) *vm.LTable {
	if ud, ok := v.(*vm.LUserData); ok {
		if lib, ok := ud.Value.(Library); ok {
			return lib.Members
		}
	}
	return nil
}

// Name is what messages call v: its type, save for the values that are
// userdata to Lua alone.
func Name(v vm.LValue) string {
	if v == vm.LValue(Null) {
		return "null"
	}
	return TypeName(v)
}

// KeyText is k for an error message.
func KeyText(k vm.LValue) string {
	switch k := k.(type) {
	case vm.LString:
		return hostapi.KeyText(string(k))
	case vm.LNumber:
		return numeral.Format(float64(k))
	}
	return Name(k)
}

// StringOf returns buf as a string; nobody may change it any more.
func StringOf(buf []byte) vm.LString {
	return vm.LString(unsafe.String(unsafe.SliceData(buf), len(buf)))
}
