package hostlib_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
)

// withQuery returns a request as gateways send it, with the query.
func withQuery(t *testing.T, query any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"path": "/cart", "query": query, "headers": map[string]any{"cookie": "q=1"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestQueryIsParsed(t *testing.T) {
	const all = `local all = {} for name, value in pairs(a.query_params) do all[name] = value end return all`
	for query, want := range map[string]string{
		"":                        `{}`,
		"a=1":                     `{"a":"1"}`,
		"a=1&b=2&a=3&a=4":         `{"a":["1","3","4"],"b":"2"}`,
		"a&b=&=c&&":               `{"a":"","b":"","":"c"}`,
		"a=b=c&x=%3d%26%2B+y":     `{"a":"b=c","x":"=&+ y"}`,
		"%61%20b=1&%zz=%4&p=100%": `{"a b":"1","%zz":"%4","p":"100%"}`,
		"__index=1":               `{"__index":"1"}`,
	} {
		luatest.RunCases(t, nil, []luatest.Case{
			{Body: all, Args: []string{withQuery(t, query)}, Want: want},
			{Body: settled + all, Args: []string{withQuery(t, query)}, Want: want},
		})
	}
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: `return a.query_params`, Args: []string{`{"query":"x=1"}`}, Want: "null"}, // it is no request
		{Body: `return a.query_params.x`, Args: []string{withQuery(t, 7)}, Want: "null"},
		{Body: `return a.query_params.x`, Args: []string{withQuery(t, nil)}, Want: "null"},
		{Body: `return a.query_params == a.query_params`, Args: []string{withQuery(t, "x=1")}, Want: "true"},
		{Body: `a.query_params = 3 return a.query_params`, Args: []string{withQuery(t, "x=1")}, Want: "3"},
		{Body: `return a.query_params`, Args: []string{`{"headers":{},"query_params":"own"}`}, Want: `"own"`},
		{Body: `for k in pairs(a) do if k == "query_params" then return k end end return "no"`, Args: []string{withQuery(t, "x=1")}, Want: `"no"`},
		{Body: `local n = 0 for _ in pairs(a.query_params) do n = n + 1 end return n`, Args: []string{withQuery(t, strings.Repeat("x&", 10)+manyParams(300))}, Want: "247"},
		{Body: `return a.query_params.x`, Args: []string{withQuery(t, "y="+strings.Repeat("z", 64<<10)+"&x=1")}, Want: "null"},
	})
}

func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("p" + strings.Repeat("q", i) + "=1&")
	}
	return b.String()
}
