package lint

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

// TestSignatures: there is one for each function that scripts have, and no other.
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
	for name := range parsed() {
		if !there[name] && !lua.HasGlobal(name) {
			t.Errorf("scripts have no %s", name)
		}
	}
}

func TestDefinedTypes(t *testing.T) {
	for name, want := range map[string]string{
		"json.array": "[t table]", "re.gsub": "text string pattern string replacement  [most number]", "ratelimit.allow": "key string options table",
		"crypto.hmac": "algorithm string key string text string [encoding string]", "crypto.uuid": "[version number]", "log.info": "message  [fields table]",
		"time.now": "", "kv.get": "key string",
	} {
		var got []string
		for _, p := range parsed()[name].parameters {
			text := p.name + " " + p.kind
			if p.optional {
				text = "[" + text + "]"
			}
			got = append(got, text)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s has the parameters %s, want %s", name, s, want)
		}
	}
}
