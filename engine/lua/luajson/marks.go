// Package luajson turns JSON into values of Lua, and back. An object of JSON becomes a table whose members stay text
// until the script asks for them (Object). Reading and writing are paid for at the meter of the call.
package luajson

import (
	"sync"

	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
)

// Metatables that mark tables. Scripts see none of them.
var (
	arrayMark   = &vm.LTable{} // an array of JSON
	lazyMark    = &vm.LTable{} // a lazy object
	requestMark = &vm.LTable{} // a request that was lazy
	nullsMark   = &vm.LTable{} // what was lazy and has null members; it may be a request
)

// fillMarks gives the marks their members, before there is a table with one of them.
var fillMarks = sync.OnceFunc(func() {
	lazyMark.RawSetString("__index", values.Builtin(lazyIndex))
	lazyMark.RawSetString("__newindex", values.Builtin(lazyNewIndex))
	requestMark.RawSetString("__index", values.Builtin(requestIndex))
	nullsMark.RawSetString("__index", values.Builtin(requestIndex))
	nullsMark.RawSetString("__newindex", values.Builtin(nullsNewIndex))
})

// IsMarked reports whether v is a table whose metatable is a mark: for scripts it has none.
func IsMarked(v vm.LValue) bool {
	t, ok := v.(*vm.LTable)
	if !ok || t.Metatable == nil {
		return false
	}
	m := t.Metatable
	return m == arrayMark || m == requestMark || m == nullsMark || m == lazyMark
}

// MarkArray makes t an array.
func MarkArray(t *vm.LTable) { t.Metatable = arrayMark }

// Fields of a request that the engine derives from others when a script reads them. They are no
// members of the table: pairs does not show them, and a result does not have them.
const (
	CookiesField = "cookies"
	QueryField   = "query_params"
)

func isDerived(name string) bool { return name == CookiesField || name == QueryField }

// requestIndex is __index of a request that is not lazy any more.
func requestIndex(l *vm.LState) int {
	t, isTable := l.Get(1).(*vm.LTable)
	name, isText := l.Get(2).(vm.LString)
	if !isTable || !isText || !isDerived(string(name)) {
		l.Push(vm.LNil)
		return 1
	}
	l.Push(l.G.Call.(caller).Store().owner.Derived(l, t, string(name)))
	return 1
}
