package lua

import (
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// store is what the tables of a call share that are decoded when they are used. It keeps its memory for the next call.
type store struct {
	meter *vm.Meter
	owner owner

	members      []member // of the lazy objects that were made
	innerMembers []member // of the objects in them
	inner        []innerObject
	names        []span32 // of the objects that are being decoded
}

// owner is the call that a store belongs to.
type owner interface {
	// IsRequest reports whether the table has derived fields.
	IsRequest(t *vm.LTable) bool
	// Derived returns the derived field of the table.
	Derived(l *vm.LState, t *vm.LTable, name string) vm.LValue
	// Stopped returns why the call must end; nil if it may go on.
	Stopped() *script.Error
}

// caller is what vm.Global.Call implements.
type caller interface {
	Store() *store
}

// newStore returns the store of a call that pays at the meter.
func newStore(m *vm.Meter, o owner) store {
	fillMarks()
	return store{meter: m, owner: o}
}

// bytes returns how many bytes the store holds.
func (s *store) bytes() int {
	return (cap(s.members)+cap(s.innerMembers))*int(unsafe.Sizeof(member{})) +
		cap(s.inner)*int(unsafe.Sizeof(innerObject{})) + cap(s.names)*int(unsafe.Sizeof(span32{}))
}

// clear drops all that the call has decoded, and keeps the memory.
func (s *store) clear() {
	s.names, s.members, s.innerMembers, s.inner = s.names[:0], emptied(s.members), emptied(s.innerMembers), emptied(s.inner)
}

// trim drops the memory.
func (s *store) trim() { s.members, s.innerMembers, s.inner, s.names = nil, nil, nil, nil }

// emptied returns s without its elements, and with its memory.
func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}
