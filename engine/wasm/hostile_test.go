package wasm_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hostile modules by names, with the kind of the error and words in it.
var hostile = []struct {
	name, code string
	imports    string
	kind       script.Kind
	words      string
}{
	{name: "loop", code: "loop t br 0 end i64.const 0", kind: script.Limit, words: "1000000 instructions"},
	{name: "divide", code: "i32.const 1 i32.const 0 i32.div_u drop i64.const 0", kind: script.Script, words: "the module trapped in handle: integer divide by zero"},
	{name: "unreachable", code: "unreachable", kind: script.Script, words: "the module trapped in handle: unreachable code"},
	{name: "out of bounds", code: "i32.const 70000 i32.load 0 drop i64.const 0", kind: script.Script, words: "memory that it does not have"},
	{name: "far store", code: "i32.const -1 i32.const 1 i32.store 0xffffffff i64.const 0", kind: script.Script, words: "memory that it does not have"},
	{name: "recursion", code: "local.get 0 local.get 1 call 1 i64.const 1 i64.add", kind: script.Limit, words: "nested too deep"},
	{name: "grow storm", code: "loop t i32.const 1 memory.grow drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "fill storm", code: "loop t i32.const 0 i32.const 1 i32.const 65536 memory.fill br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "grow all", code: "i32.const 255 memory.grow drop loop t i32.const 0 i32.const 1 i32.const 16777216 memory.fill br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "result elsewhere", code: give("65530", "100"), kind: script.Script, words: "100 bytes at address 65530"},
	{name: "result beyond", code: give("0xffffff", "10"), kind: script.Script, words: "not all in its memory"},
	{name: "result too large", code: give("0", "65537"), kind: script.Limit, words: "limits.resultBytes"},
	{name: "result deep", code: "i32.const 2000 i32.const 91 i32.const 1000 memory.fill " + give("2000", "1000"), kind: script.Limit, words: "nested deeper than 32"},
	{name: "result of two values", code: "i32.const 2000 i32.const 49 i32.store8 0 i32.const 2000 i32.const 32 i32.store8 1 i32.const 2000 i32.const 49 i32.store8 2 " + give("2000", "3"), kind: script.Script, words: "not one JSON value"},
	{name: "result not UTF-8", code: "i32.const 2000 i32.const 0x22ff22 i32.store 0 " + give("2000", "3"), kind: script.Script, words: "not valid UTF-8"},
	{name: "exit", imports: "wasi_snapshot_preview1 proc_exit i32 >", code: "i32.const 7 call 0 i64.const 0", kind: script.Script, words: "proc_exit with the status 7"},
	{name: "bad pointer", imports: "scriptorium log i32 i32 i32 >", code: "i32.const 0 i32.const 65530 i32.const 10 call 0 i64.const 0", kind: script.Script, words: "10 bytes at address 65530"},
	{name: "huge text", imports: "scriptorium log i32 i32 i32 >", code: "i32.const 0 i32.const 0 i32.const -1 call 0 i64.const 0", kind: script.Script, words: "not all in its memory"},
	{name: "bad level", imports: "scriptorium log i32 i32 i32 >", code: "i32.const 9 i32.const 0 i32.const 0 call 0 i64.const 0", kind: script.Script, words: "no level 9"},
	{name: "bad counter", imports: "scriptorium counter_add i32 i32 f64 > f64", code: "i32.const 0 i32.const 5 f64.const 1 call 0 drop i64.const 0", kind: script.Script, words: "want 1 to 128"},
	{name: "not a number", imports: "scriptorium counter_add i32 i32 f64 > f64", code: "i32.const 0 i32.const 5 f64.const nan call 0 drop i64.const 0", kind: script.Script, words: "finite"},
	{name: "bad rate", imports: "scriptorium ratelimit_take i32 i32 f64 f64 f64 > f64", code: "i32.const 0 i32.const 5 f64.const 1 f64.const 0 f64.const 1 call 0 drop i64.const 0", kind: script.Script, words: "rate"},
	{name: "log storm", imports: "scriptorium log i32 i32 i32 >", code: "loop t i32.const 0 i32.const 0 i32.const 65536 call 0 br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "output storm", imports: "wasi_snapshot_preview1 fd_write i32 i32 i32 i32 > i32", code: "i32.const 104 i32.const 60000 i32.store 0 loop t i32.const 1 i32.const 100 i32.const 1 i32.const 200 call 0 drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "random storm", imports: "wasi_snapshot_preview1 random_get i32 i32 > i32", code: "loop t i32.const 0 i32.const 65536 call 0 drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
}

// TestHostile runs each hostile module, and good calls after each call of it.
func TestHostile(t *testing.T) {
	for name, config := range map[string]wasm.Config{"compiled": {}, "interpreted": {Interpreter: true}} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,reuse=%v", name, reuse), func(t *testing.T) { testHostile(t, config, reuse) })
		}
	}
}

