package vm

import (
	"strings"
	"sync/atomic"
)

// Meter is what states pay at, before each instruction and for what instructions allocate. All of it belongs to the
// goroutine that runs the state, but Stop.
type Meter struct {
	Left    int64         // instructions until Control is asked
	Memory  int64         // bytes left before the machine calls Control
	Stop    atomic.Uint32 // if it is not 0, Control is asked before the next instruction
	Control Control
}

// Control is what decides when a Meter has run dry.
type Control interface {
	// GoesOn reports whether the call may go on.
	GoesOn() bool
	// Stopped returns what scripts see as the reason why it may not.
	Stopped() string
	// SettleMemory runs when Memory is below 0. It may stop the call.
	SettleMemory()
}

// Pay takes n instructions, yields the call's turn if it is asked for, and reports whether the call may go on.
func (m *Meter) Pay(n int) bool {
	m.Left -= int64(n)
	return m.Left >= 0 && m.Stop.Load() == 0 || m.Control.GoesOn()
}

// Made counts n bytes. When there were too many the call ends at its next instruction.
func (m *Meter) Made(n int) {
	if m.Memory -= int64(n); m.Memory < 0 {
		m.Control.SettleMemory()
	}
}

// Make counts n bytes that are about to be allocated, and reports whether the call may go on.
func (m *Meter) Make(n int) bool {
	m.Made(n)
	return m.Left >= 0 || m.Pay(0)
}

// Charge is Pay, and stops the script if it may not go on.
func (ls *LState) Charge(n int) {
	if !ls.Meter.Pay(n) {
		ls.stop()
	}
}

func (ls *LState) stop() { ls.RaiseError("%s", ls.Meter.Control.Stopped()) }

// Sizes of what instructions make, in bytes: what Go allocates over time for one, slices and maps that were outgrown
// included.
const (
	TableBytes    = 96
	ItemBytes     = 16   // of an array
	firstKeyBytes = 600  // maps and slices for keys, at the first one
	firstNameMore = 2300 // if it is text and the table was not made for names
	fewKeys       = 8    // fit what the first one made
	fewKeyBytes   = 50   // of these
	keyBytes      = 330  // of the others
	nameRoomBytes = 80   // for each name that a table is made for
	ClosureBytes  = 64
	upvalueBytes  = 56
)

// Footprint is what of a table tells how much it allocated.
type Footprint struct {
	items, keys int
	text        bool // it has room for names
}

// Footprint returns what it is now.
func (t *LTable) Footprint() Footprint {
	return Footprint{items: cap(t.array), keys: len(t.slots), text: t.names != nil}
}

// Since returns the bytes that a table allocated since it was as before.
func (f Footprint) Since(before Footprint) int {
	n := 0
	if f.items != before.items {
		n = ItemBytes * f.items
		if f.items > 2*max(before.items, firstItems) { // it grew in steps
			n *= 4
		}
	}
	if f.keys != before.keys {
		few := max(min(f.keys, fewKeys)-before.keys, 0)
		n += fewKeyBytes*few + keyBytes*(f.keys-before.keys-few)
		if before.keys == 0 {
			n += firstKeyBytes
		}
		if f.text && !before.text {
			n += firstNameMore
		}
	}
	return n
}

// OnlyNames reports whether all keys that there ever were are texts, and how many.
func (t *LTable) OnlyNames() (n int, ok bool) {
	return len(t.names), len(t.array) == 0 && len(t.others) == 0
}

// newTable makes the table of a constructor, which says how many elements and names there are. One that names none gets
// room for one.
func (ls *LState) newTable(items, names int) *LTable {
	switch {
	case names > 0:
		ls.Meter.Made(TableBytes + ItemBytes*items + (nameRoomBytes+ItemBytes)*names)
		t := NewTable(items, names)
		t.slots = make([]slot, 0, names)
		return t
	case items > 0:
		ls.Meter.Made(TableBytes + ItemBytes*items)
		return NewTable(items, 0)
	}
	ls.Meter.Made(TableBytes + nameRoomBytes)
	return NewTable(0, 1)
}

// set is t[key] = v of an instruction, which counts how the table grows. It refuses nil and NaN.
func (ls *LState) set(t *LTable, key, v LValue) {
	before := t.Footprint()
	ls.RawSet(t, key, v)
	if after := t.Footprint(); after != before {
		ls.Meter.Made(after.Since(before))
	}
}

// Set is set of a builtin: it stops the script if that is too much.
func (ls *LState) Set(t *LTable, key, v LValue) {
	if ls.set(t, key, v); ls.Meter.Left < 0 {
		ls.Charge(0)
	}
}

// comparedAtOnce and comparedPerInstruction are bytes.
const comparedAtOnce, comparedPerInstruction = 48 << 10, 64

// Compare is strings.Compare, and pays for what is long.
func (m *Meter) Compare(a, b string) int {
	for len(a) > comparedAtOnce && len(b) > comparedAtOnce {
		if c := strings.Compare(a[:comparedAtOnce], b[:comparedAtOnce]); c != 0 || !m.Pay(comparedAtOnce/comparedPerInstruction) {
			return c
		}
		a, b = a[comparedAtOnce:], b[comparedAtOnce:]
	}
	return strings.Compare(a, b)
}
