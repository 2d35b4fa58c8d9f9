package lua

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
)

// An idle state holds what size says, whatever ran in it, and no more than it may.
func TestIdleStatesAreSmall(t *testing.T) {
	const n = 200
	var before, after runtime.MemStats
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
		inv := &engine.Invocation{Tenant: name}
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
	for i := range 2 * maxIdleStates {
		s := newState(fmt.Sprint(i))
		s.call.members = make([]member, 0, 1000)
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