func testHostile(t *testing.T, config wasm.Config, reuse bool) {
	t.Helper()
	e, err := wasm.New(config)
	if err != nil {
		t.Fatal(err)
	}
	good := compile(t, e, large().bytes(t), reuse)
	calls := 1000
	if testing.Short() || config.Interpreter {
		calls = 50
	}
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			g := handle(h.code)
			if h.imports != "" {
				g.imports = []string{h.imports}
			}
			p := compile(t, e, g.bytes(t), reuse)
			for range 3 {
				inv := invocation(`{}`)
				inv.Host = &enginetest.Host{}
				_, err := run(t, p, inv)
				if script.KindOf(err) != h.kind || !strings.Contains(err.Error(), h.words) {
					t.Errorf("%v (%s), want %s with %q", err, script.KindOf(err), h.kind, h.words)
				}
			}
			var res engine.Result
			inv := invocation(`{"a":1}`)
			for range calls {
				res.Reset()
				if err := good.Run(t.Context(), inv, &res); err != nil || string(res.Value(0)) != `{"a":1}` {
					t.Fatalf("a good call afterwards: %v", err)
				}
			}
		})
	}
}

// TestMemoryLimits: of a module, of the version and of the tenant.
func TestMemoryLimits(t *testing.T) {
	e := newEngine(t)
	g := handle("i32.const 2000 i32.const 48 i32.const 49 local.get 1 i32.const 1 i32.sub memory.grow i32.const 0 i32.lt_u select i32.store8 0 " + give("2000", "1"))
	g.funcs[1].code = `
		i32.const 2000
		i32.const 48 i32.const 49 i32.const 10 memory.grow i32.const -1 i32.eq select
		i32.store8 0 ` + give("2000", "1")
	p := compile(t, e, g.bytes(t), false)
	inv := invocation()
	want(t, p, inv, "1")
	inv.Limits.WasmMemory = 10 * 64 << 10
	want(t, p, inv, "0")
	inv.Limits.WasmMemory = 11 * 64 << 10
	want(t, p, inv, "1")
	inv.Memory = 12 * 64 << 10
	want(t, p, inv, "1")
	inv.Memory = 8 * 64 << 10
	if _, err := run(t, p, inv); script.KindOf(err) != script.Limit || script.AsError(err).Field != "tenant.memory" {
		t.Errorf("over the tenant's memory: %v", err)
	}
	inv.Limits.WasmMemory = 1 << 10
	if _, err := run(t, p, inv); script.KindOf(err) != script.Limit || script.AsError(err).Field != "limits.wasm.memory" {
		t.Errorf("a module that begins with too much: %v", err)
	}
	inv = invocation()
	inv.Memory = 12 * 64 << 10 // nothing is counted twice
	for range 100 {
		want(t, p, inv, "1")
	}
}

func TestUsed(t *testing.T) {
	p := compile(t, newEngine(t), handle("i32.const 100 local.set 2 loop t local.get 2 i32.const 1 i32.sub local.tee 2 br_if 0 end "+echo).bytes(t), false)
	var used engine.Used
	inv := invocation(`1`)
	inv.Used = &used
	want(t, p, inv, "1")
	if used.Instructions < 500 || used.Instructions > 700 || used.Allocated != 64<<10 {
		t.Errorf("used %+v", used)
	}
	inv.Limits.Instructions = 100
	if _, err := run(t, p, inv); err == nil || used.Instructions != 100 {
		t.Errorf("%v, used %+v", err, used)
	}
}

