package luajson

import (
	"unsafe"

	"github.com/scriptorium-dev/scriptorium/engine/lua/vm"
	"github.com/scriptorium-dev/scriptorium/script"
)

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
