package luajson_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestNullMembers: null members read as nil, whatever the script does first. A returned object has them, unless the
// script has assigned to them.
func TestNullMembers(t *testing.T) {
	const object = `{"n":null,"a":1,"in":{"n":null},"m":null}`
	e := lua.New()
	for body, want := range map[string]string{
		`return v`: object,
		`return v.n == nil, v["n"] == nil, rawget(v, "n") == nil, rawequal(v.n, nil)`:     `true true true true`,
		`local n = 0 for k in pairs(v) do n = n + 1 end return n, next(v.inner or {})`:    `2 null`,
		`return next(v["in"]), #v["in"], v`:                                               `null 0 ` + object,
		`v.n = 2 return v`:                                                                `{"a":1,"in":{"n":null},"n":2,"m":null}`,
		`v.n = nil return v`:                                                              `{"a":1,"in":{"n":null},"m":null}`,
		`v.n = 2 v.n = nil return v`:                                                      `{"a":1,"in":{"n":null},"m":null}`,
		`v.n = json.null return v`:                                                        `{"a":1,"in":{"n":null},"n":null,"m":null}`,
		`rawset(v, "n", nil) rawset(v, "m", 1) return v`:                                  `{"a":1,"in":{"n":null},"m":1}`,
		`local w = setmetatable({}, {__newindex = v}) w.n = 6 return v.n, rawget(w, "n")`: `6 null`,
		`v["in"].n = nil return v`:                                                        `{"n":null,"a":1,"in":{},"m":null}`,
		`v["in"][1] = "one" return v["in"]`:                                               `{"1":"one","n":null}`,
		`return getmetatable(v), getmetatable(v["in"])`:                                   `null null`,
		`return json.decode('{"a":null,"a":1,"b":2,"b":null}')`:                           `{"a":1,"b":null}`,
		`local w = json.decode('{"a":null,"a":1,"b":2,"b":null}') return w.a, w.b`:        `1 null`,
		`local w = {} for k, m in pairs(v) do w[k] = m end return w`:                      `{"a":1,"in":{"n":null}}`,
		`return config.n == nil, kv == nil`:                                               `true false`,
	} {
		for _, first := range []string{"", "touch(v) "} {
			got := luatest.Outcome(t, e, touch+"function handle(v) "+first+body+" end", `{"n":null}`, object)
			if got != want && !sameJSON(got, want) && !sameParts(got, want) {
				t.Errorf("%s%s: %s, want %s", first, body, got, want)
			}
		}
	}
	if got := luatest.Outcome(t, e, `function handle(...) return select("#", ...), (...) == nil, config.n end`, `{"n":null}`, `null`, `null`); got != "2 true null" {
		t.Errorf("arguments that are null: %s", got)
	}
	p, err := e.Compile(engine.Source{Code: []byte(`return n == nil, m`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := luatest.Run(t, p, "acme", `{"n":null,"m":1}`); got != "true\n1" || err != nil {
		t.Errorf("globals that are null: %q, %v", got, err)
	}
}

// sameParts reports whether the results are the same but for the order of members.
func sameParts(a, b string) bool {
	x, y := strings.Split(a, " "), strings.Split(b, " ")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] && !sameJSON(x[i], y[i]) {
			return false
		}
	}
	return true
}

// TestManyNullMembers: each assignment to one of many null members costs the same, and their memory counts.
func TestManyNullMembers(t *testing.T) {
	const members = 16_000
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"n%d":null`, i)
	}
	object := "{" + b.String()[1:] + "}"
	inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient, Instructions: 4_000_000}}
	got, err := luatest.Evaluate(t, lua.New(), inv, fmt.Sprintf(`for i = 0, %d do a["n" .. i] = nil end a.x = next(a) == nil return a`, members-2), object)
	if want := fmt.Sprintf(`{"x":true,"n%d":null}`, members-1); err != nil || got != want {
		t.Errorf("got %.100s, %v, want %s", got, err, want)
	}
	loop := `for i = 1, 1e6 do local v = json.decode('{"a":null}') v.b = 1 end`
	inv.Limits = script.Limits{Timeout: luatest.Patient, Instructions: 100_000}
	if _, err := luatest.Evaluate(t, lua.New(), inv, loop, object); script.KindOf(err) != script.Limit {
		t.Errorf("many objects with null members: %v", err)
	}
}
