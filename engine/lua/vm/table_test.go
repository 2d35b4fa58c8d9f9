package vm

import (
	"fmt"
	"testing"
)

// The tests of gopher-lua's tables that apply: what they hold of array parts, borders and keys.

func TestTableAppend(t *testing.T) {
	tb := NewTable(0, 0)
	tb.RawSetInt(1, LNumber(1))
	tb.RawSetInt(2, LNumber(2))
	tb.RawSetInt(3, LNumber(3))
	for i := 1; i <= 3; i++ {
		tb.RawSetInt(i, LNil)
	}
	tb.Append(LNumber(4))
	if tb.Len() != 1 || tb.RawGetInt(1) != LValue(LNumber(4)) {
		t.Errorf("%d elements, the first is %v", tb.Len(), tb.RawGetInt(1))
	}
}

func TestTableLen(t *testing.T) {
	tb := NewTable(0, 0)
	tb.RawSetInt(10, LNil)
	tb.RawSetInt(3, LNumber(3))
	if tb.Len() != 3 {
		t.Errorf("the length is %d", tb.Len())
	}
	tb.RawSetInt(3, LNil)
	if tb.Len() != 0 {
		t.Errorf("the length is %d", tb.Len())
	}
}

func TestTableRawSet(t *testing.T) {
	tb := NewTable(0, 0)
	keys := []LValue{
		LNumber(1), LNumber(0), LNumber(-1), LNumber(1.5), LNumber(MaxArrayIndex), LNumber(MaxArrayIndex - 1),
		LString("a"), LString(""), LString("1"), LTrue, LFalse, tb, &LFunction{}, &LUserData{},
	}
	for i, key := range keys {
		tb.RawSet(key, LNumber(i))
	}
	for i, key := range keys {
		if got := tb.RawGet(key); got != LValue(LNumber(i)) {
			t.Errorf("%v is %v, not %d", key, got, i)
		}
	}
	for _, key := range keys {
		tb.RawSet(key, LNil)
		if got := tb.RawGet(key); !IsNil(got) {
			t.Errorf("%v is %v after it was removed", key, got)
		}
	}
	m := &Meter{Left: 1 << 20}
	if k, _ := m.Next(tb, LNil); !IsNil(k) {
		t.Errorf("an empty table has the key %v", k)
	}
}

// TestTableNext goes over a table from which keys are removed meanwhile, and over keys that come back.
func TestTableNext(t *testing.T) {
	tb, m := NewTable(0, 0), &Meter{Left: 1 << 20}
	for i := range 200 {
		tb.RawSetString(fmt.Sprint("k", i), LNumber(i))
		tb.RawSetInt(i+1, LTrue)
	}
	seen := 0
	for k, _ := m.Next(tb, LNil); !IsNil(k); k, _ = m.Next(tb, k) {
		seen++
		tb.RawSet(k, LNil)
	}
	if seen != 400 {
		t.Errorf("%d keys of 400", seen)
	}
	tb.RawSetString("k7", LTrue)
	tb.RawSetString("new", LTrue)
	order := ""
	for k := range m.Pairs(tb) {
		order += k.String() + " "
	}
	if order != "k7 new " {
		t.Errorf("the order is %s", order)
	}
}

// stopping is a Control that allows nothing.
type stopping struct{}

func (stopping) GoesOn() bool    { return false }
func (stopping) Stopped() string { return "stopped" }
func (stopping) SettleMemory()   {}

func TestNextPaysForWhatWasRemoved(t *testing.T) {
	tb := NewTable(0, 0)
	for i := range 10_000 {
		tb.RawSetString(fmt.Sprint(i), LTrue)
	}
	tb.RawSetString("last", LTrue)
	for i := range 10_000 {
		tb.RawSetString(fmt.Sprint(i), LNil)
	}
	m := &Meter{Left: 6000, Control: stopping{}}
	if k, _ := m.Next(tb, LNil); k != LValue(LString("last")) || m.Left > 6000-10_000/2+skippedCost {
		t.Errorf("%v for %d instructions", k, 6000-m.Left)
	}
	m = &Meter{Left: 100, Control: stopping{}}
	if k, _ := m.Next(tb, LNil); !IsNil(k) {
		t.Errorf("%v without a budget", k)
	}
}
