package hostlib_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// settled makes the request a plain table before the rest of a body runs.
const settled = `for _ in pairs(a) do end `

// withCookie returns a request as gateways send it, with the Cookie header.
func withCookie(t *testing.T, header any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"method": "GET", "scheme": "https", "host": "shop.example", "path": "/cart", "query": "", "remote_addr": "203.0.113.9",
		"headers": map[string]any{"accept": "*/*", "cookie": header, "user-agent": "curl/8.5.0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCookiesAreParsed(t *testing.T) {
	const all = `local names = {} for name, value in pairs(a.cookies) do names[#names + 1] = name .. "=" .. value end return table.concat(names, "|")`
	for header, want := range map[string]string{
		"":                              "",
		"session=42":                    "session=42",
		"session=42; theme=dark":        "session=42|theme=dark",
		"a=1;b=2;c=3":                   "a=1|b=2|c=3",
		" \t a = 1 \t;\tb=2":            "a=1|b=2",
		`a="quoted"; b="; c="`:          `a=quoted|b="|c="`,
		`a=""; b=x"y"; c="z`:            `a=|b=x"y"|c="z`,
		"a=1; a=2; A=3":                 "a=1|A=3",
		"a=; a=2":                       "a=",
		"a=b=c==":                       "a=b=c==",
		"junk; =1; ; ;;a b=1; (x)=1":    "",
		"a\x00=1; b=\x01; c=2; é=1":     "c=2",
		"a=é; b=100%25; c=x y":          "a=é|b=100%25|c=x y",
		"__index=1; __metatable=2":      "__index=1|__metatable=2",
		"$Version=1; !#$%&'*+-.^_`|~=1": "$Version=1|!#$%&'*+-.^_`|~=1",
	} {
		luatest.RunCases(t, nil, []luatest.Case{{Body: all, Args: []string{withCookie(t, header)}, Want: quoted(t, want)}})
	}
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: all, Args: []string{withCookie(t, []string{"a=1; b=2", "b=3; c=4"})}, Want: `"a=1|b=2|c=4"`},
		{Body: all, Args: []string{withCookie(t, []any{nil, 7, "a=1"})}, Want: `"a=1"`},
		{Body: all, Args: []string{withCookie(t, nil)}, Want: `""`},
		{Body: all, Args: []string{withCookie(t, 7)}, Want: `""`},
		{Body: all, Args: []string{withCookie(t, map[string]string{"1": "a=1"})}, Want: `""`},
		{Body: all, Args: []string{`{"headers":{"Cookie":"a=1"}}`}, Want: `"a=1"`},
		{Body: all, Args: []string{`{"headers":{}}`}, Want: `""`},
	})
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	p := luatest.Compile(t, lua.New(), "function handle(s) return s end")
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := luatest.Run(t, p, "acme", string(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCookiesAreAField: scripts read request.cookies as a field, whether or not they
// have changed the request before, and find it nowhere else.
func TestCookiesAreAField(t *testing.T) {
	request := withCookie(t, "user=ada; theme=dark")
	many := `{` + strings.Repeat(`"x":1,`, 40) + `"headers":{"cookie":"user=ada"}}`
	cases := []luatest.Case{
		{Body: `return a.cookies.user, a.cookies["theme"], a.cookies.none`, Want: "\"ada\"\n\"dark\"\nnull"},
		{Body: `local name = "cook" .. "ies" return a[name].user`, Want: `"ada"`},
		{Body: `return a.cookies == a.cookies, type(a.cookies), getmetatable(a) == nil, getmetatable(a.cookies) == nil`, Want: "true\n\"table\"\ntrue\ntrue"},
		{Body: `a.cookies.user = "bob" a.cookies.new = "n" return a.cookies.user, a.cookies.new`, Want: "\"bob\"\n\"n\""},
		{Body: `local c = a.cookies for k in pairs(a) do if k == "cookies" then return "seen" end end return c.user, rawget(a, "cookies")`, Want: "\"ada\"\nnull"},
		{Body: `a.cookies = "mine" return a.cookies`, Want: `"mine"`},
		{Body: `a.cookies = nil return a.cookies.user`, Want: `"ada"`},
		{Body: `a.path = "/other" a.extra = 1 return a.cookies.user, a.path, a.extra, a.none`, Want: "\"ada\"\n\"/other\"\n1\nnull"},
		{Body: `a.headers["cookie"] = "user=eve" return a.cookies.user`, Want: `"eve"`},
		{Body: `a.headers = {Cookie = "user=eve"} return a.cookies.user`, Want: `"eve"`},
		{Body: `a.headers = nil return a.cookies`, Want: "null"},
		{Body: `local c = a.cookies a.headers = nil return a.cookies == c`, Want: "true"},
		{Body: `local w = setmetatable({}, {__index = a}) return w.cookies.user`, Want: `"ada"`},
		{Body: `return setmetatable(a, {__index = function(_, k) return k .. "?" end}).cookies`, Want: `"cookies?"`},
		{Body: `return #json.array(a), a.cookies`, Want: "0\nnull"},
		{Body: `return a.cookies`, Want: `{"user":"ada","theme":"dark"}`},
		{Body: `return (pcall(function() return a.cookies() end)), (pcall(function() return a + 1 end)), (pcall(function() return a .. "" end))`, Want: "false\nfalse\nfalse"},
	}
	for _, c := range cases {
		c.Args = []string{request}
		luatest.RunCases(t, nil, []luatest.Case{c})
		c.Body = settled + c.Body
		luatest.RunCases(t, nil, []luatest.Case{c})
	}
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `local _ = a.cookies return a`, Args: []string{request}, Want: request},
		{Body: settled + `local _ = a.cookies return json.encode(a):find("cookies") == nil`, Args: []string{request}, Want: "true"},
		{Body: `return a.cookies.user`, Args: []string{many}, Want: `"ada"`},
		{Body: `return a.x, a.cookies.user, a.none`, Args: []string{many}, Want: "1\n\"ada\"\nnull"},
	})
}

