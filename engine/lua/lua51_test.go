package lua_test

import (
	"os"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
)

// showSource prints values as testdata/lua51.txt has them.
const showSource = `
local function show(...)
  local t = {}
  for i = 1, select("#", ...) do
    t[i] = tostring((select(i, ...))):gsub("[%c\\]", function(c) return ("\\%03d"):format(c:byte()) end)
  end
  return table.concat(t, "\t")
end
return show(`

// TestLua51 compares with what the reference implementation, lua5.1, prints for
// the same expressions: each line of the file is an expression, the indented one
// after it what its values are.
func TestLua51(t *testing.T) {
	text, err := os.ReadFile("testdata/lua51.txt")
	if err != nil {
		t.Fatal(err)
	}
	e := lua.New()
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		expression, want := lines[i], strings.TrimPrefix(lines[i+1], "  ")
		// A parenthesis at the start of a line would be a call of what is before it.
		p, err := e.Compile(engine.Source{Code: []byte("do " + showSource + expression + ") end")})
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got, err := luatest.Run(t, p, "acme")
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		} else if got != quote(want) {
			t.Errorf("%s = %s, want %s", expression, got, quote(want))
		}
	}
}

// quote writes s as a JSON string.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(s) + `"`
}
