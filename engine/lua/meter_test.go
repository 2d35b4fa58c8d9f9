package lua

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchdog
		arm := func(ctx context.Context, timeout time.Duration) *meter {
			m := &meter{}
			m.begin(script.Limits{Timeout: timeout, Instructions: 1})
			w.arm(ctx, m)
			return m
		}
		reason := func(m *meter) stopReason { return stopReason(m.Stop.Load()) }
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
