package lua

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

func compileProgram(t *testing.T, source string) *program {
	t.Helper()
	p, err := New().Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return p.(*program)
}

// callWith returns the results of a call, one a line, or its error.
func callWith(t *testing.T, p *program, inv engine.Invocation) string {
	t.Helper()
	inv.Limits.Timeout = time.Minute // machines are busy
	var res engine.Result
	if err := p.Run(t.Context(), &inv, &res); err != nil {
		return err.Error()
	}
	out := ""
	for i := range res.Len() {
		out += string(res.Value(i)) + "\n"
	}
	return out
}

// TestConstantChunks holds which chunks are run once, and that no call can tell.
func TestConstantChunks(t *testing.T) {
	for name, test := range map[string]struct {
		source   string
		constant bool
	}{
		"function":                {`function handle() return 1 end`, true},
		"constants":               {`local a, b = "a", 2 c = true local d function handle() return a, b, c, d end`, true},
		"functions that call":     {`local function f(n) return n + 1 end local g = f function handle() return f(1), g(2) end`, true},
		"recursion":               {`local function f(n) if n == 0 then return 0 end return f(n - 1) end function handle() return f(9) end`, true},
		"each other":              {`local g local function f(n) return n == 0 or g(n - 1) end function g(n) return n > 0 and f(n - 1) end function handle() return f(4) end`, true},
		"builtins":                {`local lower, find = string.lower, string.find local j = json function handle() return lower("A"), find("ab", "b"), j.encode({1}) end`, true},
		"null":                    {`local null = json.null function handle() return null == json.null, null end`, true},
		"variables of functions":  {`function handle() local n = 0 local function up() n = n + 1 return n end up() return up() end`, true},
		"deeper variables":        {`function handle() local n = 0 local function f() return function() n = n + 1 return n end end f()() return f()() end`, true},
		"assigned by the chunk":   {`local n = 1 function handle() return n end n = 2`, true},
		"defined twice":           {`function handle() return 1 end function handle() return 2 end`, true},
		"shadowed":                {`local n = 1 function handle() local n = n n = n + 1 return n end`, true},
		"parameter of its name":   {`local n = 1 function f(n) n = n + 1 return n end function handle() return f(1), n end`, true},
		"block":                   {`do local n = 1 function handle() return n end end`, true},
		"unknown globals":         {`function handle() return nothing end`, true},
		"counter":                 {`local n = 0 function handle() n = n + 1 return n end`, false},
		"global counter":          {`n = 0 function handle() n = n + 1 return n end`, false},
		"counter behind":          {`local n = 0 local function up() n = n + 1 return n end function handle() return up() end`, false},
		"counter within":          {`local n = 0 function handle() local function up() n = n + 1 return n end return up() end`, false},
		"counter deeper within":   {`local n = 0 function handle() return (function() return (function() n = n + 1 return n end)() end)() end`, false},
		"counter in a block":      {`do local n = 0 function handle() n = n + 1 return n end end`, false},
		"global made in a call":   {`function handle() local was = seen seen = true return was end`, false},
		"replaces itself":         {`function handle() function handle() return 2 end return 1 end`, false},
		"replaces another":        {`local function f() return 1 end function handle() local v = f() f = function() return 2 end return v end`, false},
		"replaces a library":      {`function handle() local v = string == nil string = nil return v end`, false},
		"for assigns":             {`i = 0 function handle() local was = i for n = 1, 3 do i = n end return was end`, false},
		"assigned with others":    {`local a, b = 0, 0 function handle() local was = a a, b = a + 1, b + 1 return was end`, false},
		"table":                   {`local t = {} function handle() t[1] = (t[1] or 0) + 1 return t[1] end`, false},
		"table of constants":      {`local t = {a = 1} function handle() local v = t.a t.a = 2 return v end`, false},
		"global table":            {`t = {n = 0} function handle() t.n = t.n + 1 return t.n end`, false},
		"metatable":               {`local t = setmetatable({}, {__index = function(t, k) rawset(t, k, 1) return 0 end}) function handle() return t.x end`, false},
		"module":                  {`local M = {} function M.f() M.n = (M.n or 0) + 1 return M.n end function handle() return M.f() end`, false},
		"closure of a call":       {`local function make() local n = 0 return function() n = n + 1 return n end end local up = make() function handle() return up() end`, false},
		"coroutine":               {`local up = coroutine.wrap(function() for i = 1, 9 do coroutine.yield(i) end end) function handle() return up() end`, false},
		"iterator":                {`local next = ("a b c"):gmatch("%a") function handle() return next() end`, false},
		"config":                  {`local c = config function handle() local was = c.x c.x = 1 return was end`, false},
		"result of a call":        {`local ok, t = pcall(function() return {} end) function handle() t.n = (t.n or 0) + 1 return t.n end`, false},
		"condition":               {`if os then function handle() return 1 end end`, false},
		"loop":                    {`for i = 1, 3 do function handle() return i end end`, false},
		"functions as names":      {`local seen = {} local function f() end function handle() local was = seen[f] seen[f] = true return was end`, false},
		"environment":             {`function handle() local was = _G.n _G.n = 1 return was end`, false},
		"chunk that is not whole": {`handle = 1`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := compileProgram(t, test.source)
			if p.constant != test.constant {
				t.Errorf("constant: %v", p.constant)
			}
			inv := engine.Invocation{Tenant: "a", Limits: script.Limits{Coroutines: true}}
			first := callWith(t, p, inv)
			for range 3 {
				if again := callWith(t, p, inv); again != first {
					t.Errorf("first %s, then %s", first, again)
				}
			}
			if kept := p.definition(true) != nil; kept && !test.constant {
				t.Error("what it defines is kept")
			}
			inv.Limits.Coroutines, inv.Tenant = false, "b"
			callWith(t, p, inv)
			if d := p.definition(false); d != nil && d.entry == p.definition(true).entry {
				t.Error("calls with and without coroutines share an entrypoint")
			}
		})
	}
}

// TestConstantChunkIsPaid holds that a call can do as much after others as before.
func TestConstantChunkIsPaid(t *testing.T) {
	const source = `local a, f = "a", function() return 1 end function handle() local n = 0 for i = 1, 5 do n = n + f() end return n, a end`
	warm := compileProgram(t, source)
	callWith(t, warm, engine.Invocation{})
	if warm.definition(false) == nil {
		t.Fatal("nothing is kept")
	}
	for n := range uint64(80) {
		inv := engine.Invocation{Limits: script.Limits{Instructions: n + 1}}
		if first, later := callWith(t, compileProgram(t, source), inv), callWith(t, warm, inv); first != later {
			t.Errorf("with %d instructions: %q in the first call, %q later", n+1, first, later)
		}
	}
	if d := warm.definition(false); d.instructions == 0 || d.bytes == 0 {
		t.Errorf("the chunk is free: %d instructions, %d bytes", d.instructions, d.bytes)
	}
}

// TestConstantChunkIsShared has many states use one entrypoint at once.
func TestConstantChunkIsShared(t *testing.T) {
	p := compileProgram(t, `local k = 2 local function f(n) return n * k end function handle(n) local s = 0 for i = 1, 20 do s = s + f(n) end return s end`)
	var wg sync.WaitGroup
	for tenant := range 8 {
		wg.Go(func() {
			inv := engine.Invocation{Tenant: strconv.Itoa(tenant), Args: [][]byte{[]byte(strconv.Itoa(tenant))}}
			want := strconv.Itoa(40*tenant) + "\n"
			for range 200 {
				if got := callWith(t, p, inv); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
}
