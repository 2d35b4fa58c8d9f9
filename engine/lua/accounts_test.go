package lua

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// holdingHost holds each call that logs until it is released.
type holdingHost struct {
	engine.Host
	holds, release chan struct{}
}

func (h *holdingHost) Log(*engine.Invocation, engine.Level, string) {
	h.holds <- struct{}{}
	<-h.release
}

// TestShare: what the calls of a tenant that run have made counts together. The next call
// that makes more than the share leaves is stopped, and no other tenant's.
func TestShare(t *testing.T) {
	e := New()
	hoard, err := e.Compile(engine.Source{Code: []byte(`local t = {} for i = 1, 2000 do t[i] = ("x"):rep(1000) .. i end log.info("x") return #t`)})
	if err != nil {
		t.Fatal(err)
	}
	defer hoard.Close()
	const share = 10 << 20 // for two such calls
	host := &holdingHost{holds: make(chan struct{}), release: make(chan struct{})}
	call := func(tenant string) error {
		limits := script.Limits{Timeout: time.Minute, StringBytes: 1 << 20}
		var res engine.Result
		return hoard.Run(context.Background(), &engine.Invocation{Tenant: tenant, Limits: limits, Memory: share, Host: host}, &res)
	}
	ended := make(chan error)
	begin := func(tenant string) {
		go func() { ended <- call(tenant) }()
		select {
		case <-host.holds:
		case err := <-ended:
			t.Fatalf("a call of %s: %v", tenant, err)
		}
	}
	begin("acme")
	begin("acme")
	err = call("acme")
	if script.KindOf(err) != script.Limit || script.AsError(err).Field != "tenant.memory" {
		t.Errorf("a third call: %v, field %q", err, script.AsError(err).Field)
	}
	begin("shop")
	for range 3 {
		host.release <- struct{}{}
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	begin("acme")
	host.release <- struct{}{}
	if err := <-ended; err != nil {
		t.Errorf("when the others are over: %v", err)
	}
	if n := len(e.accounts.tenants); n != 0 {
		t.Errorf("%d accounts are left", n)
	}
}

// TestSmallCallsHaveNoAccount: what makes little is counted nowhere but in its meter.
func TestSmallCallsHaveNoAccount(t *testing.T) {
	e := New()
	p, err := e.Compile(engine.Source{Code: []byte(`local t = {} for i = 1, 100 do t[i] = {i} end log.info("x")`)})
	if err != nil {
		t.Fatal(err)
	}
	host := &holdingHost{holds: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan error)
	go func() {
		var res engine.Result
		ended <- p.Run(context.Background(), &engine.Invocation{Tenant: "acme", Memory: 1, Host: host, Limits: script.Limits{Timeout: time.Minute}}, &res)
	}()
	<-host.holds
	e.accounts.mu.Lock()
	n := len(e.accounts.tenants)
	e.accounts.mu.Unlock()
	host.release <- struct{}{}
	if err := <-ended; err != nil || n != 0 {
		t.Errorf("%d accounts, %v", n, err)
	}
}

// TestHeapGuardStopsWhoGrew: when the heap has grown too much, the calls of the tenant that
// has made the most end, then those of the next one, and none that has made nothing.
func TestHeapGuardStopsWhoGrew(t *testing.T) {
	var w watchdog
	var accounts accounts
	calls := map[string]*meter{}
	for i, mebibytes := range []int64{0, 3, 100, 20} {
		name := fmt.Sprint("tenant ", i)
		m := &meter{heapBase: 1}
		m.begin(script.DefaultLimits())
		if mebibytes > 0 {
			a := accounts.open(name)
			a.bytes.Add(mebibytes << 20)
			m.account.Store(a)
		}
		w.calls, calls[name] = append(w.calls, m), m
	}
	stopped := func() string {
		var names []string
		for i := range len(calls) {
			name := fmt.Sprint("tenant ", i)
			if calls[name].stop.Load() == uint32(outOfMemory) {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	for _, want := range []string{"tenant 2", "tenant 2, tenant 3", "tenant 1, tenant 2, tenant 3", "tenant 1, tenant 2, tenant 3"} {
		const live = 2 * heapGrowth
		w.stopGrower(live)
		w.stopGrower(live) // those that were stopped are not over yet
		if got := stopped(); got != want {
			t.Errorf("stopped %s, want %s", got, want)
		}
		var left []*meter // as when they are over
		for _, m := range w.calls {
			if m.stop.Load() != uint32(outOfMemory) {
				left = append(left, m)
			}
		}
		w.calls = left
	}
}
