package lua

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestQuickInstructions compares what is found at once to what the machine finds on
// its own way: a global where the script may set any, a member and a method by a name
// that is no constant.
func TestQuickInstructions(t *testing.T) {
	const slowly = `
		local env, member = _G, function(of, name) return of[name] end
		local function method(of, name, ...) return of[name](of, ...) end

		function handle(o) `
	const quickly = `



		function handle(o) `
	for _, test := range []struct{ quick, slow string }{
		{`return string == nil, json == nil, nothing`, `return env.string == nil, env.json == nil, env.nothing`},
		{`return coroutine == nil, type(coroutine)`, `return env.coroutine == nil, type(env.coroutine)`},
		{`return string.lower("A"), math.pi > 3, string.nothing`, `return member(string, "lower")("A"), member(math, "pi") > 3, member(string, "nothing")`},
		{`return string.lower == ("").lower, table.nothing`, `return member(string, "lower") == member("", "lower"), member(table, "nothing")`},
		{`return ("ab"):upper(), ("x"):rep(3)`, `return method("ab", "upper"), method("x", "rep", 3)`},
		{`return pcall(function() return ("x"):nothing() end)`, `return pcall(function() local f = member("x", "nothing") return ("x"):nothing() end)`},
		{`return pcall(function() return nothing.x end)`, `return pcall(function() return nothing.x end)`},
		{`return pcall(function() return (5):upper() end)`, `return pcall(function() return (5):upper() end)`},
		{`return pcall(function() string.lower = 1 end)`, `return pcall(function() string["lower"] = 1 end)`},
		{`return o.a, o.b, o.c.d, o["e"]`, `return member(o, "a"), member(o, "b"), member(member(o, "c"), "d"), member(o, "e")`},
		{`local t = {x = 1, y = 2} t.z = 3 t.x = nil t.w = 4 t.x = 5 return t`, `local t = {} rawset(t, "x", 1) rawset(t, "y", 2) rawset(t, "z", 3) rawset(t, "x", nil) rawset(t, "w", 4) rawset(t, "x", 5) return t`},
		{`local t = {x = 1} t[1] = 2 t.x = nil t.y = 3 t[1] = nil t.x = 4 return t`, `local t = {} rawset(t, "x", 1) rawset(t, 1, 2) rawset(t, "x", nil) rawset(t, "y", 3) rawset(t, 1, nil) rawset(t, "x", 4) return t`},
		{`local t, n = {x = 1, y = 2}, 0 t.x = nil t.x = 1 for k in pairs(t) do n = n + 1 end return n, t`, `return 2, {x = 1, y = 2}`},
	} {
		for _, coroutines := range []bool{false, true} {
			inv := engine.Invocation{
				Tenant: "a", Args: [][]byte{[]byte(`{"a":1,"c":{"d":[1]},"a":2}`)},
				Limits: script.Limits{Coroutines: coroutines},
			}
			p, slow := compileProgram(t, quickly+test.quick+` end`), compileProgram(t, slowly+test.slow+` end`)
			if !p.Wrapped || slow.Wrapped {
				t.Fatalf("%s: wrapped %v and %v", test.quick, p.Wrapped, slow.Wrapped)
			}
			if quick, want := callWith(t, p, inv), callWith(t, slow, inv); quick != want {
				t.Errorf("%s:\n%s\nwant\n%s", test.quick, quick, want)
			}
		}
	}
}
