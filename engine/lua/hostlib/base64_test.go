package hostlib_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestBase64(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return base64.encode("")`, Want: `""`},
		{Body: `return base64.encode("f"), base64.encode("fo"), base64.encode("foo")`, Want: "\"Zg==\"\n\"Zm8=\"\n\"Zm9v\""},
		{Body: `return base64.encode("\251\255"), base64.encode_url("\251\255")`, Want: "\"+/8=\"\n\"-_8\""},
		{Body: `return base64.decode("Zg=="), base64.decode("Zg")`, Want: "\"f\"\n\"f\""},
		{Body: `return base64.decode_url("-_8") == "\251\255", base64.decode_url("-_8=") == "\251\255"`, Want: "true\ntrue"},
		{Body: `return base64.decode("")`, Want: `""`},
		{Body: `return base64.decode("Zg=")`, Want: "null\n\"not valid base64\""},
		{Body: `return base64.decode("Zg===")`, Want: "null\n\"not valid base64\""},
		{Body: `return (base64.decode("Zg==\n"))`, Want: "null"},
		{Body: `return (base64.decode("Z\ng"))`, Want: "null"},
		{Body: `return (base64.decode("Zh=="))`, Want: "null"}, // bits are left over
		{Body: `return (base64.decode("-_8"))`, Want: "null"},
		{Body: `return (base64.decode_url("+/8"))`, Want: "null"},
		{Body: `return (base64.decode("===="))`, Want: "null"},
		{Body: `return base64.encode(12)`, Want: `"MTI="`},
		{Body: `return base64.encode({})`, Fail: "bad argument #1 to 'base64.encode' (string expected, got table)"},
		{Body: `return base64.encode(("x"):rep(200000))`, Fail: "over the limit", Kind: script.Limit},
	})
}

func FuzzBase64(f *testing.F) {
	f.Add("")
	f.Add("Zm9v\r\n")
	f.Add("Zg==")
	e := lua.New()
	f.Fuzz(func(t *testing.T, s string) {
		arg, err := json.Marshal(base64.StdEncoding.EncodeToString([]byte(s)))
		if err != nil {
			t.Fatal(err)
		}
		inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient}}
		const body = `local s = assert(base64.decode(a))
			return base64.encode(s) == a and base64.decode_url(base64.encode_url(s)) == s, #s`
		got, err := luatest.Evaluate(t, e, inv, body, string(arg))
		if want := fmt.Sprintf("true\n%d", len(s)); got != want || err != nil {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	})
}
