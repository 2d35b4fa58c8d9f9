package lua_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// apiCase is a script, or the body of one's handle(a, b), and what becomes of it.
type apiCase struct {
	body string
	args []string
	want string // the results, one a line
	fail string // what the error's message holds
	kind script.Kind
}

// testAPI runs cases, each with a fresh host.
func testAPI(t *testing.T, newHost func() *enginetest.Host, cases []apiCase) {
	t.Helper()
	e := lua.New()
	for _, c := range cases {
		t.Run("", func(t *testing.T) {
			inv := &engine.Invocation{Tenant: "acme", Script: "edge", Version: 7, Limits: script.Limits{Timeout: patient}}
			if newHost != nil {
				inv.Host = newHost()
			}
			got, err := evaluate(t, e, inv, c.body, c.args...)
			wantPresentable(t, err)
			switch {
			case err != nil && c.fail == "":
				t.Errorf("%s\nfails: %v", c.body, err)
			case err != nil:
				kind := c.kind
				if kind == "" {
					kind = script.Script
				}
				if e := script.AsError(err); !strings.Contains(e.Message, c.fail) || e.Kind != kind {
					t.Errorf("%s\nfails with %s %q, not %s %q", c.body, e.Kind, e.Message, kind, c.fail)
				}
			case c.fail != "":
				t.Errorf("%s\nreturns %q, and does not fail with %q", c.body, got, c.fail)
			case got != c.want:
				t.Errorf("%s\nreturns %q, not %q", c.body, got, c.want)
			}
		})
	}
}

// evaluate runs body as that of handle(a, b), unless it defines one itself.
func evaluate(t *testing.T, e engine.Engine, inv *engine.Invocation, body string, args ...string) (string, error) {
	t.Helper()
	if !strings.Contains(body, "function handle") {
		body = "function handle(a, b) " + body + "\nend"
	}
	p := compile(t, e, body)
	inv.Args = nil
	for _, arg := range args {
		inv.Args = append(inv.Args, []byte(arg))
	}
	var res engine.Result
	err := p.Run(t.Context(), inv, &res)
	lines := make([]string, res.Len())
	for i := range lines {
		lines[i] = string(res.Value(i))
	}
	return strings.Join(lines, "\n"), err
}

func TestAPIVersion(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: "return scriptorium.api", want: "3"},
		{body: "scriptorium.api = 3", fail: "read-only"},
		{body: "return scriptorium.more", want: "null"},
		{body: "return (pcall(function() log.info = nil end))", want: "false"},
		{body: "rawset(kv, 'get', 1)", fail: "table expected"},
		{body: "log = nil return log", want: "null"}, // a script's own name
	})
}

func TestWithoutHost(t *testing.T) {
	testAPI(t, nil, []apiCase{
		{body: "log.info('x') log.warn('x', {a = 1}) log.error('x') log_info('x') return 1", want: "1"},
		{body: "return kv.get('x')", fail: "kv.get is not available: the script runs without an agent"},
		{body: "return kv.json('x')", fail: "kv.json is not available"},
		{body: "return kv.keys()", fail: "kv.keys is not available"},
		{body: "return counter.add('x')", fail: "counter.add is not available"},
		{body: "return counter.get('x')", fail: "counter.get is not available"},
		{body: "return ratelimit.allow('x', {rate = 1})", fail: "ratelimit.allow is not available"},
		{body: "return (pcall(kv.get, 'x'))", want: "false"},
	})
}

