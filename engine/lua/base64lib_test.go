package lua_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestBase64(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: `return base64.encode("")`, want: `""`},
		{body: `return base64.encode("f"), base64.encode("fo"), base64.encode("foo")`, want: "\"Zg==\"\n\"Zm8=\"\n\"Zm9v\""},
		{body: `return base64.encode("\251\255"), base64.encode_url("\251\255")`, want: "\"+/8=\"\n\"-_8\""},
		{body: `return base64.decode("Zg=="), base64.decode("Zg")`, want: "\"f\"\n\"f\""},
		{body: `return base64.decode_url("-_8") == "\251\255", base64.decode_url("-_8=") == "\251\255"`, want: "true\ntrue"},
		{body: `return base64.decode("")`, want: `""`},
		{body: `return base64.decode("Zg=")`, want: "null\n\"not valid base64\""},
		{body: `return base64.decode("Zg===")`, want: "null\n\"not valid base64\""},
		{body: `return (base64.decode("Zg==\n"))`, want: "null"},
		{body: `return (base64.decode("Z\ng"))`, want: "null"},
		{body: `return (base64.decode("Zh=="))`, want: "null"}, // bits are left over
		{body: `return (base64.decode("-_8"))`, want: "null"},
		{body: `return (base64.decode_url("+/8"))`, want: "null"},
		{body: `return (base64.decode("===="))`, want: "null"},
		{body: `return base64.encode(12)`, want: `"MTI="`},
		{body: `return base64.encode({})`, fail: "bad argument #1 to 'base64.encode' (string expected, got table)"},
		{body: `return base64.encode(("x"):rep(200000))`, fail: "over the limit", kind: script.Limit},
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
		inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: patient}}
		const body = `local s = assert(base64.decode(a))
			return base64.encode(s) == a and base64.decode_url(base64.encode_url(s)) == s, #s`
		got, err := evaluate(t, e, inv, body, string(arg))
		if want := fmt.Sprintf("true\n%d", len(s)); got != want || err != nil {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	})
}
