package vm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

func newTestState(calls, values int) *LState {
	m := &Meter{Left: math.MaxInt64, Memory: math.MaxInt64, Control: stopping{}}
	return NewState(m, Options{Calls: calls, Values: 16, MaxValues: values, Grow: 8})
}

// load compiles a source that has its globals in env.
func load(t *testing.T, env *LTable, source string) *LFunction {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(source), "test")
	if err != nil {
		t.Fatal(err)
	}
	proto, err := glua.Compile(chunk, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &LFunction{Proto: NewProto(proto, func(string) LValue { return nil }), Env: env}
}

func TestStackOfValues(t *testing.T) {
	ls := newTestState(8, 64)
	for i := 1; i <= 40; i++ { // more than a fresh one has room for
		ls.Push(LNumber(i))
	}
	ls.Insert(LString("x"), 2)
	if ls.GetTop() != 41 || ls.Get(2) != LValue(LString("x")) || ls.Get(3) != LValue(LNumber(2)) || ls.Get(-1) != LValue(LNumber(40)) {
		t.Errorf("%d values: ..., %v, %v, ..., %v", ls.GetTop(), ls.Get(2), ls.Get(3), ls.Get(-1))
	}
	if !IsNil(ls.Get(42)) || !IsNil(ls.Get(0)) || !IsNil(ls.Get(-42)) {
		t.Error("there are values outside of the stack")
	}
	ls.SetTop(2)
	ls.SetTop(3)
	if !IsNil(ls.Get(3)) {
		t.Errorf("the third is %v", ls.Get(3))
	}
	ls.Pop(3)
	if ls.Keeps() {
		t.Error("it keeps what was popped")
	}
}

// TestBoundsOfStacks has each bound met in a call that is caught, after which the state is as before.
func TestBoundsOfStacks(t *testing.T) {
	env := &LTable{}
	for source, want := range map[string]string{
		"local function f() return 1 + f() end return f()": "test:1: stack overflow",
		"local function f() return f() end return f()":     "test:1: stack overflow",
		"local function f(...) return f(1, ...) end f()":   "overflow",
		"return nothing.x":     "test:1: attempt to index a nil value",
		"nothing()":            "test:1: attempt to call a nil value",
		"return {} + 1":        "test:1: attempt to perform arithmetic on a table value",
		"return 1 < 'a'":       "test:1: attempt to compare number with string",
		"for i = 1, {} do end": "test:1: 'for' limit must be a number",
	} {
		ls := newTestState(100, 2000)
		for range 3 {
			ls.Push(load(t, env, source))
			err := ls.PCall(0, MultRet)
			if err == nil || !strings.Contains(err.Error(), want) || err.Cause != nil {
				t.Errorf("%s: %v, want %s", source, err, want)
			}
			if ls.GetTop() != 0 || ls.Frame() != nil {
				t.Errorf("%s: %d values are left", source, ls.GetTop())
			}
		}
		if ls.Forget(); ls.Keeps() {
			t.Errorf("%s: it keeps what the call has made", source)
		}
	}
}

// TestTheMeterIsAskedBeforeEachInstruction: a loop without a builtin ends, too.
func TestTheMeterIsAskedBeforeEachInstruction(t *testing.T) {
	for _, source := range []string{"while true do end", "repeat until false", "for i = 1, 1e9 do end", "::a:: goto a"} {
		ls := newTestState(100, 2000)
		ls.Meter.Left = 1000
		ls.Push(load(t, &LTable{}, source))
		if err := ls.PCall(0, 0); err == nil || err.Error() != "test:1: stopped" {
			t.Errorf("%s: %v", source, err)
		}
		ls = newTestState(100, 2000)
		ls.Meter.Stop.Store(1)
		ls.Push(load(t, &LTable{}, source))
		if err := ls.PCall(0, 0); err == nil || err.Error() != "test:1: stopped" {
			t.Errorf("%s after a stop: %v", source, err)
		}
	}
}

