package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// libraries returns those with the names, in the order of the pairs.
func libraries(pairs ...string) (all []script.Library) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, script.Library{
			Name: script.Name{Tenant: "acme", Script: pairs[i]}, Version: 1, Digest: script.DigestOf([]byte(pairs[i+1])), Source: pairs[i+1],
		})
	}
	return all
}

func withLibraries(t *testing.T, e engine.Engine, source string, pairs ...string) engine.Program {
	t.Helper()
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle", Libraries: libraries(pairs...)})
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p
}

// TestLibrary: what a library's chunk returns is what require gives, once a call. Its globals are its own, and the
// next call starts afresh.
func TestLibrary(t *testing.T) {
	const lib = `
count = (count or 0) + 1
local M = {ran = 0}
function M.greet(name) return "Hello, " .. name end
function M.next() M.ran = M.ran + 1; return M.ran end
function M.config() return config and config.x end
function M.count() return count end
return M`
	const outer = `local base = require("acme/base") return {greet = function(n) return base.greet(n) .. "!" end, base = base}`
	for name, source := range map[string]string{
		"in the chunk":      `local a = require("acme/base") function handle() local o = require "acme/outer" return {a.greet("ann"), o.greet("bob"), a.next(), o.base.next(), count == nil, a.count(), a.config()} end`,
		"in the function":   `function handle() local a, o = require("acme/base"), require "acme/outer" return {a.greet("ann"), o.greet("bob"), a.next(), o.base.next(), count == nil, a.count(), a.config()} end`,
		"by a local name":   `local require = require function handle() local a, o = require("acme/base"), require "acme/outer" return {a.greet("ann"), o.greet("bob"), a.next(), o.base.next(), count == nil, a.count(), a.config()} end`,
		"with an env table": `local _ = _G local a = require("acme/base") function handle() local o = require "acme/outer" return {a.greet("ann"), o.greet("bob"), a.next(), o.base.next(), count == nil, a.count(), a.config()} end`,
	} {
		t.Run(name, func(t *testing.T) {
			p := withLibraries(t, lua.New(), source, "base", lib, "outer", outer)
			for range 3 {
				var res engine.Result
				err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient}, Config: []byte(`{"x":7}`)}, &res)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(res.Value(0)); got != `["Hello, ann","Hello, bob!",1,2,true,1,7]` {
					t.Errorf("got %s", got)
				}
			}
		})
	}
}

// TestLibraryBudget: a library runs under the limits of the call that requires it.
func TestLibraryBudget(t *testing.T) {
	const source = `function handle() return require("acme/lib") and 1 end`
	for name, lib := range map[string]string{
		"instructions in the chunk":   `while true do end return {}`,
		"memory":                      `local t = {} for i = 1, 1e9 do t[i] = {i} end return t`,
		"instructions in a metatable": `return setmetatable({}, {__index = function() while true do end end}).x`,
	} {
		t.Run(name, func(t *testing.T) {
			p := withLibraries(t, lua.New(), source, "lib", lib)
			_, err := luatest.RunUnder(t, script.Limits{Instructions: 1_000_000, Timeout: luatest.Patient}, p, "acme")
			if script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), "acme/lib:1: ") {
				t.Errorf("got %v", err)
			}
		})
	}
	plain := instructions(t, `local M = {} for i = 1, 1000 do M[i] = i end function handle() return #M end`)
	p := withLibraries(t, lua.New(), `local M = require("acme/lib") function handle() return #M end`, "lib", `local M = {} for i = 1, 1000 do M[i] = i end return M`)
	var used engine.Used
	var res engine.Result
	if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Used: &used}, &res); err != nil || used.Instructions < plain {
		t.Errorf("%v: a library takes %d instructions, and the same code in the script %d", err, used.Instructions, plain)
	}
}

// TestLibraryErrors: an error says where in the library it is, and the line is where the script was.
func TestLibraryErrors(t *testing.T) {
	for name, test := range map[string]struct {
		source, lib, want string
		line              int
	}{
		"raised":       {"local l = require('acme/lib')\nfunction handle()\nreturn l.f() end", "return {f = function()\nerror('no') end}", "acme/lib:2: no", 3},
		"of Lua":       {"local l = require('acme/lib')\nfunction handle()\nreturn l.f() end", "return {f = function()\nlocal x = nil + 1 end}", "acme/lib:2: attempt to perform arithmetic on a nil value", 3},
		"of a builtin": {"local l = require('acme/lib')\nfunction handle()\nreturn l.f() end", "return {f = function()\nlocal s = ('x'):rep(1e9) return s end}", "acme/lib:2: ", 3},
		"in its chunk": {"\nlocal l = require('acme/lib')\nfunction handle() end", "error('no')", "acme/lib:1: no", 2},
		"no value":     {"\nlocal l = require('acme/lib')\nfunction handle() end", "local M = {}", "the library 'acme/lib' returned nothing", 2},
		"in a circle":  {"\nlocal l = require('acme/lib')\nfunction handle() end", "return require('acme/lib')", "requires itself", 2},
		"not there":    {"\nlocal l = require('acme/other')\nfunction handle() end", "return 1", "module 'acme/other' not found", 2},
		"in the script": {
			"local l = require('acme/lib')\nfunction handle() return l.f(function()\n error('mine') end) end", "return {f = function(g)\nreturn g() end}", "mine", 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := luatest.Run(t, withLibraries(t, lua.New(), test.source, "lib", test.lib), "acme")
			luatest.WantPresentable(t, err)
			e := script.AsError(err)
			if e == nil || !strings.Contains(e.Message, test.want) || e.Line != test.line {
				t.Errorf("got %v, want %q in line %d", err, test.want, test.line)
			}
		})
	}
	// What a script catches says the place, too, and a library that failed may be required again.
	got, err := luatest.Run(t, withLibraries(t, lua.New(), `function handle() local _, a = pcall(require, "acme/lib") local _, b = pcall(require, "acme/lib") return {a, a == b} end`, "lib", "\nerror('no')"), "acme")
	if err != nil || got != `["acme/lib:2: no",true]` {
		t.Errorf("got %s, %v", got, err)
	}
	for lib, want := range map[string]string{"return {": "acme/lib:1: ", "x = '\xff'": "acme/lib: "} {
		_, err := lua.New().Compile(engine.Source{Code: []byte("function handle() end"), Entrypoint: "handle", Libraries: libraries("lib", lib)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", lib, err)
		}
	}
	if err := lua.New().Check(engine.Source{Code: []byte("local M = {}"), Library: true}); err == nil || !strings.Contains(err.Error(), "returns nothing") {
		t.Errorf("a library without a return: %v", err)
	}
}

