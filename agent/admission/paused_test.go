package admission_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// A call whose time is up while it is paused ends, and one whose caller gives up.
func TestPausedCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		bound := script.TenantSettings{CPU: 1}
		began := time.Now()
		if _, worked, err := m.run(t.Context(), job{tenant: "a", work: time.Second, timeout: 50 * time.Millisecond, settings: bound}); err != nil || worked > 4*time.Millisecond {
			t.Errorf("%v after %v of work", err, worked)
		}
		if took := time.Since(began); took < 50*time.Millisecond || took > 60*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
		defer cancel()
		began = time.Now()
		<-time.After(10 * time.Second)
		m.run(ctx, job{tenant: "a", work: time.Second, settings: bound})
		if took := time.Since(began); took > 10*time.Second+70*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		settled(t, m)
	})
}

// An engine whose clock begins late does not find itself without a turn before its
// call's time is up: what runs is counted.
func TestLateClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var worked atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				m.spin(ctx, &worked, job{
					tenant: "a", work: time.Second, timeout: 50 * time.Millisecond, late: 20 * time.Millisecond,
					settings: script.TenantSettings{CPU: 100},
				})
			})
		}
		all.Wait()
		settled(t, m)
	})
}
