package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestComparison makes a short run of all that needs no compiler of another language.
func TestComparison(t *testing.T) {
	cmd := newCommand()
	cmd.SetArgs([]string{"--duration", "5ms", "--rounds", "1", "--compiles", "1", "--languages", "rust", "--yardsticks=false", "--neighbours=false"})
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for _, name := range []string{"Lua", "Rego, interpreted", "Rego, wasm"} {
		if n := strings.Count(out.String(), "| "+name+" |"); n != 2 {
			t.Errorf("%s has %d rows, want one of each task:\n%s", name, n, &out)
		}
	}
}

// TestNeighbours: each hostile tenant meets a limit, and the other's calls are answered.
func TestNeighbours(t *testing.T) {
	a, err := newAgent(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.programs.Close()
	for _, name := range []string{"lua", "wasm"} {
		c := &contestant{name: name, call: a.call}
		if err := c.beside(t.Context(), 1, func(ctx context.Context) error { return a.spin(ctx, name) }); err != nil {
			t.Errorf("beside %s: %v", name, err)
		}
		if len(c.rounds) != 1 {
			t.Errorf("beside %s: %d rounds", name, len(c.rounds))
		}
	}
}

// TestYardsticks reads what a benchmark prints.
func TestYardsticks(t *testing.T) {
	var y yardstick
	for _, line := range []string{
		"goos: linux",
		"BenchmarkYardstick/route/OPA,_prepared_query-2  100  41000 ns/op  40000 cpu-ns/op  30000 p50-ns  90000 p99-ns",
		"BenchmarkYardstick/route/OPA,_prepared_query-2  100  43000 ns/op  42000 cpu-ns/op  30000 p50-ns  90000 p99-ns",
		"PASS",
	} {
		if err := y.read(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	if len(y.contestants) != 1 || y.contestants[0].name != "OPA, prepared query" || y.contestants[0].task != route || len(y.contestants[0].rounds) != 2 {
		t.Fatalf("%+v", y.contestants)
	}
	if f := y.contestants[0].rounds[0]; f.cpu != 40_000 || f.p50 != 30_000 || f.p99 != 90_000 {
		t.Errorf("%+v", f)
	}
	if err := y.read([]string{"BenchmarkYardstick/route", "1"}); err == nil {
		t.Error("a benchmark without a name is accepted")
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"--rounds", "0"}, {"--duration", "0s"}, {"--compiles", "-1"}, {"--languages", "cobol"}} {
		cmd := newCommand()
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