// turn counts what a call does with its turn.
type turn struct{ yields, breaths int }

func (*turn) Bind(ask func()) { ask() }
func (t *turn) Yield()        { t.yields++ }
func (t *turn) Breathe()      { t.breaths++ }

func TestTurn(t *testing.T) {
	p := compile(t, newEngine(t), handle("loop t br 0 end i64.const 0").bytes(t), false)
	inv := invocation()
	var turn turn
	inv.Turn = &turn
	if _, err := run(t, p, inv); script.KindOf(err) != script.Limit {
		t.Error(err)
	}
	if turn.yields != 1 || turn.breaths < 10 {
		t.Errorf("turn %+v", turn)
	}
}

func TestClockStandsStill(t *testing.T) {
	g := handle(`
		i32.const 0 i64.const 1 i32.const 2008 call 0 drop
		i32.const 1 i64.const 1 i32.const 2016 call 0 drop
		i32.const 2000 i32.const 48 i32.const 49 i32.const 2008 i32.load 0 i32.const 2016 i32.load 0 i32.eq select i32.store8 0 ` + give("2000", "1"))
	g.imports = []string{"wasi_snapshot_preview1 clock_time_get i32 i64 i32 > i32"}
	inv := invocation()
	inv.Clock = func() time.Time { return time.Unix(1, 2) }
	want(t, compile(t, newEngine(t), g.bytes(t), true), inv, "0")
}

