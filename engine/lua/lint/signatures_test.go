package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

// TestSignatures: there is one for each function that scripts have, and those of our own libraries are as in the
// annotations for the Lua language server.
func TestSignatures(t *testing.T) {
	const list = `local names = {}
for name, v in pairs(_G) do
  if type(v) == "function" and name ~= "handle" then names[#names + 1] = name end
end
for _, lib in ipairs({"string", "table", "math", "os", "json", "log", "base64", "re", "crypto", "time", "kv", "counter", "ratelimit", "coroutine"}) do
  for name, v in pairs(_G[lib]) do
    if type(v) == "function" then names[#names + 1] = lib .. "." .. name end
  end
end
return table.concat(names, " ")`
	p, err := lua.New().Compile(engine.Source{Code: []byte(list)})
	if err != nil {
		t.Fatal(err)
	}
	var res engine.Result
	inv := &engine.Invocation{Tenant: "acme"}
	inv.Limits.Coroutines = true
	if err := p.Run(t.Context(), inv, &res); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, name := range strings.Fields(strings.Trim(string(res.Value(0)), `"`)) {
		there[name] = true
		if parsed()[name] == nil {
			t.Errorf("%s has no signature", name)
		}
	}
	for name := range signatures {
		if !there[name] && !lua.HasGlobal(name) {
			t.Errorf("scripts have no %s", name)
		}
	}
	annotated(t)
}

var annotation = regexp.MustCompile(`(?m)((?:^---.*\n)*)^function ([\w.]+)\((.*)\) end$`)

func annotated(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/api/scriptorium.lua")
	if err != nil {
		t.Fatal(err)
	}
	found := annotation.FindAllStringSubmatch(string(text), -1)
	if len(found) < 30 {
		t.Fatalf("found %d functions: is the file written in another way?", len(found))
	}
	for _, m := range found {
		s := parsed()[m[2]]
		if s == nil {
			t.Errorf("%s has no signature", m[2])
			continue
		}
		var names []string
		for _, p := range s.parameters {
			names = append(names, p.name)
			if optional := strings.Contains(m[1], "@param "+p.name+"? "); optional != p.optional {
				t.Errorf("%s, %s: optional is %v in the annotations", m[2], p.name, optional)
			}
		}
		if got := strings.Join(names, ", "); got != m[3] {
			t.Errorf("%s has the parameters %s, and %s in the annotations", m[2], got, m[3])
		}
	}
}
