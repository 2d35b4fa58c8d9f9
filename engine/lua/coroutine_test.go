package lua_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// runCoroutines calls handle of a source that may use coroutines.
func runCoroutines(t *testing.T, source string, limits script.Limits) (string, error) {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatalf("%v in\n%s", err, source)
	}
	limits.Coroutines = true
	var res engine.Result
	if err := p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Limits: limits}, &res); err != nil {
		return "", err
	}
	var all []string
	for i := range res.Len() {
		all = append(all, string(res.Value(i)))
	}
	return strings.Join(all, " "), nil
}

func TestCoroutines(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"values go both ways", `
			local co = coroutine.create(function(a, b)
				local c = coroutine.yield(a + b)
				local d, e = coroutine.yield(c * 2)
				return d + e
			end)
			local _, x = coroutine.resume(co, 1, 2)
			local _, y = coroutine.resume(co, 10)
			local _, z = coroutine.resume(co, 3, 4)
			return x, y, z, coroutine.status(co)`, `3 20 7 "dead"`},
		{"missing and superfluous values", `
			local co = coroutine.create(function()
				local a, b = coroutine.yield()
				local c = coroutine.yield(a, b)
				return select("#", coroutine.yield(c)), c
			end)
			local n1 = select("#", coroutine.resume(co))
			local n2 = select("#", coroutine.resume(co))
			local _, c = coroutine.resume(co, 1, 2, 3)
			local _, n = coroutine.resume(co, nil, nil)
			return n1, n2, c, n`, `1 3 1 2`},
		{"an iterator", `
			local function range(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end
			local sum = 0
			for i in range(10) do sum = sum + i end
			return sum`, `55`},
		{"a coroutine that resumed another is normal", `
			local outer, inner
			outer = coroutine.create(function()
				inner = coroutine.create(function() return coroutine.status(outer), coroutine.resume(outer) end)
				return coroutine.resume(inner)
			end)
			return coroutine.resume(outer)`, `true true "normal" false "cannot resume normal coroutine"`},
		{"a coroutine cannot resume itself", `
			local co
			co = coroutine.create(function() return coroutine.resume(co) end)
			return coroutine.resume(co)`, `true false "cannot resume running coroutine"`},
		{"each may yield while it waits for none", `
			local log = {}
			local a = coroutine.wrap(function() for i = 1, 2 do log[#log + 1] = "a" .. i coroutine.yield() end end)
			local b = coroutine.wrap(function() for i = 1, 2 do log[#log + 1] = "b" .. i a() coroutine.yield() end end)
			b() b()
			return table.concat(log, " ")`, `"b1 a1 b2 a2"`},
		{"values that coroutines share", `
			local n = 0
			local co = coroutine.wrap(function() while true do n = n + 1 coroutine.yield() end end)
			co() co() n = n + 10 co()
			return n`, `13`},
		{"pcall within", `
			local co = coroutine.wrap(function() return pcall(error, "x"), pcall(coroutine.yield, 1) end)
			return co()`, `false false "script:2: attempt to yield across metamethod/C-call boundary"`},
		{
			"errors", `
			local co = coroutine.create(function() error({message = "m"}) end)
			local ok, e = coroutine.resume(co)
			local ok2, e2 = coroutine.resume(co)
			local ok3, e3 = pcall(coroutine.wrap(function() local x = nil .. "" end))
			return ok, e.message, ok2, e2, ok3, e3`,
			`false "m" false "cannot resume dead coroutine" false "script:5: attempt to concatenate a nil value"`,
		},
	} {
		got, err := runCoroutines(t, "function handle()"+tt.body+"\nend", script.Limits{})
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

// TestCoroutinesAreBounded: they change nothing about what bounds a call.
func TestCoroutinesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name, body, message string
		kind                script.Kind
	}{
		{"instructions within count", `coroutine.wrap(function() while true do end end)()`, "used up its 1000000 instructions", script.Limit},
		{"spent stays spent", `while true do coroutine.resume(coroutine.create(function() while true do end end)) end`, "instructions", script.Limit},
		{"how many", `local t = {} for i = 1, 100 do t[i] = coroutine.create(function() end) end`, "more than 32 coroutines", script.Limit},
		{"how deep", `local function f() coroutine.wrap(f)() end f()`, "more than 8 deep", script.Limit},
		{"how deep, kept alive", `local function f() coroutine.wrap(f)() coroutine.yield() end f()`, "more than 8 deep", script.Limit},
		{"recursion within", `coroutine.wrap(function() local function f() return 1 + f() end f() end)()`, "stack overflow", script.Limit},
		{"values within", `coroutine.wrap(function() local function f(...) return f(1, ...) end f() end)()`, "overflow", script.Limit},
		{"what moves", `local co = coroutine.wrap(function(...) while true do coroutine.yield(unpack({}, 1, 7999)) end end)
			local function f(...) return co(...) end while true do f(co()) end`, "instructions", script.Limit},
		{"yield outside", `coroutine.yield()`, "attempt to yield across metamethod/C-call boundary", script.Script},
		{"not a Lua function", `coroutine.create(print or tostring)`, "bad argument #1 to 'coroutine.create' (Lua function expected)", script.Script},
		{"not a coroutine", `coroutine.status({})`, "coroutine expected", script.Script},
		{"as a result", `return coroutine.create(function() end)`, "is a thread, which JSON cannot say", script.Script},
		{"called", `coroutine.create(function() end)()`, "attempt to call a thread value", script.Script},
	} {
		_, err := runCoroutines(t, "function handle() "+tt.body+" end", script.Limits{Timeout: script.MaxLimits().Timeout})
		if script.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %s %v, want %s with %q", tt.name, script.KindOf(err), err, tt.kind, tt.message)
		}
	}
}

