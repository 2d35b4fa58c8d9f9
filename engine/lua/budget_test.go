package lua_test

import (
	"sort"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// counts are chunks and what they take, to the instruction.
var counts = []struct {
	source string
	want   uint64
}{
	{`return`, 1},
	{`local a = 1 return a`, 3}, // one for the result
	{`for i = 1, 100 do end`, 106},
	{`for i = 1, 100 do local x = i + 1 end`, 206},
	{`for i = 1, 30000 do local x = i + 1 end`, 60_006}, // over many breaths
	{`local s = ("a"):rep(200000)`, 5 + 3125},
	{`local i = 0 while i < 10 do i = i + 1 end`, 34},
	{`local i = 0 repeat i = i + 1 until i == 10`, 31},
	{`local i = 0 ::top:: i = i + 1 if i < 10 then goto top end`, 41},
	{`for k, v in pairs({1, 2, 3, a = 1}) do end`, 15},
	{`for i, v in ipairs({1, 2, 3}) do end`, 13},
	{`local function f() end for i = 1, 10 do f() end`, 47},
	{`local function f(n) if n == 0 then return 0 end return f(n - 1) end f(10)`, 68},
	{`local function f() local x = 0 return function() x = x + 1 return x end end local g = f() for i = 1, 10 do g() end`, 92},
	{`local function f(...) return select("#", ...), ... end for i = 1, 10 do f(1, 2, 3) end`, 127},
	{`local function f(...) return arg.n end for i = 1, 10 do f(1, 2, 3) end`, 147},
	{`local t = {} for i = 1, 10 do t[i] = {x = i} end`, 57},
	{`local t = {x = {y = {z = 1}}} for i = 1, 10 do t.x.y.z = t.x.y.z + 1 end`, 102},
	{`local t = setmetatable({}, {__index = function(_, k) return k end}) for i = 1, 10 do local x = t[i] end`, 42},
	{`local t = setmetatable({}, {__add = function(a, b) return a end}) for i = 1, 10 do t = t + 1 end`, 42},
	{`local o = {n = 0} function o:m() self.n = self.n + 1 end for i = 1, 10 do o:m() end`, 90},
	{`x = 1 for i = 1, 10 do x = x + 1 end`, 48},
	{`local s = "a" .. "b"`, 5},
	{`local n = #"abc" + #{1, 2}`, 11},
	{`local s = ("a"):rep(6400)`, 5 + 100},
	{`local s = ("a"):rep(6400):upper()`, 7 + 200},
	{`local n = ("aaaaaaaaaa"):find("a*b")`, 6 + 142},
	{`local n = ("aaaaaaaaaa"):find("b", 1, true)`, 7},
	{`local s = ("abc"):gsub("%w", "%0%0")`, 14},
	{`for w in ("a b c"):gmatch("%a") do end`, 22},
	{`local s = ("%d-%s"):format(1, "x")`, 8},
	{`table.concat({1, 2, 3}, ",")`, 10 + 3},
	{`table.sort({3, 1, 2})`, 9 + 6},
	{`table.sort({3, 1, 2}, function(a, b) return a < b end)`, 27},
	{`table.insert({1, 2, 3}, 1, 0)`, 11 + 3},
	{`pcall(error)`, 4 + 500},
	{`xpcall(error, function() end)`, 506},
	{`json.encode({1, 2, 3})`, 9 + 7},
	{`json.decode('{"a":[1,2,3]}')`, 8},
	{`local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) for i = 1, 3 do co() end`, 617},
}

// TestInstructionCount holds what known programs cost: if the machine stopped asking
// the meter, or a builtin stopped charging, budgets would be worth nothing and no other
// test might notice.
func TestInstructionCount(t *testing.T) {
	for _, test := range counts {
		t.Run(test.source, func(t *testing.T) {
			if got := instructions(t, test.source); got != test.want {
				t.Errorf("%d instructions, want %d", got, test.want)
			}
		})
	}
}

// instructions returns how many instructions a chunk takes: the smallest budget under
// which it ends without an error.
func instructions(t *testing.T, source string) uint64 {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var res engine.Result
	const most = 100_000
	n := sort.Search(most, func(budget int) bool {
		if budget == 0 {
			return false // which would mean the default
		}
		limits := script.Limits{Instructions: uint64(budget), Timeout: luatest.Patient, Coroutines: true}
		res.Reset()
		err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits}, &res)
		if err != nil && script.KindOf(err) != script.Limit {
			t.Fatal(err)
		}
		return err == nil
	})
	if n == most {
		t.Fatalf("not even %d instructions suffice", most)
	}
	return uint64(n)
}
