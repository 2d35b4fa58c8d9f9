// Package luajson turns JSON into values of Lua, and back. An object of JSON becomes a table whose members stay text
// until the script asks for them (Object). Reading and writing are paid for at the meter of the call.
//
// Arrays become tables that remember that they are arrays, so that an empty one is still [] on the way back. An object
// remembers its null members, and has them again on the way out unless the script has assigned to them. nil is null on
// the way out. Unmarked tables with keys 1 to n are arrays, others are objects, whose members keep the order in which
// they were first set; {} is an object. All numbers are doubles: integers beyond 2^53 lose digits.
package luajson

import (
	"sync"
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/lua/values"
	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
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
		return l.Return(vm.LNil)
	}
	return l.Return(l.G.Call.(caller).Store().owner.Derived(l, t, string(name)))
}

// Store is the memory that the tables of a call share whose members are decoded on use. It keeps its memory for the next call.
type Store struct {
	meter *vm.Meter
	owner Owner

	members      []member // of the lazy objects that were made
	innerMembers []member // of the objects in them
	inner        []innerObject
	names        []span32 // of the objects that are being decoded
}

// Owner is the call that a store belongs to.
type Owner interface {
	// IsRequest reports whether the table has derived fields.
	IsRequest(t *vm.LTable) bool
	// Derived returns the derived field of the table.
	Derived(l *vm.LState, t *vm.LTable, name string) vm.LValue
	// Stopped returns why the call must end; nil if it may go on.
	Stopped() *script.Error
}

// caller is what vm.Global.Call implements.
type caller interface {
	Store() *Store
}

// NewStore returns the store of a call that pays at the meter.
func NewStore(m *vm.Meter, o Owner) Store {
	fillMarks()
	return Store{meter: m, owner: o}
}

// Bytes returns how many bytes the store holds.
func (s *Store) Bytes() int {
	return (cap(s.members)+cap(s.innerMembers))*int(unsafe.Sizeof(member{})) +
		cap(s.inner)*int(unsafe.Sizeof(innerObject{})) + cap(s.names)*int(unsafe.Sizeof(span32{}))
}

// Clear drops all that the call has decoded, and keeps the memory.
func (s *Store) Clear() {
	s.names, s.members, s.innerMembers, s.inner = s.names[:0], emptied(s.members), emptied(s.innerMembers), emptied(s.inner)
}

// Trim drops the memory.
func (s *Store) Trim() { s.members, s.innerMembers, s.inner, s.names = nil, nil, nil, nil }

// emptied returns s without its elements, and with its memory.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}
