package sandbox_test

import (
	"errors"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/instrument"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// module imports env.next, and exports memory and a function get, which adds what next returns to the byte at
// address 16 and returns it:
//
//	(import "env" "next" (func (result i32)))
//	(memory (export "memory") 1)
//	(func (export "get") (result i32)
//	  (i32.store8 (i32.const 16) (i32.add (i32.load8_u (i32.const 16)) (call 0)))
//	  (i32.load8_u (i32.const 16)))
var module = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x05\x01\x60\x00\x01\x7f" +
	"\x02\x0c\x01\x03env\x04next\x00\x00" +
	"\x03\x02\x01\x00" +
	"\x05\x03\x01\x00\x01" +
	"\x07\x10\x02\x06memory\x02\x00\x03get\x00\x01" +
	"\x0a\x16\x01\x14\x00\x41\x10\x41\x10\x2d\x00\x00\x10\x00\x6a\x3a\x00\x00\x41\x10\x2d\x00\x00\x0b")

func source(t *testing.T) sandbox.Source {
	t.Helper()
	m, err := instrument.Rewrite(module, instrument.Options{MaxMemoryPages: 16, TrackWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Source{
		Module: m, Functions: []string{"get", "missing"},
		Imports: []sandbox.Import{{Module: "env", Name: "next", Results: []sandbox.ValueType{sandbox.I32}, Call: func(_ *sandbox.Call, stack []uint64) { stack[0] = 2 }}},
	}
}

func compile(t *testing.T, src sandbox.Source) *sandbox.Module {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// get calls the function get.
func get(t *testing.T, m *sandbox.Module, reuse bool) (n uint64, err error) {
	t.Helper()
	var res engine.Result
	err = m.Run(t.Context(), &engine.Invocation{Tenant: "acme"}, reuse, &res, func(c *sandbox.Call, _ *engine.Result) error {
		stack := c.Stack()
		err := c.Invoke(0, stack[:1])
		n = stack[0]
		return err
	})
	return n, err
}

// TestSetup: what Setup does is there in each call, and nothing that a call does.
func TestSetup(t *testing.T) {
	setups := 0
	src := source(t)
	src.Setup = func(c *sandbox.Call) error {
		setups++
		c.Write(16, []byte{40})
		return nil
	}
	m := compile(t, src)
	for _, reuse := range []bool{false, true} {
		setups = 0
		for range 10 {
			if n, err := get(t, m, reuse); n != 42 || err != nil {
				t.Errorf("get: %d, %v, want 42", n, err)
			}
		}
		if reuse && setups != 1 || !reuse && setups != 10 {
			t.Errorf("reuse %v: %d setups of 10 calls", reuse, setups)
		}
	}
}

func TestSetupThatFails(t *testing.T) {
	src := source(t)
	src.Setup = func(*sandbox.Call) error { return script.Errorf(script.Limit, "", "too much") }
	if _, err := get(t, compile(t, src), true); script.KindOf(err) != script.Limit {
		t.Error(err)
	}
}

// TestFaults: a panic of a host function, and of a body, is a fault of the engine, and the next calls are as ever.
func TestFaults(t *testing.T) {
	src := source(t)
	fail := true
	src.Imports[0].Call = func(_ *sandbox.Call, stack []uint64) {
		if stack[0] = 2; fail {
			panic("a mistake")
		}
	}
	m := compile(t, src)
	for range 3 {
		fail = true
		if _, err := get(t, m, true); script.KindOf(err) != script.Internal {
			t.Errorf("a host function that panics: %v", err)
		}
		var res engine.Result
		err := m.Run(t.Context(), &engine.Invocation{Tenant: "acme"}, true, &res, func(*sandbox.Call, *engine.Result) error { panic(errors.New("a mistake")) })
		if script.KindOf(err) != script.Internal {
			t.Errorf("a body that panics: %v", err)
		}
		fail = false
		if n, err := get(t, m, true); n != 2 || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	}
}

func TestMissingFunction(t *testing.T) {
	m := compile(t, source(t))
	var res engine.Result
	err := m.Run(t.Context(), &engine.Invocation{}, false, &res, func(c *sandbox.Call, _ *engine.Result) error {
		if !c.Has(0) || c.Has(1) {
			t.Error("Has is wrong")
		}
		return c.Invoke(1, c.Stack())
	})
	if script.KindOf(err) != script.Script {
		t.Error(err)
	}
}
