package execute_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// longCalls keep a processor busy, each with something else than instructions.
var longCalls = map[string]struct{ source, arg string }{
	"arguments with escapes":   {`return 1`, `{"a":"` + strings.Repeat(`\ud800`, 170_000) + `"}`},
	"arguments of digits":      {`return 1`, `{"a":[0` + strings.Repeat(",1."+strings.Repeat("7", 400)+"e-300", 2_000) + `]}`},
	"numerals":                 {`local d = ("7"):rep(4000000) while true do local x = d + 1 end`, `{}`},
	"decoding":                 {`local s = '"' .. ("\\ud800"):rep(600000) .. '"' while true do json.decode(s) end`, `{}`},
	"dates":                    {`local d = ("7"):rep(4000000) while true do os.time({year = d, month = d, day = d}) end`, `{}`},
	"text that almost is":      {`local s = ("x"):rep(4000000) local p = s:sub(1, 2000000) .. "y" while true do s:find(p, 1, true) end`, `{}`},
	"digests":                  {`local s = ("x"):rep(4000000) while true do crypto.sha512(s) end`, `{}`},
	"next in an emptied table": {`local t = {} for i = 1, 60000 do t["n" .. i] = i end for i = 1, 59999 do t["n" .. i] = nil end while true do next(t) end`, `{}`},
}

// TestNeighboursOfLongBuiltins: beside calls that decode large arguments or work in long
// builtins, another tenant's calls wait about as long as beside calls that execute plain
// instructions.
func TestNeighboursOfLongBuiltins(t *testing.T) {
	n := &node{}
	n.start(t, lua.New(), 64<<20, 1, 64)
	most := func(r *script.Release) { r.Settings.Limits = script.MaxLimits() }
	for name, call := range longCalls {
		n.publish(nameOf(name), most, call.source)
	}
	n.publish("spin", most, `while true do end`)
	n.publish("short", func(r *script.Release) { r.Name.Tenant, r.Settings.Limits = "shop", script.MaxLimits() }, `return 1`)
	beside := func(name, arg string) time.Duration {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var long sync.WaitGroup
		defer long.Wait()
		defer cancel()
		for range 4 {
			long.Go(func() {
				for ctx.Err() == nil {
					_ = n.Execute(ctx, &gateway.Call{Script: "acme/" + name, Args: [][]byte{[]byte(arg)}}, &gateway.Reply{})
				}
			})
		}
		took := make([]time.Duration, 101)
		for i := range took {
			for n.running(t) == 0 {
				runtime.Gosched()
			}
			began := time.Now()
			if err := n.Execute(ctx, &gateway.Call{Script: "shop/short"}, &gateway.Reply{}); err != nil {
				t.Errorf("beside %s: %v", name, err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		t.Logf("beside %s: p50 %v, p95 %v, p99 %v", name, took[len(took)/2], took[len(took)-6], took[len(took)-2])
		return took[len(took)-6]
	}
	const times, slice = 5, time.Millisecond // of a turn
	for name, call := range longCalls {
		took, spin := time.Hour, time.Duration(0)
		for range 3 { // others may have the processor
			if took > times*max(spin, slice) {
				took, spin = beside(nameOf(name), call.arg), beside("spin", "{}")
			}
		}
		if took > times*max(spin, slice) {
			t.Errorf("beside %s a call takes %v, beside a plain loop %v", name, took, spin)
		}
	}
}

// running returns how many calls run.
func (n *node) running(t *testing.T) float64 {
	t.Helper()
	families, err := n.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "scriptorium_agent_calls_running" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

func nameOf(text string) string { return strings.ReplaceAll(text, " ", "-") }
