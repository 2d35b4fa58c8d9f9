package lua_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

// TestCoverage: lines are counted by calls, and branches by where they go. Comments and blank lines have no code.
func TestCoverage(t *testing.T) {
	const source = `-- A comment.

local function grade(n)
  if n > 10 then
    return "high"
  elseif n > 5 then
    return "middle"
  end
  return n < 0 and "negative" or "low"
end

function handle(list)
  local grades = {}
  for i, n in ipairs(list) do
    grades[i] = grade(n)
  end
  return grades
end

function never()
  return 1
end
`
	for name, code := range map[string]string{"globals as locals": source, "globals": source + "-- _G\nlocal _ = _G\n"} {
		p, err := lua.New().Compile(engine.Source{Code: []byte(code), Entrypoint: "handle"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		c := lua.NewCoverage()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				var res engine.Result
				inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(`[1, 2, 20]`)}, Profile: c}
				if err := p.Run(t.Context(), inv, &res); err != nil || string(res.Value(0)) != `["low","low","high"]` {
					t.Errorf("%v", err)
				}
			})
		}
		calls.Wait()
		got := c.Of(p, []byte(code))
		var lines, branches []string
		for line := range strings.Count(source, "\n") + 1 {
			if n, ok := got.Lines[line]; ok {
				lines = append(lines, fmt.Sprint(line, ":", n))
			}
		}
		for _, b := range got.Branches {
			branches = append(branches, fmt.Sprint(b.Line, ":", b.Taken, "/", b.Skipped))
		}
		t.Logf("%s: %v %v", name, lines, branches)
		for _, line := range []int{1, 2, 11, 8, 10} {
			if n, ok := got.Lines[line]; ok && line < 8 {
				t.Errorf("%s: line %d has no code, and %d calls", name, line, n)
			}
		}
		if got.Lines[5] != 4 || got.Lines[7] != 0 || got.Lines[9] != 8 || got.Lines[15] != 12 || got.Lines[17] != 4 || got.Lines[21] != 0 {
			t.Errorf("%s: lines %v", name, lines)
		}
		if want := "[4:4/8 6:0/8 9:0/8]"; fmt.Sprint(branches) != want {
			t.Errorf("%s: branches %v, want %s", name, branches, want)
		}
	}
}
