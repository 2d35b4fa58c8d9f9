package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
)

// TestGlobalsAsLocals: a script cannot tell that its globals are local variables.
// Each source runs as it is, and with a mention of _G, which keeps them globals.
func TestGlobalsAsLocals(t *testing.T) {
	e := lua.New()
	many := &strings.Builder{}
	for i := range 60 {
		fmt.Fprintf(many, "g%d = %d\n", i, i)
	}
	for source, want := range map[string]string{
		`function handle() return 1 end`:                                                                                           `1`,
		`handle = function(a, b) return b, a end`:                                                                                  `2 1`,
		`local function f() return 3 end handle = f`:                                                                               `3`,
		`function handle() return helper() end function helper() return 4 end`:                                                     `4`,
		`function handle(n) if n == 1 then return handle(5) end return n end`:                                                      `5`,
		`n = 0 function bump() n = n + 1 return n end function handle() bump() return bump() end`:                                  `2`,
		`function handle() x = 6 return inner() end function inner() return x end`:                                                 `6`,
		`function handle() return undefined == nil end`:                                                                            `true`,
		`string = {upper = function() return 7 end} function handle() return string.upper() end`:                                   `7`,
		`local s = string string = nil function handle() return s.upper("x"), string == nil end`:                                   `"X" true`,
		`tostring = tostring function handle() return tostring(8) end`:                                                             `"8"`,
		`type = function(v) return "mine" end function handle() return type(1) end`:                                                `"mine"`,
		`function handle() return config.a end`:                                                                                    `9`,
		`config.a = 10 function handle() return config.a end`:                                                                      `10`,
		`config = {a = 11} function handle() return config.a end`:                                                                  `11`,
		`function handle() config = nil return config == nil end`:                                                                  `true`,
		`if true then function handle() return 12 end end`:                                                                         `12`,
		`for i = 1, 3 do function handle() return i end end`:                                                                       `3`,
		`do local handle = 1 end function handle() return 13 end`:                                                                  `13`,
		`function handle() return 1 end local handle = function() return 2 end`:                                                    `1`,
		`local x = 1 do x = 2 end function handle() return x end`:                                                                  `2`,
		`a, b = 1, 2 a, b = b, a function handle() return a, b end`:                                                                `2 1`,
		`function handle() return 14 end do return end`:                                                                            `14`,
		`if ... then error("x") end function handle() return select("#") end`:                                                      ``,
		`t = {} function t.f(x) return x end function t:g() return self.v end t.v = 15 function handle() return t.f(1), t:g() end`: `1 15`,
		`local mt = {__index = function(_, k) return k end} s = setmetatable({}, mt) function handle() return s.x end`:             `"x"`,
		`function handle() local ok, err = pcall(nothere) return ok end`:                                                           `false`,
		`goto done ::done:: function handle() return 16 end`:                                                                       `16`,
		many.String() + `function handle() return g0 + g59 end`:                                                                    `59`,
		`function handle() return (function(...) return select("#", ...) end)(1, 2) end`:                                           `2`,
	} {
		if got := luatest.Outcome(t, e, source, `{"a":9}`, "1", "2"); want != "" && got != want {
			t.Errorf("%s\n= %s, want %s", source, got, want)
		}
		plain := luatest.Outcome(t, e, source, `{"a":9}`, "1", "2")
		global := luatest.Outcome(t, e, strings.Replace(source, "do return end", "local _ = _G do return end", 1)+"\nlocal _ = _G", `{"a":9}`, "1", "2")
		if strings.Contains(source, "do return end") || strings.Contains(source, "string = nil") {
			continue // the one ends before the mention; a library among globals cannot be removed
		}
		if plain != global {
			t.Errorf("%s\n= %s, but with _G %s", source, plain, global)
		}
	}
}

// TestGlobalsDoNotOutliveACall: what one call assigns the next does not see.
func TestGlobalsDoNotOutliveACall(t *testing.T) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`
function handle() local before = seen; seen = true; string = nil; return before == nil end`), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := luatest.Run(t, p, "acme"); err != nil || got != "true" {
			t.Fatalf("%s, %v", got, err)
		}
	}
}

func TestErrorsNameTheSameLines(t *testing.T) {
	e := lua.New()
	for _, source := range []string{
		"x = 1\nfunction handle()\n  return x.y.z\nend",
		"error('at load')\nfunction handle() end",
		"function handle() end\nhandle = 5",
		"x = 1\nlocal function f()\n  g()\nend\nfunction handle() f() end",
	} {
		if plain, global := luatest.Outcome(t, e, source, `{}`), luatest.Outcome(t, e, source+"\nlocal _ = _G", `{}`); plain != global {
			t.Errorf("%q: %s, but with _G %s", source, plain, global)
		}
	}
}
