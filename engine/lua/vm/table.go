package vm

import "iter"

// MaxArrayIndex is where a table's array part ends; keys from there on live in its slots. One assignment to a high index
// would otherwise allocate up to it.
const MaxArrayIndex = 8192

// firstItems is how many an array has room for when it has room.
const firstItems = 32

// LTable is a table. The zero table is empty.
type LTable struct {
	Metatable *LTable // nil if there is none
	// Lazy has members that the table itself has not; nil if there are none.
	Lazy Lazy
	// Behind is where globals are found whose environment this is, if nothing is ever assigned to it.
	Behind *LTable

	array  []LValue
	slots  []slot           // all keys that there ever were, in order
	names  map[string]int32 // where slots has a text
	others map[LValue]int32 // and any other key
}

// slot is a key with its value, nil if it has none any more.
type slot struct{ key, value LValue }

// Lazy is what a table's members are made of.
type Lazy interface {
	// Member returns the member with the name; nil if what __index says counts.
	Member(l *LState, name string) LValue
}

// NewTable returns a table with room.
func NewTable(items, names int) *LTable {
	t := &LTable{}
	if items > 0 {
		t.array = make([]LValue, 0, items)
	}
	if names > 0 {
		t.names = make(map[string]int32, names)
	}
	return t
}

// Len returns a border of the array part.
func (t *LTable) Len() int {
	for n := len(t.array); n > 0; n-- {
		if !IsNil(t.array[n-1]) {
			return n
		}
	}
	return 0
}

// Append sets the element after the last one.
func (t *LTable) Append(v LValue) { t.RawSetInt(t.Len()+1, v) }

// arrayKey returns the index that a key has in the array part, from 1; 0 if it has none.
func arrayKey(n LNumber) int {
	if n >= 1 && n < MaxArrayIndex {
		if i := int(n); LNumber(i) == n {
			return i
		}
	}
	return 0
}

// RawSet sets t[key], which is neither nil nor NaN.
func (t *LTable) RawSet(key, v LValue) {
	switch k := key.(type) {
	case LNumber:
		if i := arrayKey(k); i > 0 {
			t.setItem(i, v)
			return
		}
	case LString:
		t.setName(string(k), key, v)
		return
	}
	t.setOther(key, v)
}

// RawSetInt is RawSet for an integer.
func (t *LTable) RawSetInt(i int, v LValue) {
	if i < 1 || i >= MaxArrayIndex {
		t.setOther(LNumber(i), v)
		return
	}
	t.setItem(i, v)
}

// RawSetString is RawSet for a text.
func (t *LTable) RawSetString(name string, v LValue) { t.setName(name, nil, v) }

func (t *LTable) setItem(i int, v LValue) {
	switch n := len(t.array); {
	case i <= n:
		t.array[i-1] = v
		return
	case t.array == nil:
		t.array = make([]LValue, 0, firstItems)
	}
	for len(t.array) < i-1 {
		t.array = append(t.array, LNil)
	}
	t.array = append(t.array, v)
}

// setName sets a member. key is the name as a value, or nil.
func (t *LTable) setName(name string, key, v LValue) {
	if IsNil(v) {
		v = nil
	}
	if i, ok := t.names[name]; ok {
		t.slots[i].value = v
		return
	}
	if v == nil {
		return
	}
	if t.names == nil {
		t.names = map[string]int32{}
	}
	if key == nil {
		key = LString(name)
	}
	t.names[name] = int32(len(t.slots)) //nolint:gosec // memory ends before
	t.slots = append(t.slots, slot{key, v})
}

func (t *LTable) setOther(key, v LValue) {
	if IsNil(v) {
		v = nil
	}
	if i, ok := t.others[key]; ok {
		t.slots[i].value = v
		return
	}
	if v == nil {
		return
	}
	if t.others == nil {
		t.others = map[LValue]int32{}
	}
	t.others[key] = int32(len(t.slots)) //nolint:gosec // memory ends before
	t.slots = append(t.slots, slot{key, v})
}

// name returns a member; nil if there is none.
func (t *LTable) name(name string) LValue {
	if i, ok := t.names[name]; ok {
		return t.slots[i].value
	}
	return nil
}

// get returns t[key]; nil or LNil if there is none.
func (t *LTable) get(key LValue) LValue {
	switch k := key.(type) {
	case LNumber:
		if i := arrayKey(k); i > 0 {
			if i <= len(t.array) {
				return t.array[i-1]
			}
			return nil
		}
	case LString:
		return t.name(string(k))
	}
	if i, ok := t.others[key]; ok {
		return t.slots[i].value
	}
	return nil
}

func orNil(v LValue) LValue {
	if v == nil {
		return LNil
	}
	return v
}

// RawGet returns t[key].
func (t *LTable) RawGet(key LValue) LValue { return orNil(t.get(key)) }

// RawGetInt is RawGet for an integer.
func (t *LTable) RawGetInt(i int) LValue {
	if i >= 1 && i <= len(t.array) {
		return t.array[i-1]
	}
	if i < 1 || i >= MaxArrayIndex {
		return t.RawGet(LNumber(i))
	}
	return LNil
}

// RawGetString is RawGet for a text.
func (t *LTable) RawGetString(name string) LValue { return orNil(t.name(name)) }

// Skipped is how many keys of what was removed are stepped over before they are paid for, and skippedCost what for.
const Skipped, skippedCost = 64, 32

// Next returns the key after key and its value, first of the array part, and nil after the last one. What was removed is
// stepped over, and paid for. It ends early when the call is to end.
func (m *Meter) Next(t *LTable, key LValue) (LValue, LValue) {
	at, first, steps := 0, IsNil(key), 0
	if n, ok := key.(LNumber); ok && arrayKey(n) > 0 {
		at = int(n)
	} else if !first {
		at = len(t.array) + 1
	}
	for ; at < len(t.array); at++ {
		if v := t.array[at]; !IsNil(v) {
			return LNumber(at + 1), v
		}
		if steps++; steps%Skipped == 0 && !m.Pay(skippedCost) {
			return LNil, LNil
		}
	}
	from := 0
	if at > len(t.array) {
		from = int(t.slotOf(key)) + 1
	}
	for _, s := range t.slots[min(from, len(t.slots)):] {
		if s.value != nil {
			return s.key, s.value
		}
		if steps++; steps%Skipped == 0 && !m.Pay(skippedCost) {
			break
		}
	}
	return LNil, LNil
}

// slotOf returns where the key is among the slots.
func (t *LTable) slotOf(key LValue) int32 {
	if name, ok := key.(LString); ok {
		return t.names[string(name)]
	}
	return t.others[key]
}

// Pairs yields what Next would. It is for tables that do not change meanwhile.
func (m *Meter) Pairs(t *LTable) iter.Seq2[LValue, LValue] {
	return func(yield func(k, v LValue) bool) {
		for i, v := range t.array {
			if !IsNil(v) && !yield(LNumber(i+1), v) {
				return
			}
		}
		for i, s := range t.slots {
			if i%Skipped == Skipped-1 && !m.Pay(0) {
				return
			}
			if s.value != nil && !yield(s.key, s.value) {
				return
			}
		}
	}
}

// ForEach calls f with each key and value. It is for tables that are not a script's.
func (t *LTable) ForEach(f func(k, v LValue)) {
	for k, v := range (&Meter{Left: 1}).Pairs(t) {
		f(k, v)
	}
}
