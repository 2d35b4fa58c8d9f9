package hostlib_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
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
	luatest.RunCases(t, kvHost, []luatest.Case{
		{Body: `return kv.get("text"), kv.get("empty"), kv.get("none")`, Want: "\"plain\"\n\"\"\nnull"},
		{Body: `return kv.get("bytes") == "\255\0"`, Want: "true"},
		{Body: `return kv.get("secret"), kv.get("../other/secret"), kv.get("other/secret")`, Want: "null\nnull\nnull"},
		{Body: `return kv.get(("k"):rep(100000))`, Want: "null"},
		{Body: `return kv.get("")`, Want: "null"},
		{Body: `return kv.get("large")`, Fail: "raise limits.stringBytes", Kind: script.Limit},
		{Body: `return kv.get("unavailable/x")`, Fail: "the value of unavailable/x cannot be read: the registry cannot be reached"},
		{Body: `return kv.get()`, Fail: "bad argument #1 to 'kv.get' (string expected, got no value)"},
		{Body: `return kv.json("flags").beta, kv.json("flags").routes.b[2], kv.json("none")`, Want: "true\n2\nnull"},
		{Body: `return kv.json("flags")`, Want: `{"beta":true,"routes":{"a":1,"b":[1,2]}}`},
		{Body: `return kv.json("null") == nil`, Want: "true"},
		{Body: `return #kv.json("large.json").k`, Want: "300000"},
		{Body: `kv.json("flags").beta = false return kv.json("flags").beta`, Want: "true"},
		{Body: `return kv.json("broken")`, Fail: "the value of broken is not JSON that can be read: "},
		{Body: `return kv.json("text")`, Fail: "is not JSON that can be read"},
		{Body: `return kv.json("bytes")`, Fail: "is not JSON that can be read"},
		{Body: `return kv.json("deep")`, Fail: "is not JSON that can be read"},
		{Body: `return kv.keys("t"), kv.keys("nothing")`, Want: "[\"text\"]\n[]"},
		{Body: `local k = kv.keys("many/") return #k, k[1], k[1000], #kv.keys("many/", k[1000])`, Want: "1000\n\"many/0000\"\n\"many/0999\"\n500"},
		{Body: `return #kv.keys()`, Want: "1000"},
		{Body: `local k = kv.keys("t") k[2] = "mine" return kv.keys("t")`, Want: `["text"]`},
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
		inv := &engine.Invocation{Tenant: "acme", Host: kvHost(), Limits: script.Limits{Timeout: luatest.Patient}}
		if _, err := luatest.Evaluate(t, lua.New(), inv, body); script.KindOf(err) != script.Limit {
			t.Errorf("%s: %v, want a Limit", body, err)
		}
	}
}
