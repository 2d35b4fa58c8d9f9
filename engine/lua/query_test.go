package lua_test

import (
	"encoding/json"
	"strings"
	"testing"
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
		testAPI(t, nil, []apiCase{
			{body: all, args: []string{withQuery(t, query)}, want: want},
			{body: settled + all, args: []string{withQuery(t, query)}, want: want},
		})
	}
	testAPI(t, nil, []apiCase{
		{body: `return a.query_params`, args: []string{`{"query":"x=1"}`}, want: "null"}, // it is no request
		{body: `return a.query_params.x`, args: []string{withQuery(t, 7)}, want: "null"},
		{body: `return a.query_params.x`, args: []string{withQuery(t, nil)}, want: "null"},
		{body: `return a.query_params == a.query_params`, args: []string{withQuery(t, "x=1")}, want: "true"},
		{body: `a.query_params = 3 return a.query_params`, args: []string{withQuery(t, "x=1")}, want: "3"},
		{body: `return a.query_params`, args: []string{`{"headers":{},"query_params":"own"}`}, want: `"own"`},
		{body: `for k in pairs(a) do if k == "query_params" then return k end end return "no"`, args: []string{withQuery(t, "x=1")}, want: `"no"`},
		{body: `local n = 0 for _ in pairs(a.query_params) do n = n + 1 end return n`, args: []string{withQuery(t, strings.Repeat("x&", 10)+manyParams(300))}, want: "247"},
		{body: `return a.query_params.x`, args: []string{withQuery(t, "y="+strings.Repeat("z", 64<<10)+"&x=1")}, want: "null"},
	})
}

func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("p" + strings.Repeat("q", i) + "=1&")
	}
	return b.String()
}
