package hostlib_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestAPIVersion(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: "return scriptorium.api", Want: "3"},
		{Body: "scriptorium.api = 3", Fail: "read-only"},
		{Body: "return scriptorium.more", Want: "null"},
		{Body: "return (pcall(function() log.info = nil end))", Want: "false"},
		{Body: "rawset(kv, 'get', 1)", Fail: "table expected"},
		{Body: "log = nil return log", Want: "null"}, // a script's own name
	})
}

func TestWithoutHost(t *testing.T) {
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: "log.info('x') log.warn('x', {a = 1}) log.error('x') log_info('x') return 1", Want: "1"},
		{Body: "return kv.get('x')", Fail: "kv.get is not available: the script runs without an agent"},
		{Body: "return kv.json('x')", Fail: "kv.json is not available"},
		{Body: "return kv.keys()", Fail: "kv.keys is not available"},
		{Body: "return counter.add('x')", Fail: "counter.add is not available"},
		{Body: "return counter.get('x')", Fail: "counter.get is not available"},
		{Body: "return ratelimit.allow('x', {rate = 1})", Fail: "ratelimit.allow is not available"},
		{Body: "return (pcall(kv.get, 'x'))", Want: "false"},
	})
}

func TestGetRequestHeader(t *testing.T) {
	request := `{"method":"GET","headers":{"host":"a.example","X-Mixed":"m","x-list":["one","two"],"x-empty":[],"x-null":null,"x-n":7,"x-twice":"1","x-twice":"2","x-table":{"1":"a"},"x-true":true}}`
	many := `{"headers":{` + strings.Repeat(`"x":"1",`, 100) + `"Last":"l"}}`
	luatest.RunCases(t, nil, []luatest.Case{
		{Body: "return get_request_header('host')", Args: []string{request}, Want: `"a.example"`},
		{Body: "return get_request_header('HOST')", Args: []string{request}, Want: `"a.example"`},
		{Body: "return get_request_header('x-mixed')", Args: []string{request}, Want: `"m"`},
		{Body: "return get_request_header('x-list')", Args: []string{request}, Want: `"one"`},
		{Body: "return get_request_header('x-empty')", Args: []string{request}, Want: `null`},
		{Body: "return get_request_header('x-null')", Args: []string{request}, Want: `null`},
		{Body: "return get_request_header('x-n')", Args: []string{request}, Want: `"7"`},
		{Body: "return get_request_header('x-twice')", Args: []string{request}, Want: `"2"`},
		{Body: "return get_request_header('x-table')", Args: []string{request}, Want: `null`},
		{Body: "return get_request_header('x-true')", Args: []string{request}, Want: `null`},
		{Body: "return get_request_header('none')", Args: []string{request}, Want: `null`},
		{Body: "return get_request_header('last'), get_request_header('X')", Args: []string{many}, Want: "\"l\"\n\"1\""},
		{Body: "a.headers['X-New'] = 'n' return get_request_header('x-new'), get_request_header('x-Mixed')", Args: []string{request}, Want: "\"n\"\n\"m\""},
		{Body: "a.headers = {Host = 'changed'} return get_request_header('host')", Args: []string{request}, Want: `"changed"`},
		{Body: "a.method = nil return get_request_header('host')", Args: []string{request}, Want: `"a.example"`},
		{Body: "return get_request_header('x')", Want: "null"},
		{Body: "return get_request_header('x')", Args: []string{`1`}, Want: "null"},
		{Body: "return get_request_header('x')", Args: []string{`{}`}, Want: "null"},
		{Body: "return get_request_header('x')", Args: []string{`{"headers":"x"}`}, Want: "null"},
		{Body: "return get_request_header()", Args: []string{request}, Fail: "bad argument #1 to 'get_request_header' (string expected, got no value)"},
		{Body: "setmetatable(a.headers, {__index = function() error('looked') end}) return get_request_header('none')", Args: []string{request}, Want: "null"},
	})

	p, err := lua.New().Compile(engine.Source{Code: []byte("return get_request_header('Host')")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := luatest.Run(t, p, "acme", request); got != `"a.example"` || err != nil {
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
				p := luatest.Compile(t, lua.New(), body)
				const most = 10_000_000
				var res engine.Result
				return sort.Search(most, func(budget int) bool {
					inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{[]byte(tt.request)}, Limits: script.Limits{Instructions: uint64(budget + 1), Timeout: luatest.Patient}}
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
