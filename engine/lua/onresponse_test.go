package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/compile"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestOnResponse holds which sources have an on_response, what a call of it gives, and that calls of
// the two functions share nothing, in whatever order they come.
func TestOnResponse(t *testing.T) {
	args := [][]byte{[]byte(`{"path":"/a","headers":{"cookie":"s=1"}}`), []byte(`{"status":200}`)}
	for name, test := range map[string]struct {
		source string
		has    bool
		want   string
	}{
		"function":          {`function handle() return 1 end function on_response(q, p) return q.path, p.status, q.cookies.s end`, true, "\"/a\"\n200\n\"1\"\n"},
		"none":              {`function handle() return 1 end`, false, ""},
		"a local one":       {`function handle() return 1 end local function on_response() return 2 end`, false, ""},
		"a member":          {`t = {} function handle() return 1 end function t.on_response() return 2 end`, false, ""},
		"mentioned":         {`function handle() return 1, on_response, "on_response" end`, false, ""},
		"assigned":          {`local function f() return 2 end function handle() return 1 end on_response = f`, true, "2\n"},
		"the same function": {`function handle(_, p) return p and 2 or 1 end on_response = handle`, true, "2\n"},
		"by config":         {`function handle() return 1 end if config.on then function on_response() return 2 end end`, true, ""},
		"by name":           {`function handle() return 1 end _G["on_" .. "response"] = function() return 2 end`, true, "2\n"},
		"by a call":         {`function handle() function on_response() return 2 end return 1 end`, true, ""},
		"shared state":      {`n = 0 function handle() n = n + 1 return n end function on_response() n = n + 2 return n end`, true, "2\n"},
		"a table":           {`function handle() return 1 end on_response = {}`, true, "the script sets the global on_response to a table: it can only be a function"},
		"false":             {`function handle() return 1 end on_response = false`, true, "the script sets the global on_response to a boolean: it can only be a function"},
		"a builtin":         {`function handle() return 1 end on_response = type`, true, "\"table\"\n"},
		"fails":             {`function handle() return 1 end function on_response() error("no", 0) end`, true, "no (line 1)"},
		"spins":             {`function handle() return 1 end function on_response() while true do end end`, true, "the call used up its"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileProgram(t, test.source)
			if p.OnResponse() != test.has {
				t.Errorf("it has one: %v", p.OnResponse())
			}
			requests, responses := engine.Invocation{Tenant: "a", Args: args[:1]}, engine.Invocation{Tenant: "a", Args: args, OnResponse: true}
			first := callWith(t, p, requests)
			for range 3 {
				if got := callWith(t, p, responses); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if got := callWith(t, p, requests); got != first {
					t.Errorf("the entrypoint gives %q, and then %q", first, got)
				}
			}
		})
	}
}

// TestOnResponseOfEntrypoints: a program whose entrypoint has the name answers both with it, and one
// without an entrypoint answers requests alone.
func TestOnResponseOfEntrypoints(t *testing.T) {
	p, err := New().Compile(engine.Source{Code: []byte(`function on_response(q, p) return p ~= nil end`), Entrypoint: engine.OnResponse})
	if err != nil || !p.OnResponse() {
		t.Fatalf("%v, %v", p, err)
	}
	for want, args := range map[string][]string{"false\n": {`{}`}, "true\n": {`{}`, `{}`}} {
		inv := engine.Invocation{OnResponse: len(args) == 2}
		for _, arg := range args {
			inv.Args = append(inv.Args, []byte(arg))
		}
		if got := callWith(t, p.(*program), inv); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
	chunk, err := New().Compile(engine.Source{Code: []byte(`function on_response() end return _G ~= nil`)})
	if err != nil || chunk.OnResponse() {
		t.Errorf("a chunk has one: %v", err)
	}
	if got := callWith(t, chunk.(*program), engine.Invocation{OnResponse: true, Args: [][]byte{[]byte(`{}`), []byte(`{}`)}}); !strings.HasPrefix(got, "args: a script without entrypoint") {
		t.Errorf("a chunk gives %q", got)
	}
}

// TestOnResponsePaysForTheChunk: what a call of it may do does not depend on what ran before it.
func TestOnResponsePaysForTheChunk(t *testing.T) {
	const source = `local a = "a" local function f() return 1 end function handle() return 1 end function on_response() local n = 0 for i = 1, 5 do n = n + f() end return n, a end`
	warm := compileProgram(t, source)
	callWith(t, warm, engine.Invocation{})
	if d := warm.definition(false); d == nil || d.onResponse == nil {
		t.Fatal("it is not kept")
	}
	for n := range uint64(80) {
		inv := engine.Invocation{OnResponse: true, Limits: script.Limits{Instructions: n + 1}}
		if first, later := callWith(t, compileProgram(t, source), inv), callWith(t, warm, inv); first != later {
			t.Errorf("with %d instructions: %q in the first call, %q later", n+1, first, later)
		}
	}
}

// TestOnResponseOfLargeChunks: a chunk with too many globals to be wrapped has one, too.
func TestOnResponseOfLargeChunks(t *testing.T) {
	var b strings.Builder
	for i := range compile.MaxGlobals + 1 {
		fmt.Fprintf(&b, "g%d = %d\n", i, i)
	}
	p := compileProgram(t, b.String()+`function handle() return g1 end function on_response() return g2 end`)
	if got := callWith(t, p, engine.Invocation{OnResponse: true}); p.Wrapped || !p.OnResponse() || got != "2\n" {
		t.Errorf("wrapped: %v, got %q", p.Wrapped, got)
	}
}
