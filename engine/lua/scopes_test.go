package lua_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestNamesInScopes: an error names the variable that is in scope, whatever blocks were before it in the function.
func TestNamesInScopes(t *testing.T) {
	const (
		field = "attempt to index field 'gone' (a nil value, key 'y')"
		local = "attempt to index local 'here' (a nil value, key 'y')"
	)
	for body, want := range map[string]string{
		"if a then local s = 'x' return s end return t.gone.y":                                          field,
		"do local s = 1 end local here return here.y":                                                   local,
		"do local s = 1 end do local here return here.y end":                                            local,
		"do local s, u = 1, 2 do local v = 3 end end do local here; return here.y end":                  local,
		"do local s; end local w; do local here; return here.y end":                                     local,
		"for i = 1, 2 do local s = i end return t.gone.y":                                               field,
		"for i = 1, 2 do local s = i end local here; return here.y":                                     local,
		"for k, v in pairs(t) do local s = k end return t.gone.y":                                       field,
		"for k, v in pairs(t) do local s = k end for k, here in pairs({false}) do here.y() end":         "attempt to index local 'here' (a boolean value, key 'y')",
		"for k, v in pairs(t.gone.y) do end":                                                            field,
		"for i = 1, t.gone.y do end":                                                                    field,
		"while not a do local s = 1 a = true end return t.gone.y":                                       field,
		"repeat local s = 1 until s == 1 return t.gone.y":                                               field,
		"repeat local here until here.y":                                                                local,
		"if a then local s = 1 elseif t.gone.y then return 1 else local u = 1 end":                      field,
		"if a then local s = 1 else local here return here.y end":                                       local,
		"local f = function(p) local q = p return q end return t.gone.y":                                field,
		"local function f(p) do local q = p end local here return here.y end return 1 + f(1)":           local,
		"do local s = 1 end function t:m() do local x = 1 end return self.gone.y end return t:m() + 1":  field,
		"do local s = 1 end local function f(...) local here = arg[9] return here.y end return 1 + f()": local,
		"local u = 1 a, u = t.gone.y, 2":                                                                field,
		"t.gone.y, a = 1, 2":                                                                            field,
		"do local s = function() return t end end local here return here.y":                             local,
		"local up do local s = 1 end return (function() return up.x end)()":                             "attempt to index upvalue 'up' (a nil value, key 'x')",
		"do local s = 1 end goto on ::on:: return t.gone.y":                                             field,
	} {
		for _, source := range []engine.Source{
			{Code: []byte("function handle(a)\nlocal t = {}\n" + body + "\nend"), Entrypoint: "handle"},
			{Code: []byte("local a\nlocal t = {}\n" + body)},
		} {
			p, err := lua.New().Compile(source)
			if err != nil {
				t.Errorf("%s: %v", source.Code, err)
				continue
			}
			_, err = luatest.Run(t, p, "acme")
			if got := script.AsError(err); got == nil || got.Message != want || got.Line != 3 {
				t.Errorf("%s: %v, want %s at line 3", source.Code, err, want)
			}
		}
	}
}
