package wasm_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
)

// profile keeps what it is given.
type profile struct {
	stacks       [][]engine.Frame
	instructions uint64
}

func (p *profile) Sample(stack []engine.Frame, instructions uint64) {
	p.stacks = append(p.stacks, slices.Clone(stack))
	p.instructions += instructions
}

func TestProfile(t *testing.T) {
	for _, interpreter := range []bool{false, true} {
		e, err := wasm.New(wasm.Config{Interpreter: interpreter})
		if err != nil {
			t.Fatal(err)
		}
		g := handle("call 3 " + echo)
		g.imports = []string{"scriptorium log i32 i32 i32 >"} // function 0; 1 is the allocator, 2 is handle
		g.funcs = append(g.funcs, fn{typ: ">", locals: "i32", code: "i32.const 10000 local.set 0 loop t local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end"})
		var p profile
		var used engine.Used
		inv := invocation(`1`)
		inv.Profile, inv.Used = &p, &used
		want(t, compile(t, e, g.bytes(t), false), inv, "1")
		for _, stack := range p.stacks {
			if !slices.Equal(stack, []engine.Frame{{Function: 3}, {Function: 2}}) {
				t.Fatalf("a sample has the stack %+v, want function 3 called by 2", stack)
			}
		}
		if p.instructions > used.Instructions || p.instructions < used.Instructions-2*engine.ProfileEvery {
			t.Errorf("samples of %d instructions, used are %d", p.instructions, used.Instructions)
		}
	}
}
