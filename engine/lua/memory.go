package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// What a call allocates is counted, by estimates that are rather too high, and a call
// may allocate leastAllowance and bytesForInstruction for each instruction of its budget,
// 9 MB by default, but no more than maxAllowance. What it drops counts too, so that neither what lives nor what waits to be
// collected can be more. Builtins count what they make; vm.go counts what
// instructions make.

// bytesForInstruction is how many bytes a call may allocate for each instruction of
// its budget. (What is not counted, the numbers of a loop above all, is not more than
// that again, and dropped at once.)
const bytesForInstruction = 8

// leastAllowance is what a call may allocate besides.
const leastAllowance = 1 << 20

// maxAllowance is what a call may allocate at most, however many instructions it has:
// the highest budgets are for those who compute for long, not for those who fill memory.
const maxAllowance = 64 << 20

// Sizes of what scripts make, in bytes: what Go allocates over time for one, slices
// and maps that were outgrown included.
const (
	tableBytes    = 96
	itemBytes     = 16   // of an array
	firstItems    = 32   // an array has room for, when it has room
	firstKeyBytes = 600  // maps and slices for keys, at the first one
	firstNameMore = 2300 // if it is text and the table was not made for names
	fewKeys       = 8    // fit what the first one made
	fewKeyBytes   = 50   // of these
	keyBytes      = 330  // of the others
	nameRoomBytes = 80   // for each name that a table is made for
	closureBytes  = 64
	upvalueBytes  = 56
	iteratorBytes = 256 // of gmatch
	stringBytes   = 32  // besides its bytes
	lazyBytes     = 280
	memberBytes   = 140
	errorBytes    = 2400
	deepErrorMore = 90_000 // if it came from so deep that its traceback was cut
)

// made counts n bytes. When there were too many the call ends at its next
// instruction.
func (m *meter) made(n int) {
	if m.memory -= int64(n); m.memory < 0 {
		m.settleMemory()
	}
}

// reserve makes some of what may be allocated what may be allocated now.
func (m *meter) reserve() (bytes int64) {
	bytes = min(m.unused, max(accountedAtOnce, -m.memory))
	m.memory += bytes
	m.unused -= bytes
	return bytes
}

// settleMemory counts what was allocated in the tenant's account, and ends the call at its
// next instruction when it was too much.
func (m *meter) settleMemory() {
	bytes := m.reserve()
	why := outOfAllowance
	if m.memory >= 0 {
		why = running
	}
	if m.call != nil && m.call.program != nil && bytes > 0 {
		a := m.account.Load()
		if a == nil {
			a = m.call.program.engine.accounts.open(m.call.inv.Tenant)
			m.account.Store(a)
		}
		m.counted += bytes
		if all, share := a.bytes.Add(bytes), m.call.inv.Memory; share > 0 && all > share && why == running {
			why = outOfShare
		}
	}
	if why != running && m.reason == running {
		m.reason = why
		m.exhaust()
	}
}

// closeAccount takes what was allocated out of the tenant's account.
func (m *meter) closeAccount(of *accounts, tenant string) {
	if m.counted > 0 {
		of.close(tenant, m.account.Swap(nil), m.counted)
		m.counted = 0
	}
}

// allocatable returns how many bytes the call may still allocate.
func (m *meter) allocatable() int64 { return m.memory + m.unused }

// make counts n bytes that are about to be allocated, and stops the script if they
// are too many.
func (m *meter) make(l *glua.LState, n int) {
	if m.made(n); m.left < 0 {
		m.charge(l, 0)
	}
}

// allowance returns the bytes that a call may allocate.
func (m *meter) allowance() int64 {
	instructions := int64(min(m.limits.Instructions, maxAllowance))
	return min(leastAllowance+instructions*bytesForInstruction, maxAllowance)
}

// footprint is what of a table tells how much it allocated.
type footprint struct {
	items, keys int
	text        bool // it has room for names
}

func footprintOf(t *glua.LTable) footprint {
	in := inside(t)
	return footprint{items: cap(in.array), keys: len(in.keys), text: in.strdict != nil}
}

// since returns the bytes that a table allocated since it was as before.
func (f footprint) since(before footprint) int {
	n := 0
	if f.items != before.items {
		n = itemBytes * f.items
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

// assigned returns the table that grows when a new key of t is assigned to, where
// __newindex leads; nil if that is a function, whose assignments count as they are
// made.
func assigned(t *glua.LTable) *glua.LTable {
	for range glua.MaxTableGetLoop {
		meta, ok := t.Metatable.(*glua.LTable)
		if !ok {
			return t
		}
		switch next := meta.RawGetString("__newindex").(type) {
		case *glua.LNilType:
			return t
		case *glua.LTable:
			t = next
		default:
			return nil
		}
	}
	return nil // gopher-lua gives up, too
}

// setIndex is t[key] = v of a builtin.
func setIndex(l *glua.LState, t *glua.LTable, key int, v glua.LValue) {
	before := footprintOf(t)
	t.RawSetInt(key, v)
	if after := footprintOf(t); after != before {
		meterOf(l).make(l, after.since(before))
	}
}

// setRaw is setIndex for any key; it refuses nil and NaN.
func setRaw(l *glua.LState, t *glua.LTable, key, v glua.LValue) {
	if nulls := nullsOf(t); nulls != nil {
		if name, ok := key.(glua.LString); ok {
			nulls.RawSetString(string(name), glua.LNil)
		}
	}
	before := footprintOf(t)
	l.RawSet(t, key, v)
	if after := footprintOf(t); after != before {
		meterOf(l).make(l, after.since(before))
	}
}

// errorSize returns how many bytes an error that was caught has cost.
func errorSize(err *glua.ApiError) int {
	n := errorBytes
	if strings.Contains(err.StackTrace, "...") {
		n += deepErrorMore
	}
	return n
}

// makeTable counts a table that a builtin is about to hand out.
func (m *meter) makeTable(l *glua.LState, t *glua.LTable) {
	m.make(l, tableBytes+footprintOf(t).since(footprint{}))
}

// makeString counts a string of n bytes, and what it is put together in.
func (m *meter) makeString(l *glua.LState, n int) { m.make(l, stringBytes+2*n) }