// TestLinesThatSeemToSayWhy: lines that look like the beginning of a reason are not collected without end. What is kept of
// them is copied with each line, so that it has to be bounded.
func TestLinesThatSeemToSayWhy(t *testing.T) {
	const lines = 30_000
	text := "panic: because:\nof this:\n" + strings.Repeat(":\n", lines)
	g := handle(fmt.Sprintf("i32.const 100 i32.const 1000 i32.store 0 i32.const 100 i32.const %d i32.store 4 "+
		"i32.const 2 i32.const 100 i32.const 1 i32.const 200 call 0 drop unreachable", len(text)))
	g.imports = []string{"wasi_snapshot_preview1 fd_write i32 i32 i32 i32 > i32"}
	g.memory = []byte{0, 2}
	g.data = map[int]string{1000: text}
	p := compile(t, newEngine(t), g.bytes(t), false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := run(t, p, invocation())
	runtime.ReadMemStats(&after)
	if script.KindOf(err) != script.Script || !strings.HasSuffix(err.Error(), "panic: because: of this:") {
		t.Errorf("got %v, want the first two lines", err)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20 {
		t.Errorf("the call made %d MiB for %d lines", made>>20, lines)
	}
}

// TestFaultsAreOurs: a module cannot make its own trap look like a fault of the engine.
func TestFaultsAreOurs(t *testing.T) {
	g := handle("call 2 i64.const 0")
	g.funcs = append(g.funcs, fn{export: "(recovered by wazero)", typ: ">", code: "unreachable"})
	p := compile(t, newEngine(t), g.bytes(t), false)
	if _, err := run(t, p, invocation()); script.KindOf(err) != script.Script {
		t.Errorf("got %v (%s), want an error of kind %s", err, script.KindOf(err), script.Script)
	}
}

// TestFirstMemoryIsCharged: memory that a module begins with costs instructions, as growing does.
func TestFirstMemoryIsCharged(t *testing.T) {
	used := func(pages byte, reuse bool) uint64 {
		g := handle("i32.const 2000 i32.const 48 i32.store8 0 " + give("2000", "1"))
		g.memory = []byte{0, pages}
		var used engine.Used
		inv := invocation()
		inv.Used, inv.Limits.WasmMemory = &used, 16<<20
		want(t, compile(t, newEngine(t), g.bytes(t), reuse), inv, "0")
		return used.Instructions
	}
	for _, reuse := range []bool{false, true} {
		if few, many := used(2, reuse), used(120, reuse); many < few+80*1000 {
			t.Errorf("reuse %v: a call with 2 pages costs %d instructions, one with 120 costs %d", reuse, few, many)
		}
	}
}

// TestFirstSegmentsAreCharged: what a new instance puts into its memory and its tables costs instructions, and is not put
// there for a call that has not so many.
func TestFirstSegmentsAreCharged(t *testing.T) {
	const many = 20_000
	call := func(elements, data, instructions int) (uint64, error) {
		g := handle("i64.const 0")
		g.tables, g.elems, g.data = []byte{1, 0x70, 0, 0xa0, 0x9c, 1}, make([]int, elements), map[int]string{}
		for n := range data {
			g.data[n] = "x"
		}
		var used engine.Used
		inv := invocation()
		inv.Used, inv.Limits.Instructions = &used, uint64(instructions)
		_, err := run(t, compile(t, newEngine(t), g.bytes(t), false), inv)
		return used.Instructions, err
	}
	for name, n := range map[string][2]int{"elements": {many, 0}, "segments of data": {0, many}} {
		if used, err := call(n[0], n[1], 0); err != nil || used < many {
			t.Errorf("%d %s cost %d instructions, %v", many, name, used, err)
		}
		if used, err := call(n[0], n[1], many); script.KindOf(err) != script.Limit || used != many {
			t.Errorf("%d %s for %d instructions: used %d, %v", many, name, many, used, err)
		}
	}
}

// TestOutputIsCharged: what is written by fd_write costs by its pieces and its lines, and not by its bytes alone.
func TestOutputIsCharged(t *testing.T) {
	const pieces, lines = 1000, 2000
	used := func(vectors int, piece string) uint64 {
		g := handle(fmt.Sprintf("i32.const 8000 i32.const 60000 i32.store 0 i32.const 8000 i32.const %d i32.store 4 "+
			"i32.const 1 i32.const 8000 i32.const %d i32.const 200 call 0 drop i64.const 0", len(piece), vectors))
		g.imports = []string{"wasi_snapshot_preview1 fd_write i32 i32 i32 i32 > i32"}
		g.data = map[int]string{60000: piece}
		var used engine.Used
		inv := invocation()
		inv.Host, inv.Used = &enginetest.Host{}, &used
		want(t, compile(t, newEngine(t), g.bytes(t), false), inv, "")
		return used.Instructions
	}
	nothing := used(0, "")
	if n := used(pieces, ""); n < nothing+pieces {
		t.Errorf("%d pieces cost %d instructions, none cost %d", pieces, n, nothing)
	}
	if n := used(1, strings.Repeat("a\n", lines)); n < nothing+lines*hostapi.LogCost {
		t.Errorf("%d lines cost %d instructions, and by log at least %d each", lines, n, hostapi.LogCost)
	}
}

// TestStartThatIsNestedTooDeep: a start function has the error of any other, though it runs before there is an instance.
func TestStartThatIsNestedTooDeep(t *testing.T) {
	g := handle("i64.const 0")
	g.funcs = append(g.funcs, fn{typ: ">", code: "call 2"})
	g.start = 2
	p := compile(t, newEngine(t), g.bytes(t), true)
	if _, err := run(t, p, invocation()); script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), "nested too deep") {
		t.Errorf("%v (%s)", err, script.KindOf(err))
	}
}

// TestShortRandomNumbers: a module that asks for a byte at a time does not have the agent make much more.
func TestShortRandomNumbers(t *testing.T) {
	const calls, most = 20_000, 1 << 10 // bytes for each
	g := handle(fmt.Sprintf("i32.const %d local.set 2 loop t i32.const 0 i32.const 1 call 0 drop local.get 2 i32.const 1 i32.sub local.tee 2 br_if 0 end i64.const 0", calls))
	g.imports = []string{"wasi_snapshot_preview1 random_get i32 i32 > i32"}
	p := compile(t, newEngine(t), g.bytes(t), false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	want(t, p, invocation(), "")
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) / calls; made > most {
		t.Errorf("each call made %d bytes", made)
	}
}
