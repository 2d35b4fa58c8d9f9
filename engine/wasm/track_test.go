package wasm_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// checksum leaves a sum over all of memory but the argument's in local 4, and its low byte's digits at 1000.
const checksum = `
	i64.const 17 local.set 4
	i32.const 0 local.set 2
	loop t
		local.get 4 i64.const 31 i64.mul local.get 2 i64.load 0 i64.add local.set 4
		local.get 2 i32.const 8 i32.add local.tee 2 memory.size i32.const 16 i32.shl i32.lt_u br_if 0
	end`

// TestRandomWrites runs modules that write at random, by all instructions that write, and wants memory as it was.
func TestRandomWrites(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	e := newEngine(t)
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		code := checksum + "\n" + randomWrites(r) + `
			i32.const 999424 local.get 4 i64.store 0
			i32.const 999440 local.set 2
			i32.const 0 local.set 3
			loop t ;; the sum as 16 letters in quotes
				local.get 2 local.get 3 i32.add local.get 4 i32.wrap_i64 i32.const 15 i32.and i32.const 97 i32.add i32.store8 1
				local.get 4 i64.const 4 i64.shr_u local.set 4
				local.get 3 i32.const 1 i32.add local.tee 3 i32.const 16 i32.lt_u br_if 0
			end
			local.get 2 i32.const 34 i32.store8 0
			local.get 2 i32.const 34 i32.store8 17 ` + give("999440", "18")
		g := handle(code)
		g.memory, g.globals = []byte{0, 16}, []string{"i32 65536", "i32 300000"}
		g.data = map[int]string{200000: strings.Repeat("data", 5000)}
		p := compile(t, e, g.bytes(t), true)
		first := ""
		for n := range 4 {
			inv := invocation(`"argument"`)
			inv.Limits = script.MaxLimits()
			got, err := run(t, p, inv)
			if err != nil {
				t.Fatalf("%v\n%s", err, code)
			}
			if n == 0 {
				first = got
			} else if got != first {
				t.Fatalf("call %d begins with other memory than the first: %s, not %s\n%s", n, got, first, code)
			}
		}
		p.Close()
	}
}

// randomWrites returns code that writes below 983,040 bytes. Local 2 and global 1 are addresses.
func randomWrites(r *rand.Rand) string {
	var b strings.Builder
	address := func() string {
		switch r.IntN(6) {
		case 0:
			return fmt.Sprint("i32.const ", r.IntN(900_000))
		case 1:
			return "global.get 1"
		case 2:
			return fmt.Sprintf("local.get 2 i32.const %d i32.add", r.IntN(3000))
		case 3:
			return fmt.Sprintf("i32.const %d local.tee 2", r.IntN(800_000))
		default:
			return "local.get 2"
		}
	}
	values := []struct{ value, store string }{
		{"i32.const -1", "i32.store"},
		{"i32.const -1", "i32.store8"},
		{"i32.const -1", "i32.store16"},
		{"i64.const -1", "i64.store"},
		{"f64.const 1.7", "f64.store"},
		{"i64.const -1", "i64.store8"},
		{"i64.const -1", "i64.store16"},
		{"i64.const -1", "i64.store32"},
		{"f64.const 1.7 f32.demote_f64", "f32.store"},
		{"i64.const -1 i64x2.splat", "v128.store"},
	}
	fmt.Fprintf(&b, "i32.const %d local.set 2\n", r.IntN(800_000))
	depth := 0
	for range 5 + r.IntN(60) {
		switch r.IntN(14) {
		case 0:
			fmt.Fprintf(&b, "%s i32.const 255 i32.const %d memory.fill\n", address(), r.IntN(r.IntN(50_000)+1))
		case 1:
			fmt.Fprintf(&b, "%s i32.const 200000 i32.const %d memory.copy\n", address(), r.IntN(9000))
		case 2:
			fmt.Fprintf(&b, "i32.const %d global.set 1\n", r.IntN(800_000))
		case 3:
			fmt.Fprintf(&b, "local.get %d i32.const %d i32.and if t\n", r.IntN(2), 1<<r.IntN(4))
			depth++
		case 4:
			if depth > 0 {
				b.WriteString([]string{"end\n", "else\n"}[r.IntN(2)])
				if strings.HasSuffix(b.String(), "end\n") {
					depth--
				} else { // an if has one else
					b.WriteString("end\n")
					depth--
				}
			}
		case 5:
			fmt.Fprintf(&b, "local.get 2 i32.const %d i32.add local.set 2\n", r.IntN(5000))
		default:
			v := values[r.IntN(len(values))]
			offset := r.IntN(40)
			if r.IntN(3) == 0 {
				offset = r.IntN(20_000)
			}
			fmt.Fprintf(&b, "%s %s %s %d\n", address(), v.value, v.store, offset)
		}
	}
	b.WriteString(strings.Repeat("end\n", depth))
	return b.String()
}