func TestGetRequestHeader(t *testing.T) {
	request := `{"method":"GET","headers":{"host":"a.example","X-Mixed":"m","x-list":["one","two"],"x-empty":[],"x-null":null,"x-n":7,"x-twice":"1","x-twice":"2","x-table":{"1":"a"},"x-true":true}}`
	many := `{"headers":{` + strings.Repeat(`"x":"1",`, 100) + `"Last":"l"}}`
	testAPI(t, nil, []apiCase{
		{body: "return get_request_header('host')", args: []string{request}, want: `"a.example"`},
		{body: "return get_request_header('HOST')", args: []string{request}, want: `"a.example"`},
		{body: "return get_request_header('x-mixed')", args: []string{request}, want: `"m"`},
		{body: "return get_request_header('x-list')", args: []string{request}, want: `"one"`},
		{body: "return get_request_header('x-empty')", args: []string{request}, want: `null`},
		{body: "return get_request_header('x-null')", args: []string{request}, want: `null`},
		{body: "return get_request_header('x-n')", args: []string{request}, want: `"7"`},
		{body: "return get_request_header('x-twice')", args: []string{request}, want: `"2"`},
		{body: "return get_request_header('x-table')", args: []string{request}, want: `null`},
		{body: "return get_request_header('x-true')", args: []string{request}, want: `null`},
		{body: "return get_request_header('none')", args: []string{request}, want: `null`},
		{body: "return get_request_header('last'), get_request_header('X')", args: []string{many}, want: "\"l\"\n\"1\""},
		{body: "a.headers['X-New'] = 'n' return get_request_header('x-new'), get_request_header('x-Mixed')", args: []string{request}, want: "\"n\"\n\"m\""},
		{body: "a.headers = {Host = 'changed'} return get_request_header('host')", args: []string{request}, want: `"changed"`},
		{body: "a.method = nil return get_request_header('host')", args: []string{request}, want: `"a.example"`},
		{body: "return get_request_header('x')", want: "null"},
		{body: "return get_request_header('x')", args: []string{`1`}, want: "null"},
		{body: "return get_request_header('x')", args: []string{`{}`}, want: "null"},
		{body: "return get_request_header('x')", args: []string{`{"headers":"x"}`}, want: "null"},
		{body: "return get_request_header()", args: []string{request}, fail: "bad argument #1 to 'get_request_header' (string expected, got no value)"},
		{body: "setmetatable(a.headers, {__index = function() error('looked') end}) return get_request_header('none')", args: []string{request}, want: "null"},
	})

	p, err := lua.New().Compile(engine.Source{Code: []byte("return get_request_header('Host')")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(t, p, "acme", request); got != `"a.example"` || err != nil {
		t.Errorf("without an entrypoint: %q, %v", got, err)
	}
}

// TestHeadersCost: looking a header up costs at least an instruction for each 64 bytes of
// names that it may compare, and for each 8 members that it passes.
func TestHeadersCost(t *testing.T) {
	needs.NoRace(t)
	object := func(n int, prefix string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%s%05d":"x"`, prefix, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	const lookups = 100 // their cost must outweigh what the memory of the request needs
	long := strings.Repeat("a", 995)
	for name, tt := range map[string]struct {
		before, header string
		request        string
		least          uint64
	}{
		"long names":             {"", long + "00000", `{"headers":` + object(50, long) + `}`, 50 * 1000 / 64},
		"none of long names":     {"", long + "nowhe", `{"headers":` + object(50, long) + `}`, 50 * 1000 / 64},
		"long names of a table":  {"for k in pairs(request.headers) do end", long + "nowhe", `{"headers":` + object(50, long) + `}`, 50 * 1000 / 64},
		"members beside headers": {"", "host", `{"headers":{"host":"x"},` + object(16_000, "mm")[1:], 16_000 / 8},
		"members that are short": {"", "host", `{"headers":{"host":"x"}}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) int {
				body := fmt.Sprintf("function handle(request) %s for i = 1, %d do get_request_header(%q) end end", tt.before, n, tt.header)
				p := compile(t, lua.New(), body)
				const most = 10_000_000
				var res engine.Result
				return sort.Search(most, func(budget int) bool {
					inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(tt.request)}, Limits: script.Limits{Instructions: uint64(budget + 1), Timeout: patient}}
					res.Reset()
					err := p.Run(t.Context(), inv, &res)
					if err != nil && script.KindOf(err) != script.Limit {
						t.Fatal(err)
					}
					return err == nil
				})
			}
			each := uint64(cost(2*lookups)-cost(lookups)) / lookups
			if t.Logf("%d instructions each", each); each < tt.least || tt.least == 0 && each > 20 {
				t.Errorf("a lookup costs %d instructions, want %d", each, tt.least)
			}
		})
	}
}
