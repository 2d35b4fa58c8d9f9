// Package bare measures gopher-lua as it comes, beside the benchmarks of the engine whose machine is a fork of it. They
// live in a package of their own, so that a process has one of the two machines.
package bare

import (
	"encoding/json"
	"os"
	"runtime/debug"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/agent/garbage"
)

// typical returns what the engine's benchmark of that name runs: the script and its
// argument.
func typical(b *testing.B) (source string, argument []byte) {
	b.Helper()
	code, err := os.ReadFile("../testdata/bench/typical.lua")
	if err != nil {
		b.Fatal(err)
	}
	argument, err = os.ReadFile("../testdata/bench/typical.json")
	if err != nil {
		b.Fatal(err)
	}
	return string(code), argument
}

// newState returns a state with gopher-lua's libraries that has run source, in a
// process whose collector runs as it does in an agent.
func newState(b *testing.B, source string) *glua.LState {
	b.Helper()
	before := debug.SetGCPercent(garbage.Percent(0))
	b.Cleanup(func() { debug.SetGCPercent(before) })
	l := glua.NewState()
	b.Cleanup(l.Close)
	if err := l.DoString(source); err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkTrivial is a call of a resolved function on a warm state, without
// environment, meter or JSON: the floor.
func BenchmarkTrivial(b *testing.B) {
	l := newState(b, `function handle(n) return n end`)
	fn := l.GetGlobal("handle")
	b.ReportAllocs()
	for b.Loop() {
		l.Push(fn)
		l.Push(glua.LNumber(1))
		l.Call(1, 1)
		l.Pop(1)
	}
}

// BenchmarkTypical is the typical script: a resolved function on a warm state.
// Tables has a request that was made before, and no JSON; JSON has the argument and
// the result go through encoding/json.
func BenchmarkTypical(b *testing.B) {
	source, argument := typical(b)
	l := newState(b, source)
	handle := l.GetGlobal("handle")
	call := func(request glua.LValue) glua.LValue {
		l.Push(handle)
		l.Push(request)
		l.Call(1, 1)
		defer l.Pop(1)
		return l.Get(-1)
	}
	decode := func() glua.LValue {
		var decoded any
		if err := json.Unmarshal(argument, &decoded); err != nil {
			b.Fatal(err)
		}
		return value(l, decoded)
	}
	b.Run("tables", func(b *testing.B) {
		request := decode()
		b.ReportAllocs()
		for b.Loop() {
			call(request)
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			result := map[string]string{}
			call(decode()).(*glua.LTable).ForEach(func(k, v glua.LValue) { result[k.String()] = v.String() })
			if _, err := json.Marshal(result); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// value is a value of encoding/json in Lua.
func value(l *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for name, member := range v {
			t.RawSetString(name, value(l, member))
		}
		return t
	case string:
		return glua.LString(v)
	}
	return glua.LNil
}

// BenchmarkInstruction is a loop of 100,000 additions.
func BenchmarkInstruction(b *testing.B) {
	l := newState(b, "")
	fn, err := l.LoadString(`local s = 0 for i = 1, 100000 do s = s + i end return s`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Push(fn)
		l.Call(0, 0)
	}
}

// BenchmarkState is what a state with its libraries costs each time.
func BenchmarkState(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		glua.NewState().Close()
	}
}
