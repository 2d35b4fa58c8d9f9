package lua_test

import (
	"encoding/json"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FuzzStrings: whatever a pattern, a format or a numeral says, the call ends as a call
// may, and never with a fault of the engine.
func FuzzStrings(f *testing.F) {
	for _, pattern := range []string{"%b()", "[^%]-a", "(()%1)", "%f[%w]%w+", "^(.-)%s*$", "((((", "[a-", "%", "a*a*a*b", "[]]", "%z%Z"} {
		f.Add("a(b)c [d]\x00", pattern, "%5.1f|%q|%-10s")
	}
	for _, format := range []string{"%", "%%", "%99.99f", "%#x", "%-+ 0#5d", "%c%c", "%5%", "%.", "%123d"} {
		f.Add("12.5", "x", format)
	}
	p, err := lua.New().Compile(engine.Source{Entrypoint: "handle", Code: []byte(`
function handle(s, pattern, format)
  pcall(string.find, s, pattern) pcall(string.match, s, pattern, -3)
  pcall(string.gsub, s, pattern, pattern) pcall(string.gsub, s, pattern, {a = 1}) pcall(string.gsub, s, pattern, string.upper, 3)
  pcall(function() for a, b in s:gmatch(pattern) do local _ = a .. tostring(b) end end)
  pcall(string.format, format, s, s, s) pcall(string.format, format, 1.5, -1, 65) pcall(os.date, format, 0)
  pcall(function() return s + 1 end)
  return tonumber(s) == nil, tonumber(s, 16) == nil, tonumber(s, 36) == nil
end`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s, pattern, format string) {
		inv := &engine.Invocation{Tenant: "acme"}
		for _, text := range []string{s, pattern, format} {
			arg, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			inv.Args = append(inv.Args, arg)
		}
		var res engine.Result
		err := p.Run(t.Context(), inv, &res)
		switch kind := script.KindOf(err); kind {
		case "", script.Limit, script.Timeout:
		default:
			t.Errorf("%s: %v", kind, err)
		}
	})
}
