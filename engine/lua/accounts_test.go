package lua

import (
	"context"
	"fmt"
	"slices"
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

// guarded returns a watchdog with a call of each tenant that has made so many MiB, and what
// says whose calls were stopped for memory.
func guarded(made ...int64) (w *watchdog, stopped func() string) {
	w = &watchdog{}
	var accounts accounts
	calls := make([]*meter, len(made))
	for i, mebibytes := range made {
		m := &meter{heapBase: 1}
		m.begin(script.DefaultLimits())
		if mebibytes > 0 {
			a := accounts.open(fmt.Sprint(i))
			a.bytes.Add(mebibytes << 20)
			m.account.Store(a)
		}
		calls[i] = m
	}
	w.calls = slices.Clone(calls)
	return w, func() string {
		var names []string
		for i, m := range calls {
			if m.Stop.Load() == uint32(outOfMemory) {
				names = append(names, fmt.Sprint(i))
			}
		}
		return strings.Join(names, " ")
	}
}

// TestHeapGuardStopsWhoGrew: when the heap has grown too much, the calls of the tenant that
// has made the most end, then those of the next one, as long as that explains the growth.
func TestHeapGuardStopsWhoGrew(t *testing.T) {
	w, stopped := guarded(0, 3, 300, 290)
	live := int64(593 << 20)
	for _, want := range []string{"2", "2 3", "2 3"} {
		for range 2 { // those that were stopped are not over yet
			w.guardHeap(time.Time{}, func() uint64 { return uint64(live) })
		}
		if got := stopped(); got != want {
			t.Errorf("with %d MiB stopped %q, want %q", live>>20, got, want)
		}
		var left []*meter // as when they are over
		for _, m := range w.calls {
			if m.Stop.Load() == uint32(outOfMemory) {
				live -= m.account.Load().bytes.Load()
				continue
			}
			left = append(left, m)
		}
		w.calls = left
	}
}

// TestHeapGuardStopsNobodyForOthers: memory that grew for another reason than scripts, such
// as replies that nobody reads, stops none of them. What they have made counts by itself.
func TestHeapGuardStopsNobodyForOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		made    []int64 // MiB
		live    uint64  // MiB
		stopped string
	}{
		"small calls":         {[]int64{1, 3}, 300, ""},
		"a tenth of it":       {[]int64{1, 130}, 1300, ""},
		"half of it":          {[]int64{1, 200}, 400, "1"},
		"too much by itself":  {[]int64{130, 140}, 1300, "1"},
		"not too much in all": {[]int64{100, 140}, 250, ""},
		"many tenants":        {[]int64{30, 31, 30, 30, 30, 30, 30, 30, 30}, 280, "1"},
		"too much, not grown": {[]int64{300}, 200, ""},
		"more than has grown": {[]int64{500}, 300, "0"},
		"less than before":    {[]int64{500}, 0, ""},
	} {
		w, stopped := guarded(tt.made...)
		w.guardHeap(time.Time{}, func() uint64 { return tt.live << 20 })
		if got := stopped(); got != tt.stopped {
			t.Errorf("%s: stopped %q, want %q", name, got, tt.stopped)
		}
		if spared := w.spared.Load() == 1; spared != (tt.stopped == "") {
			t.Errorf("%s: %d counted", name, w.spared.Load())
		}
	}
}

// TestHeapGuardCollectsSeldom: while the guard finds nobody to stop, it collects garbage once
// a second; and never, where the calls have made too little to be the reason.
func TestHeapGuardCollectsSeldom(t *testing.T) {
	for made, want := range map[int64]int{100: 0, 200: 3} {
		w, stopped := guarded(made)
		collected, began := 0, time.Unix(1_000_000, 0)
		for at := time.Duration(0); at < 3*time.Second; at += watchInterval {
			w.guardHeap(began.Add(at), func() uint64 { collected++; return 100 << 20 })
		}
		if collected != want || stopped() != "" || w.spared.Load() != 3 {
			t.Errorf("%d MiB made: %d collections, want %d; stopped %q, counted %d", made, collected, want, stopped(), w.spared.Load())
		}
	}
}

// TestHeapGuardStopsWhoCameLate: whose calls have made the most are stopped, also when the heap
// was large already as they began. A small call that has run for longer is not stopped for them.
func TestHeapGuardStopsWhoCameLate(t *testing.T) {
	w, stopped := guarded(1, 300)
	w.calls[1].heapBase = 250 << 20
	w.guardHeap(time.Time{}, func() uint64 { return 400 << 20 })
	if got := stopped(); got != "1" {
		t.Errorf("stopped %q", got)
	}
}

// TestTimeIsUpDuringACollection: calls end in time while garbage is collected.
func TestTimeIsUpDuringACollection(t *testing.T) {
	w, _ := guarded(300)
	m := w.calls[0]
	collecting, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	for range 2 { // not twice at a time
		w.guard(time.Time{}, func() uint64 {
			close(collecting)
			<-end
			return 0
		})
	}
	<-collecting
	m.ctx, m.deadline = t.Context(), time.Unix(1_000_000, 0)
	if w.stopLateCalls(m.deadline, 0); m.Stop.Load() != uint32(outOfTime) {
		t.Errorf("the call goes on: %d", m.Stop.Load())
	}
}
