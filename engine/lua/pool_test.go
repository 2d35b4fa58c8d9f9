package lua

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luajson"
	"github.com/scriptorium-dev/scriptorium/script"
)

// An idle state holds what size says, whatever ran in it, and no more than it may.
func TestIdleStatesAreSmall(t *testing.T) {
	const n = 200
	var before, after runtime.MemStats
	newState("acme") // and what all states have in common
	runtime.GC()
	runtime.ReadMemStats(&before)
	states := make([]*state, n)
	for i := range states {
		states[i] = newState("acme")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	real, said := int(after.HeapAlloc-before.HeapAlloc)/n, states[0].size()
	if said < real*8/10 || said > real*12/10 || said > maxStateBytes {
		t.Errorf("a fresh state has %d bytes and says %d", real, said)
	}
	t.Logf("a fresh state has %d bytes", real)
	runtime.KeepAlive(states)

	e := New()
	wide := []byte(`{"a":{` + strings.TrimSuffix(strings.Repeat(`"name":1,`, 900), ",") + `}}`)
	for name, test := range map[string]struct {
		source string
		arg    []byte
		kept   bool
	}{
		"small":       {`function handle(r) return r.a end`, []byte(`{"a":{"b":1}}`), true},
		"wide":        {`function handle(r) return r.a end`, wide, true},
		"deep":        {`local function f(n) if n > 0 then return 1 + f(n - 1) end return 0 end function handle() return f(150) end`, nil, true},
		"whole stack": {`function handle() local function f(...) return select("#", ...) end local t = {} for i = 1, 8000 do t[i] = i end return f(unpack(t)) end`, nil, false},
	} {
		p, err := e.Compile(engine.Source{Code: []byte(test.source), Entrypoint: "handle"})
		if err != nil {
			t.Fatal(err)
		}
		inv := &engine.Invocation{Tenant: name, Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}
		if test.arg != nil {
			inv.Args = [][]byte{test.arg}
		}
		var res engine.Result
		if err := p.Run(t.Context(), inv, &res); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := e.pool.take(name)
		if (s != nil) != test.kept || s != nil && s.size() > maxStateBytes {
			t.Errorf("%s: the state was kept: %v, want %v", name, s != nil, test.kept)
		}
	}
}

// However large idle states are, together they hold no more than they may.
func TestPoolIsBoundedInBytes(t *testing.T) {
	p := newPool()
	wide := "{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, 1500), ",") + "}"
	for i := range 2 * maxIdleStates {
		s := newState(fmt.Sprint(i))
		s.meter.begin(script.MaxLimits())
		d := luajson.NewDecoder(&s.call.JSON)
		if _, err := d.Value(wide); err != nil {
			t.Fatal(err)
		}
		p.put(s)
		if p.bytes > maxIdleBytes {
			t.Fatalf("%d idle states hold %d bytes", p.idle, p.bytes)
		}
	}
	if p.idle == 0 || p.idle == maxIdleStates || p.bytes < maxIdleBytes-maxStateBytes {
		t.Errorf("%d idle states hold %d bytes", p.idle, p.bytes)
	}
	for i := range 2 * maxIdleStates {
		p.take(fmt.Sprint(i))
	}
	if p.idle != 0 || p.bytes != 0 {
		t.Errorf("when all are taken, %d hold %d bytes", p.idle, p.bytes)
	}
}

// keepers leave on a state's stack what they made.
var keepers = map[string]string{
	"closure":          `local big = ("x"):rep(1 << 17) local function f() return #big end return f()`,
	"table":            `local t = {} for i = 1, 10000 do t[i] = {} end local function f() return #t end return f()`,
	"deep":             `local t = {("x"):rep(1 << 17)} local function f(n) if n > 0 then return 1 + f(n - 1) end return #t end return f(100)`,
	"pcall":            `local t = {("x"):rep(1 << 17)} return pcall(function() local function f() error(t) end return 1 + f() end) == nil`,
	"xpcall":           `local t = {("x"):rep(1 << 17)} return (xpcall(function() error(t) end, function(e) return #e end))`,
	"metamethod":       `local t = setmetatable({}, {__index = function(_, k) return k end}) return #t[("x"):rep(1 << 17)]`,
	"gsub":             `local t = {("x"):rep(1 << 17)} return (("abc"):gsub(".", function() return t[1]:sub(1, 1) end))`,
	"sort":             `local t = {} for i = 1, 50 do t[i] = ("x"):rep(i * 100) end table.sort(t, function(a, b) return #a > #b end) return #t`,
	"arguments":        `local function f(...) return (select("#", ...)) end local t = {} for i = 1, 200 do t[i] = {i} end return f(unpack(t))`,
	"too many":         `local function f(a) return a end local t = {} for i = 1, 200 do t[i] = {i} end return f(unpack(t)) == nil`,
	"results":          `local t = {} for i = 1, 200 do t[i] = {i} end local function f() return unpack(t) end local a = f() return a[1]`,
	"iterator":         `local t = {} for i = 1, 100 do t[i] = {i} end local n = 0 for k, v in pairs(t) do n = n + #v end return n`,
	"coroutine":        `local t = {("x"):rep(1 << 17)} local c = coroutine.wrap(function() coroutine.yield(t) end) return #c()`,
	"string iterator":  `local n = 0 for w in (("word "):rep(100)):gmatch("%a+") do n = n + #w end return n`,
	"concatenation":    `local s = ("x"):rep(1000) return #(s .. s .. s .. s .. s .. s .. s .. s)`,
	"growing registry": `local t = {} for i = 1, 700 do t[i] = {i} end local function f(...) return select("#", ...) end return f(unpack(t))`,
}

// What a call made is not kept by the state that idles behind it: neither by the frames
// nor by the registers that the call used.
func TestIdleStatesKeepNothing(t *testing.T) {
	e := New()
	for name, body := range keepers {
		t.Run(name, func(t *testing.T) {
			source := "function handle(r) " + strings.ReplaceAll(body, "1 << 17", "131072") + " end"
			p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
			if err != nil {
				t.Fatal(err)
			}
			inv := &engine.Invocation{Tenant: name, Args: [][]byte{[]byte(`{"a":{"b":1}}`)}}
			inv.Limits.Coroutines = true
			inv.Limits.Timeout = script.MaxLimits().Timeout
			var res engine.Result
			if err := p.Run(t.Context(), inv, &res); err != nil {
				t.Fatal(err)
			}
			s := e.pool.take(name)
			if s == nil {
				t.Fatal("the state was not kept")
			}
			if s.l.Keeps() {
				t.Error("it keeps what the call has made")
			}
		})
	}
}

// The heap says the same of a call that makes a megabyte, and refers to it by a closure.
func TestIdleStatesDropMegabytes(t *testing.T) {
	e := New()
	source := "function handle() " + keepers["table"] + " end"
	p, err := e.Compile(engine.Source{Code: []byte(source), Entrypoint: "handle"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 16
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var res engine.Result
	for i := range n {
		res.Reset()
		if err := p.Run(t.Context(), &engine.Invocation{Tenant: fmt.Sprint(i), Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}, &res); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if e.pool.idle != n {
		t.Fatalf("%d idle states, want %d", e.pool.idle, n)
	}
	if real, said := (int64(after.HeapAlloc)-int64(before.HeapAlloc))/n, int64(e.pool.bytes/n); real > 2*said {
		t.Errorf("an idle state holds %d bytes, and %d are counted", real, said)
	}
	runtime.KeepAlive(e)
}