// TestErrorsCloseWhatTheyEnd: after an error was caught, variables of functions that go on are still shared.
func TestErrorsCloseWhatTheyEnd(t *testing.T) {
	env := &LTable{}
	env.RawSetString("pcall", &LFunction{IsG: true, GFunction: func(l *LState) int {
		if l.PCall(l.GetTop()-1, MultRet) != nil {
			l.Push(LFalse)
			return 1
		}
		return l.GetTop()
	}})
	ls := newTestState(100, 2000)
	ls.Push(load(t, env, `
		local n, inner = 1
		local function get() return n end
		pcall(function() local kept = 5 inner = function() return kept end nothing() end)
		n = 2
		return get(), inner()`))
	if err := ls.PCall(0, MultRet); err != nil || ls.Get(1) != LValue(LNumber(2)) || ls.Get(2) != LValue(LNumber(5)) {
		t.Errorf("%v, %v, %v", err, ls.Get(1), ls.Get(2))
	}
}

func TestThreads(t *testing.T) {
	env := &LTable{}
	env.RawSetString("yield", &LFunction{IsG: true, GFunction: func(*LState) int { return Yield }})
	ls := newTestState(100, 2000)
	fn := load(t, env, `local a, b = ... local c, d = yield(b, a) local e = yield() return e, d, c`)
	th := ls.NewThread(fn, Options{Calls: 10, Values: 2, MaxValues: 200, Grow: 8})
	resume := func(args ...LValue) string {
		for _, v := range args {
			ls.Push(v)
		}
		n, failure := ls.Resume(th, len(args))
		if failure != nil {
			return failure.String()
		}
		text := ""
		for i := range n {
			text += ls.Get(i+1).String() + " "
		}
		ls.Pop(n)
		return text
	}
	for i, step := range []struct {
		args []LValue
		want string
	}{
		{[]LValue{LNumber(1), LNumber(2)}, "2 1 "},
		{[]LValue{LNumber(3)}, ""},
		{[]LValue{LNumber(4), LNumber(5)}, "4 nil 3 "},
	} {
		if got := resume(step.args...); got != step.want || th.Dead != (i == 2) {
			t.Errorf("step %d: %q, dead: %v", i, got, th.Dead)
		}
	}
	th = ls.NewThread(load(t, env, `local x = ... return x.y`), Options{Calls: 10, Values: 2, MaxValues: 200, Grow: 8})
	if got := resume(); got != "test:1: attempt to index a nil value" || !th.Dead || ls.GetTop() != 0 {
		t.Errorf("%q, %d values", got, ls.GetTop())
	}
}

// TestConstantsAreNoRegisters: a function may have more constants than its thread has room for values.
func TestConstantsAreNoRegisters(t *testing.T) {
	source := "local t, k = {}, {} "
	for i := range 120 {
		source += fmt.Sprintf("t.n%d = %d.5 t[%d.5] = t.n%d k = t[%d.5] ", i, i, i, i, i)
	}
	ls := newTestState(100, 2000)
	th := ls.NewThread(load(t, &LTable{}, source+"return t.n119, t[119.5], k"), Options{Calls: 10, Values: 2, MaxValues: 200, Grow: 1})
	if n, failure := ls.Resume(th, 0); failure != nil || n != 3 || ls.Get(1) != LValue(LNumber(119.5)) || ls.Get(3) != LValue(LNumber(119.5)) {
		t.Errorf("%d results, %v: %v", n, failure, ls.Get(1))
	}
}

func TestNumbersKeepTheirSigns(t *testing.T) {
	var a numbers
	for _, n := range []float64{0, math.Copysign(0, -1), 1, 255, 256, -1, 0.5, math.Inf(1), math.NaN()} {
		if got := float64(a.value(LNumber(n)).(LNumber)); math.Float64bits(got) != math.Float64bits(n) {
			t.Errorf("%v became %v", n, got)
		}
	}
}