// TestYieldAcrossGo: where a yield would cut Go's stack it is an error, and all goes on.
func TestYieldAcrossGo(t *testing.T) {
	const message = `"attempt to yield across metamethod/C-call boundary"`
	for name, body := range map[string]string{
		"sort":        `table.sort({1, 2, 3}, function() coroutine.yield() end)`,
		"sort itself": `table.sort({1, 2, 3}, coroutine.yield)`,
		"gsub":        `("aa"):gsub("a", function() coroutine.yield() end)`,
		"gsub itself": `("aa"):gsub("a", coroutine.yield)`,
		"index":       `return setmetatable({}, {__index = function() coroutine.yield() end}).x`,
		"newindex":    `setmetatable({}, {__newindex = function() coroutine.yield() end}).x = 1`,
		"add":         `return setmetatable({}, {__add = function() coroutine.yield() end}) + 1`,
		"add itself":  `return setmetatable({}, {__add = coroutine.yield}) + 1`,
		"concat":      `return setmetatable({}, {__concat = function() coroutine.yield() end}) .. "x"`,
		"equal":       `local m = {__eq = function() coroutine.yield() end} return setmetatable({}, m) == setmetatable({}, m)`,
		"less":        `local m = {__lt = function() coroutine.yield() end} return setmetatable({}, m) < setmetatable({}, m)`,
		"tostring":    `return tostring(setmetatable({}, {__tostring = function() coroutine.yield() end}))`,
		"length":      `return #setmetatable({}, {__len = function() coroutine.yield() end})`,
		"iterator":    `for x in function() coroutine.yield() end do end`,
		"pcall":       `local _, e = pcall(function() coroutine.yield() end) error(e, 0)`,
		"xpcall":      `local _, e = xpcall(function() coroutine.yield() end, tostring) error(e, 0)`,
		"handler":     `local _, e = xpcall(function() error("x") end, function() coroutine.yield() end) error("attempt to yield across metamethod/C-call boundary", 0)`,
	} {
		got, err := runCoroutines(t, `function handle()
			local co = coroutine.create(function() `+body+` end)
			local ok, e = coroutine.resume(co)
			e = tostring(e):gsub("^script:%d+: ", "")
			local alive = coroutine.wrap(function(x) return coroutine.yield(x) + 1 end)
			return ok, e, coroutine.status(co), alive(1), alive(2)
		end`, script.Limits{})
		if want := `false ` + message + ` "dead" 1 3`; err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}

// TestWithoutCoroutines: a script whose release does not allow them finds none.
func TestWithoutCoroutines(t *testing.T) {
	e := lua.New()
	for source, want := range map[string]string{
		`function handle() return coroutine == nil, type(coroutine) end`:         `true "nil"`,
		`function handle() return _G.coroutine == nil end`:                       `true`,
		`coroutine = coroutine or "mine" function handle() return coroutine end`: `"mine"`,
		`function handle() return pcall(require, "coroutine") end`:               `module 'coroutine' not found`,
		`function handle() coroutine.yield() end`:                                `attempt to index global 'coroutine' (a nil value, key 'yield')`,
		`function handle() coroutine = 1 return coroutine end`:                   `1`,
	} {
		if got := luatest.Outcome(t, e, source, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

// TestDiffCoroutines compares what coroutines do.
func TestDiffCoroutines(t *testing.T) {
	d := newDiffer(t)
	d.batch = 2 // a call may make 32 coroutines
	d.compare(t, d.make(cases()/3, d.coroutineCase))
}

func (d *differ) coroutineCase() string {
	var b strings.Builder
	b.WriteString(`local log, co = {}, {} local function note(...) log[#log + 1] = {select("#", ...), ...} return ... end `)
	for _, name := range []string{"1", "2", "3"} {
		b.WriteString("co[" + name + "] = coroutine.create(function(...) note('start', ...) ")
		for range 1 + d.IntN(4) {
			b.WriteString(pick(d,
				"note(coroutine.yield(1, 2)) ", "local x = coroutine.yield() note(x) ", "local x, y = coroutine.yield('v') note(x, y) ",
				"note((coroutine.yield(nil))) ", "for i = 1, 2 do note(i, coroutine.yield(i)) end ", "note(coroutine.resume(co[2], 'from')) ",
				"note(coroutine.resume(co[3])) ", "note(coroutine.status(co[1]), coroutine.status(co[2])) ", "note(coroutine.running() == co[1]) ",
				"if #log > 6 then error('long') end ", "if #log > 4 then error({}) end ", "if #log > 8 then return coroutine.yield(...) end ",
				"note(pcall(function() error('in') end)) ", "note(pcall(coroutine.yield, 7)) ", "local f = function() return coroutine.yield('deep') end note(f()) ",
				"local t = {coroutine.yield(...)} note(#t) ", "local w = coroutine.wrap(function() coroutine.yield(5) error('w') end) note(w()) note(pcall(w)) note(pcall(w)) ",
				"table.sort({2, 1}, function(a, b) note(pcall(coroutine.yield)) return a < b end) ", "note(select(2, coroutine.yield(1, nil, 3))) ",
				"local s = setmetatable({}, {__call = function(self, ...) return coroutine.yield(...) end}) note(s(4)) ",
			))
		}
		b.WriteString(pick(d, "", "return 'end', ...", "return note('tail')", "return coroutine.yield('last')", "error('end')") + " end) ")
	}
	for range 2 + d.IntN(8) {
		b.WriteString(pick(d, "note(coroutine.resume(co[1])) ", "note(coroutine.resume(co[1], 'a', nil)) ", "note(coroutine.resume(co[2], 'b')) ",
			"note(coroutine.resume(co[3], 1, 2, 3)) ", "note(coroutine.status(co[1]), coroutine.status(co[3])) "))
	}
	b.WriteString("return log")
	return b.String()
}
