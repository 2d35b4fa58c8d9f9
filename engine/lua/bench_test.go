package lua_test

import (
	_ "embed"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/garbage"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What the benchmarks call typical: the bare ones, in the folder bare, have the same.
var (
	//go:embed testdata/bench/typical.lua
	typicalSource string
	//go:embed testdata/bench/typical.json
	typicalArgument []byte
)

func benchmarkRun(b *testing.B, source, entrypoint string, args ...[]byte) {
	b.Helper()
	leaveRoom(b)
	p, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: entrypoint})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	inv := &engine.Invocation{Tenant: "acme", Args: args, Limits: script.MaxLimits()}
	var res engine.Result
	b.ReportAllocs()
	for b.Loop() {
		res.Reset()
		if err := p.Run(b.Context(), inv, &res); err != nil {
			b.Fatal(err)
		}
	}
}

// leaveRoom has the collector run as it does in an agent.
func leaveRoom(b *testing.B) {
	b.Helper()
	before := debug.SetGCPercent(garbage.Percent(0))
	b.Cleanup(func() { debug.SetGCPercent(before) })
}

func BenchmarkTrivial(b *testing.B) {
	benchmarkRun(b, `function handle(n) return n end`, "handle", []byte("1"))
}

func BenchmarkTypical(b *testing.B) {
	benchmarkRun(b, typicalSource, "handle", typicalArgument)
}

func BenchmarkJSON1KiB(b *testing.B) {
	doc := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"a name","tags":["x","y"]},`, 22), ",") + `]}`)
	b.SetBytes(int64(len(doc)))
	benchmarkRun(b, `function handle(v) return v end`, "handle", doc)
}

func BenchmarkParallelTypical(b *testing.B) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(typicalSource), Entrypoint: "handle"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{typicalArgument}, Limits: script.MaxLimits()}
		var res engine.Result
		for pb.Next() {
			res.Reset()
			if err := p.Run(b.Context(), inv, &res); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkCold is a trivial call for which a state must be made.
func BenchmarkCold(b *testing.B) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`function handle(n) return n end`), Entrypoint: "handle"})
	if err != nil {
		b.Fatal(err)
	}
	inv := &engine.Invocation{Args: [][]byte{[]byte("1")}}
	var res engine.Result
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		res.Reset()
		inv.Tenant = strconv.Itoa(i) // each has no state yet
		if err := p.Run(b.Context(), inv, &res); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInstruction is the cost of a metered instruction: a loop of 100,000
// additions.
func BenchmarkInstruction(b *testing.B) {
	benchmarkRun(b, `local s = 0 for i = 1, 100000 do s = s + i end return s`, "")
}

func BenchmarkCheck(b *testing.B) {
	e := lua.New()
	src := engine.Source{Code: []byte(typicalSource), Entrypoint: "handle"}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Check(src); err != nil {
			b.Fatal(err)
		}
	}
}
