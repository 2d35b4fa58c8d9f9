package lua

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestInstructionCount holds what known programs cost, to the instruction: if
// gopher-lua stopped asking the meter, or a builtin stopped charging, budgets
// would be worth nothing and no other test might notice.
func TestInstructionCount(t *testing.T) {
	for _, test := range []struct {
		source string
		want   int64
	}{
		{`return`, 1},
		{`local a = 1 return a`, 3}, // one for the result,
		{`for i = 1, 100 do end`, 106},
		{`for i = 1, 100 do local x = i + 1 end`, 206},
		{`local i = 0 while i < 10 do i = i + 1 end`, 34},
		{`local function f() end for i = 1, 10 do f() end`, 47},
		{`local s = "a" .. "b"`, 5},
		{`local s = ("a"):rep(6400)`, 5 + 100},
		{`local s = ("a"):rep(6400):upper()`, 7 + 200},
		{`local n = ("aaaaaaaaaa"):find("a*b")`, 6 + 142},
		{`local n = ("aaaaaaaaaa"):find("b", 1, true)`, 7},
		{`table.concat({1, 2, 3}, ",")`, 10 + 3},
		{`table.sort({3, 1, 2})`, 9 + 6},
		{`table.insert({1, 2, 3}, 1, 0)`, 11 + 3},
		{`pcall(error)`, 4 + 500},
		{`json.encode({1, 2, 3})`, 9 + 7},
	} {
		t.Run(test.source, func(t *testing.T) {
			if got := instructions(t, test.source); got != test.want {
				t.Errorf("%d instructions, want %d", got, test.want)
			}
		})
	}
}

// instructions returns how many instructions a chunk takes: the smallest budget
// under which it ends.
func instructions(t *testing.T, source string) int64 {
	t.Helper()
	c, err := compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	p := &program{engine: New(), compiled: c}
	s := newState("acme")
	s.meter.begin(script.MaxLimits())
	before := s.meter.left
	var res engine.Result
	if err := p.run(s, &engine.Invocation{}, &res); err != nil {
		t.Fatal(err)
	}
	return before - s.meter.left
}

func TestBudgetIsExact(t *testing.T) {
	e := New()
	source := `for i = 1, 100 do end`
	need := instructions(t, source)
	p, err := e.Compile(engine.Source{Code: []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	var res engine.Result
	for _, budget := range []int64{1, need - 1, need, need + 1} {
		inv := &engine.Invocation{Limits: script.Limits{Instructions: uint64(budget)}}
		err := p.Run(t.Context(), inv, &res)
		if (err == nil) != (budget >= need) {
			t.Errorf("budget %d of %d: %v", budget, need, err)
		}
	}
}

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchdog
		arm := func(ctx context.Context, timeout time.Duration) *meter {
			m := &meter{}
			m.begin(script.Limits{Timeout: timeout, Instructions: 1})
			w.arm(ctx, m)
			return m
		}
		reason := func(m *meter) stopReason { return stopReason(m.stop.Load()) }
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}

		ctx, cancel := context.WithCancel(t.Context())
		deadline, cancelDeadline := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancelDeadline()
		short, long := arm(t.Context(), 50*time.Millisecond), arm(t.Context(), time.Hour)
		given, late := arm(ctx, time.Hour), arm(deadline, time.Hour)
		done := arm(t.Context(), 50*time.Millisecond)
		wait(30 * time.Millisecond)
		if reason(late) != outOfTime || reason(short) != running || reason(given) != running {
			t.Errorf("after 30 ms: %d %d %d", reason(late), reason(short), reason(given))
		}
		cancel()
		w.disarm(done)
		wait(30 * time.Millisecond)
		if reason(short) != outOfTime || reason(given) != cancelled || reason(long) != running || reason(done) != running {
			t.Errorf("after 60 ms: %d %d %d %d", reason(short), reason(given), reason(long), reason(done))
		}
		for _, m := range []*meter{short, long, given, late} {
			w.disarm(m)
		}
		wait(time.Second) // or synctest.Test finds its goroutine still there
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.running || len(w.calls) != 0 {
			t.Errorf("still running: %v, %d calls", w.running, len(w.calls))
		}
	})
}

func TestPool(t *testing.T) {
	p := newPool()
	a := p.get("a")
	p.put(a)
	if got := p.get("b"); got == a || got.tenant != "b" {
		t.Error("a state of one tenant served another")
	}
	if got := p.get("a"); got != a {
		t.Error("the idle state was not used again")
	}
	p.put(a)
	for i := range p.perTenant + 3 {
		p.put(newState("c"))
		if got := len(p.tenants["c"].states); got != min(i+1, p.perTenant) {
			t.Errorf("%d idle states of one tenant after %d", got, i+1)
		}
	}
	for i := range 3 * maxIdleStates {
		p.put(newState(fmt.Sprintf("tenant-%d", i)))
	}
	if p.idle != maxIdleStates || len(p.tenants) > 2*maxIdleStates {
		t.Errorf("%d idle states of %d tenants", p.idle, len(p.tenants))
	}
	if got := p.get("a"); got == a {
		t.Error("the state that was idle for longest is still there")
	}
	n := 0
	for s := p.oldest; s != nil; s = s.newer {
		n++
	}
	if n != p.idle {
		t.Errorf("%d states listed, %d counted", n, p.idle)
	}
}
