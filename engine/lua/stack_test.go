package lua_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	syntax "github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestStacks: an error of a script has the functions that it was in, within bounds.
func TestStacks(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for source, want := range map[string]string{
		"local function check(x)\n  error('bad')\nend\nfunction handle(x)\n  check(x)\n  return 1\nend":                              "check:2 :5",
		"local t = {}\nfunction t.f()\n  return nil + 1\nend\nfunction handle()\n  local r = t.f()\n  return r\nend":                 "t.f:3 :6",
		"function handle()\n  local r = (function() local x = nil; return x.y end)()\n  return r\nend":                               "<line 2>:2 :2",
		"function handle()\n  error({message = 'x'})\nend":                                                                           ":2",
		"function handle() while true do end end":                                                                                    "",
		"function handle()\n  pcall(error, 'caught')\n  local r = json.decode('{')\n  return r\nend":                                 ":3",
		"local function f(n)\n if n == 0 then error('deep') end local r = f(n - 1) return r end\nfunction handle() return f(50) end": "f:2" + strings.Repeat(" f:2", script.MaxFrames-1),
		"local " + long + " = function() error('x') end\nfunction handle()\n  " + long + "()\n  return 1\nend":                       long[:script.MaxFunctionBytes] + ":1 :3",
	} {
		p, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
		if err != nil {
			t.Fatal(err)
		}
		var result engine.Result
		e, ok := errors.AsType[*script.Error](p.Run(t.Context(), &engine.Invocation{Tenant: "acme"}, &result))
		syntax.NameStack(e, []byte(source))
		if !ok {
			t.Fatalf("no error: %s", source)
		}
		var got []string
		for _, f := range e.Stack {
			got = append(got, fmt.Sprintf("%s:%d", f.Function, f.Line))
		}
		if s := strings.Join(got, " "); s != want || len(got) > script.MaxFrames {
			t.Errorf("%.200s\n%v: %s, want %s", source, e, s, want)
		}
	}
}