// TestCookiesOfOthers: the caller's own member wins, and what is no request has no cookies.
func TestCookiesOfOthers(t *testing.T) {
	cases := []luatest.Case{
		{Args: []string{`{"cookies":{"user":"caller"},"headers":{"cookie":"user=ada"}}`}, Want: `{"user":"caller"}`},
		{Args: []string{`{"cookies":"text","headers":{"cookie":"user=ada"}}`}, Want: `"text"`},
		{Args: []string{`{"cookies":false,"headers":{"cookie":"user=ada"}}`}, Want: `false`},
		{Args: []string{`{"cookies":null,"headers":{"cookie":"user=ada"}}`}, Want: `{"user":"ada"}`},
		{Args: []string{`{"cookie":"user=ada"}`}, Want: `null`},
		{Args: []string{`{"headers":"cookie: user=ada"}`}, Want: `null`},
		{Args: []string{`{"headers":null}`}, Want: `null`},
		{Args: []string{`{"headers":[]}`}, Want: `{}`},
	}
	for _, c := range cases {
		c.Body = `return a.cookies`
		luatest.RunCases(t, nil, []luatest.Case{c})
		c.Body = settled + c.Body
		luatest.RunCases(t, nil, []luatest.Case{c})
	}
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return b.cookies`, Args: []string{`1`, `{"headers":{"cookie":"user=ada"}}`}, Want: `null`},
		{Body: `return a.headers.cookies, a.inner.cookies`, Args: []string{`{"headers":{"cookie":"a=1"},"inner":{"headers":{"cookie":"a=1"}}}`}, Want: "null\nnull"},
		{Body: `return json.decode('{"headers":{"cookie":"a=1"}}').cookies`, Want: `null`},
	})
	p, err := lua.New().Compile(engine.Source{Code: []byte(`return cookies`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := luatest.Run(t, p, "acme", `{"headers":{"cookie":"user=ada"}}`); got != "null" || err != nil {
		t.Errorf("without an entrypoint: %q, %v", got, err)
	}
}

// TestCookiesOfOneCall: no call finds the cookies of the call before it.
func TestCookiesOfOneCall(t *testing.T) {
	p := luatest.Compile(t, lua.New(), `function handle(a) return a.cookies and a.cookies.user end`)
	for _, c := range []struct{ request, want string }{
		{withCookie(t, "user=ada"), `"ada"`}, {withCookie(t, "user=bob"), `"bob"`}, {`{}`, "null"}, {withCookie(t, ""), "null"},
	} {
		if got, err := luatest.Run(t, p, "acme", c.request); got != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.request, got, err, c.want)
		}
	}
}

// TestCookiesAreBounded: the header of a stranger cannot make many or large ones, and
// a pair that is not read whole is not read.
func TestCookiesAreBounded(t *testing.T) {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "c%d=%d; ", i, i)
	}
	const filler = 1 << 16
	long := "a=1; b=" + strings.Repeat("x", filler) + "; c=3"
	const count = `local n = 0 for _ in pairs(a.cookies) do n = n + 1 end return n, `
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: count + `a.cookies.c0, a.cookies.c255, a.cookies.c256`, Args: []string{withCookie(t, many.String())}, Want: "256\n\"0\"\n\"255\"\nnull"},
		{Body: count + `a.cookies.a, a.cookies.b, a.cookies.c`, Args: []string{withCookie(t, long)}, Want: "1\n\"1\"\nnull\nnull"},
		{Body: count + `a.cookies.a, a.cookies.d`, Args: []string{withCookie(t, []string{long, "d=4"})}, Want: "1\n\"1\"\nnull"},
	})
}

// TestCookiesArePaidForWhenTheyAreRead: a header costs a script nothing that does not
// ask for it, and its instructions at the first use otherwise.
func TestCookiesArePaidForWhenTheyAreRead(t *testing.T) {
	request := withCookie(t, strings.Repeat("a=1;;", 10_000))
	const budget = 20_000 // of which decoding the request takes three quarters
	for body, kind := range map[string]script.Kind{
		`return a.path, a.none, a.headers.accept`:                 "",
		`return a.cookies.a`:                                      script.Limit,
		settled + `return pcall(function() return a.cookies end)`: script.Limit,
	} {
		inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient, Instructions: budget}}
		if got, err := luatest.Evaluate(t, lua.New(), inv, body, request); script.KindOf(err) != kind {
			t.Errorf("%s: %.100s, %v, want kind %q", body, got, err, kind)
		}
	}
	inv := &engine.Invocation{Tenant: "acme", Limits: script.Limits{Timeout: luatest.Patient, Instructions: 10 * budget}}
	if got, err := luatest.Evaluate(t, lua.New(), inv, `local n = 0 for i = 1, 5000 do n = n + #a.cookies.a end return n`, request); got != "5000" || err != nil {
		t.Errorf("read once and used often: %s, %v", got, err)
	}
}

