package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
)

func advice(source, entrypoint string) string {
	var said []string
	for _, e := range lint.Advise(engine.Source{Code: []byte(source), Entrypoint: entrypoint}) {
		said = append(said, fmt.Sprintf("%d: %s", e.Line, e.Message))
	}
	return strings.Join(said, "\n")
}

func TestAdvise(t *testing.T) {
	for source, want := range map[string]string{
		"function handle(name)\n  print(name)\n  return io.read(), load(name)\nend": "2: scripts have no print: use log.info\n3: scripts have no io\n3: scripts have no load: code cannot be loaded",
		"function handle(name)\n  return visitr\nend":                               "2: visitr is defined nowhere, and so nil",
		"function handle(t) return table.getn(t), math.mod(5, 3) end":               "1: table.getn is deprecated: use the operator #\n1: math.mod is deprecated: use math.fmod, or the operator %",
		"function handle(t) return string.gfind(t, 'x'), os.getenv('HOME') end":     "1: scripts have no string.gfind: did you mean string.find?\n1: scripts have no os.getenv",
		"function handle() return a() end\nfunction b() return a() end":             "1: a is defined nowhere, and so nil",
		"function handle() x() x() end":                                             "1: x is defined nowhere, and so nil",
		"function handle() repeat local done = true until done end":                 "",
		"function handle() do local y = 1 end return y end":                         "1: y is defined nowhere, and so nil",
		"function handle() for i = 1, n do end end":                                 "1: n is defined nowhere, and so nil",
		"local x = x\nfunction handle() return x end":                               "1: x is defined nowhere, and so nil",

		// What is defined, somewhere and somehow.
		"counter = (counter or 0) + 1\nfunction handle() return counter end":                            "",
		"function handle() return later() end\nfunction later() end":                                    "",
		"local function f(n) return n > 0 and f(n - 1) end\nfunction handle(...) return f(arg[1]) end":  "",
		"local print = log.info\nfunction handle() print('x') end":                                      "",
		"print = log.info\nfunction handle() print('x') end":                                            "",
		"local t = {}\nfunction t:m() return self end\nfunction t.f() end\nfunction handle() t.f() end": "",
		"table = {getn = function() end}\nfunction handle() return table.getn() end":                    "",
		"local table = {}\nfunction handle() return table.getn end":                                     "",
		"for k, v in pairs(_G) do _G[k .. '2'] = v end\nfunction handle() return pairs2 end":            "",
		"function handle() return config.a, json.null, coroutine, kv.get('a'), require('json') end":     "",
		"function handle(n) for k, v in pairs(n) do local z = k log.info(z, v) end end":                 "",
		"function handle( this is not Lua":                                                              "",
	} {
		if got := advice(source, "handle"); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", source, got, want)
		}
	}
	// Without an entrypoint the members of the argument are globals.
	if got := advice("return name .. print", ""); got != "1: scripts have no print: use log.info" {
		t.Error(got)
	}
}

// The corpus does what it is meant to: there is nothing to say of it.
func TestAdviseCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "scripts", "*.lua"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := advice(string(source), "handle"); got != "" {
			t.Errorf("%s:\n%s", file, got)
		}
	}
}

func FuzzAdvise(f *testing.F) {
	f.Add("function handle(name) print(name) end")
	f.Add("local a <const> = 1 goto x ::x:: return a.b.c:d'e'")
	f.Fuzz(func(_ *testing.T, source string) { advice(source, "handle") })
}
