package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// kvHost has values of two tenants.
func kvHost() *enginetest.Host {
	values := map[string]string{
		"flags": `{"beta":true,"routes":{"a":1,"b":[1,2]}}`, "text": "plain", "empty": "", "bytes": "\xff\x00",
		"broken": `{"a":`, "large": strings.Repeat("x", 300_000), "large.json": `{"k":"` + strings.Repeat("x", 300_000) + `"}`,
		"deep": strings.Repeat("[", 40) + strings.Repeat("]", 40), "null": "null",
	}
	for i := range 1500 {
		values[fmt.Sprintf("many/%04d", i)] = fmt.Sprint(i)
	}
	return &enginetest.Host{Values: map[string]map[string]string{"acme": values, "other": {"secret": "canary"}}}
}

func TestKV(t *testing.T) {
	testAPI(t, kvHost, []apiCase{
		{body: `return kv.get("text"), kv.get("empty"), kv.get("none")`, want: "\"plain\"\n\"\"\nnull"},
		{body: `return kv.get("bytes") == "\255\0"`, want: "true"},
		{body: `return kv.get("secret"), kv.get("../other/secret"), kv.get("other/secret")`, want: "null\nnull\nnull"},
		{body: `return kv.get(("k"):rep(100000))`, want: "null"},
		{body: `return kv.get("")`, want: "null"},
		{body: `return kv.get("large")`, fail: "raise limits.stringBytes", kind: script.Limit},
		{body: `return kv.get("unavailable/x")`, fail: "the value of unavailable/x cannot be read: the registry cannot be reached"},
		{body: `return kv.get()`, fail: "bad argument #1 to 'kv.get' (string expected, got no value)"},
		{body: `return kv.json("flags").beta, kv.json("flags").routes.b[2], kv.json("none")`, want: "true\n2\nnull"},
		{body: `return kv.json("flags")`, want: `{"beta":true,"routes":{"a":1,"b":[1,2]}}`},
		{body: `return kv.json("null") == nil`, want: "true"},
		{body: `return #kv.json("large.json").k`, want: "300000"},
		{body: `kv.json("flags").beta = false return kv.json("flags").beta`, want: "true"},
		{body: `return kv.json("broken")`, fail: "the value of broken is not JSON that can be read: "},
		{body: `return kv.json("text")`, fail: "is not JSON that can be read"},
		{body: `return kv.json("bytes")`, fail: "is not JSON that can be read"},
		{body: `return kv.json("deep")`, fail: "is not JSON that can be read"},
		{body: `return kv.keys("t"), kv.keys("nothing")`, want: "[\"text\"]\n[]"},
		{body: `local k = kv.keys("many/") return #k, k[1], k[1000], #kv.keys("many/", k[1000])`, want: "1000\n\"many/0000\"\n\"many/0999\"\n500"},
		{body: `return #kv.keys()`, want: "1000"},
		{body: `local k = kv.keys("t") k[2] = "mine" return kv.keys("t")`, want: `["text"]`},
	})
}

func TestKVIsCharged(t *testing.T) {
	for _, body := range []string{
		`while true do kv.get("text") end`,
		`for i = 1, 250 do pcall(kv.get, "large") end`,
		`while true do kv.keys("many/") end`,
		`while true do kv.json("large.json") end`,
		`while true do pcall(kv.json, "broken") end`,
	} {
		inv := &engine.Invocation{Tenant: "acme", Host: kvHost(), Limits: script.Limits{Timeout: patient}}
		if _, err := evaluate(t, lua.New(), inv, body); script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v, want a Limit", body, err)
		}
	}
}
