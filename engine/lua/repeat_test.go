package lua_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

// TestACallCanBeRepeated: with the same clock and the same random numbers, a call returns the same.
func TestACallCanBeRepeated(t *testing.T) {
	const source = `function handle()
	local first = os.clock()
	for i = 1, 20000 do end
	return { now = time.now(), unix = os.time(), date = os.date("!%F %T"), year = os.date("*t").year,
		elapsed = os.clock() - first, monotonic = time.monotonic() == time.monotonic(),
		random = math.random(1, 1000000), more = math.random(), bytes = crypto.random(13), v4 = crypto.uuid(), v7 = crypto.uuid(7),
		given = os.date("!%F", 0) }
end`
	program, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(seed uint64) string {
		t.Helper()
		inv := engine.Invocation{
			Tenant: "acme", Random: rand.NewPCG(seed, 0),
			Clock: func() time.Time { return time.Date(2024, 2, 29, 12, 30, 15, 250_000_000, time.UTC) },
		}
		var res engine.Result
		if err := program.Run(t.Context(), &inv, &res); err != nil {
			t.Fatal(err)
		}
		return string(res.Value(0))
	}
	first := run(7)
	for _, want := range []string{
		`"now":1.70920981525e+09,"unix":1709209815,"date":"2024-02-29 12:30:15","year":2024,"elapsed":0,"monotonic":true`,
		`"v7":"018df4d8-08d2-7`, `"given":"1970-01-01"`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("%s is not in %s", want, first)
		}
	}
	if again := run(7); again != first {
		t.Errorf("again it is %s\nbefore      %s", again, first)
	}
	if other := run(8); other == first {
		t.Error("other random numbers change nothing")
	}
}