// TestLibraryYields: a chunk of a library cannot yield, and a function of it can.
func TestLibraryYields(t *testing.T) {
	const source = `function handle() local l = require("acme/lib") local co = coroutine.wrap(function() l.f() return 2 end) return {co(), co()} end`
	p := withLibraries(t, lua.New(), source, "lib", `return {f = function() coroutine.yield(1) end}`)
	if got, err := luatest.RunUnder(t, script.Limits{Coroutines: true, Timeout: luatest.Patient}, p, "acme"); err != nil || got != `[1,2]` {
		t.Errorf("got %s, %v", got, err)
	}
	const yields = `function handle() local co = coroutine.wrap(function() return require("acme/lib") end) co() return co() end`
	p = withLibraries(t, lua.New(), yields, "lib", `coroutine.yield(1) return 1`)
	_, err := luatest.RunUnder(t, script.Limits{Coroutines: true, Timeout: luatest.Patient}, p, "acme")
	luatest.WantPresentable(t, err)
	if script.KindOf(err) != script.Script {
		t.Errorf("got %v", err)
	}
}

// TestClosure: what a script requires is found before it runs, and each mistake names its line.
func TestClosure(t *testing.T) {
	known := map[string]string{
		"a": `local b = require("acme/b") return {}`, "b": `return {}`, "self": `return require("acme/self")`,
		"x": "\nlocal y = require 'acme/y' return {}", "y": `return require("acme/x")`, "broken": "return {",
		"large": "return {} --" + strings.Repeat("x", script.MaxLibrariesBytes),
	}
	for i := range 20 {
		known[fmt.Sprintf("n%d", i)] = fmt.Sprintf(`return require("acme/n%d")`, i+1)
	}
	lookup := func(n script.Name) (script.Library, error) {
		source, ok := known[n.Script]
		if !ok {
			return script.Library{}, script.Errorf(script.NotFound, "name", "there is no script %s", n)
		}
		return libraries(n.Script, source)[0], nil
	}
	for source, want := range map[string]string{
		`local a, j = require("acme/a"), require("json") require "kube" function handle() end`: "acme/a acme/b",
		"\nlocal x = require('cjson')":                                              "there is no module \"cjson\"",
		"\nlocal x = require('other/lib')":                                          "the library other/lib is of another tenant",
		"\nlocal n = 'acme/a' return require(n)":                                    "require wants the name of a library as text",
		"\nlocal n = require()":                                                     "require wants the name of a library as text",
		"\nlocal n = require('acme/none')":                                          "there is no script acme/none",
		"\nlocal n = require('acme/self')":                                          "acme/self requires itself: acme/self → acme/self",
		"\nlocal n = require('acme/x')":                                             "acme/x requires itself: acme/x → acme/y → acme/x",
		"\nlocal n = require('acme/route')":                                         "acme/route requires itself",
		"\nlocal n = require('acme/n0')":                                            "more than 16 libraries",
		"\nlocal n = require('acme/large')":                                         "bytes of source together (128 KiB)",
		"\nlocal n = require('acme/broken')":                                        "acme/broken:1: ",
		`local function require(x) return x end return require("nothing")`:          "",
		`function handle(require) return require("nothing"), require(handle) end`:   "",
		`local ok, cjson = pcall(require, "cjson") return ok`:                       "",
		`local require = require return require("acme/b")`:                          "acme/b",
		`local t = {require = 1} return t.require("x")`:                             "",
		`local b = require("acme/b").x.y; local c = require"acme/b" return c`:       "acme/b",
		`for require = 1, 2 do require("x") end for _, require in pairs({}) do end`: "",
	} {
		found, err := engine.Closure(lua.New(), script.Name{Tenant: "acme", Script: "route"}, engine.Source{Code: []byte(source)}, lookup)
		if strings.HasPrefix(source, "\n") {
			if e := script.AsError(err); e == nil || !strings.Contains(e.Message, want) || e.Line != 2 && !strings.Contains(e.Message, "acme/route requires") {
				t.Errorf("%q: got %v, want %q in line 2", source, err, want)
			}
			continue
		}
		var names []string
		for _, l := range found {
			names = append(names, l.Name.String())
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%q: got %v, %v, want %s", source, names, err, want)
		}
	}
}
