package lua_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestLinear: what these do costs a number of instructions that is in proportion to
// their input, of ten thousand bytes or items and of ten times as many.
func TestLinear(t *testing.T) {
	needs.NoRace(t)
	for _, body := range []string{
		`return #(("a"):rep(n):gsub("a", "bb"))`,
		`return (("a"):rep(n):gsub("a", function(c) return c end))`,
		`local c = 0 for w in ("ab "):rep(n / 3):gmatch("%a+") do c = c + 1 end return c`,
		`local t = {} for i = 1, n do t[i] = "x" end return #table.concat(t, ",")`,
		`return (("a"):rep(n) .. "b"):find("b", 1, true)`,
		`return (("a"):rep(n) .. "b"):find("b")`,
		`return #("("):rep(n):match("^[(]*$")`,
		`return #(("x"):rep(n):upper():lower():reverse())`,
		`local s = ("x"):rep(n) local c = 0 for i = 1, n do c = c + s:byte(i) + #s:sub(i, i) end return c`,
		`return ("%s"):rep(9):format(unpack({("x"):rep(n / 9), 1, 2, 3, 4, 5, 6, 7, 8})):len()`,
		`return tonumber(("1"):rep(n))`,
		`local t = {} for i = 1, n do table.insert(t, i) end for i = 1, n do table.remove(t) end return #t`,
		`local t = {} for i = 1, n do t[#t + 1] = i end return #t`,
		`return ("k=v;"):rep(n / 4):gsub("(%w+)=(%w+);", "%2=%1;")`,
	} {
		for _, n := range []int{10_000, 100_000} {
			p, err := lua.New().Compile(engine.Source{Code: fmt.Appendf(nil, "function handle() local n = %d %s end", n, body), Entrypoint: "handle"})
			if err != nil {
				t.Fatal(err)
			}
			limits := script.MaxLimits()
			limits.Instructions = uint64(40*n + 10_000)
			var res engine.Result
			err = p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits}, &res)
			if err != nil && err.Error() != "result 1 is inf, which JSON cannot say" {
				t.Errorf("%s with n = %d: %v", body, n, err)
			}
		}
	}
}