// FuzzCookies: whatever a client sends, a script finds nothing that could not be a cookie.
// In a plain header it finds what net/http finds.
func FuzzCookies(f *testing.F) {
	for _, header := range []string{"", "a=1", "a=1; b=2", ` a="1" ;b`, "a=1;a=2", "=;;= ;", "a=\x00", `a="`, "é=é", "a\tb=1", "a==; b= c ", "a\n=1"} {
		f.Add(header)
	}
	p, err := lua.New().Compile(engine.Source{Entrypoint: "handle", Code: []byte(`function handle(request) return request.cookies end`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header string) {
		header = strings.ToValidUTF8(header, "?")
		var res engine.Result
		inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(withCookie(t, header))}, Limits: script.MaxLimits()}
		if err := p.Run(t.Context(), inv, &res); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(res.Value(0), &got); err != nil {
			t.Fatal(err)
		}
		for name, value := range got {
			if name == "" || strings.ContainsAny(name+value, ";\x00\r\n") || strings.ContainsAny(name, "= \t\"") || !strings.Contains(header, value) {
				t.Errorf("%q gives %q=%q", header, name, value)
			}
		}
		const mostCookies, mostBytes = 256, 1 << 15
		if want := netCookies(header); plainHeader.MatchString(header) && len(want) <= mostCookies && len(header) <= mostBytes && !maps.Equal(got, want) {
			t.Errorf("%q gives %q, net/http %q", header, got, want)
		}
	})
}

// plainHeader matches headers of which net/http drops no value: without quotes,
// backslashes, and what is not printable ASCII.
var plainHeader = regexp.MustCompile(`^[ !#-\[\]-~]*$`)

// netCookies returns the cookies that net/http finds, the first of each name. Pairs
// without "=", which it takes for empty cookies, are left out.
func netCookies(header string) map[string]string {
	pairs := slices.DeleteFunc(strings.Split(header, ";"), func(pair string) bool { return !strings.Contains(pair, "=") })
	cookies := map[string]string{}
	for _, c := range (&http.Request{Header: http.Header{"Cookie": {strings.Join(pairs, ";")}}}).Cookies() {
		if _, ok := cookies[c.Name]; !ok {
			cookies[c.Name] = strings.TrimSpace(c.Value)
		}
	}
	return cookies
}
