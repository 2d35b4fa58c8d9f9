package admission_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/script"
)

// While all calls are brief, one more runs than there are turns; those that turn out
// to be long do not.
func TestOneMoreIfBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		brief := job{tenant: "a", work: 200 * time.Microsecond}
		m.run(t.Context(), brief) // from now on it is known to yield
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if waited, _, err := m.run(t.Context(), brief); err != nil || waited != 0 {
					t.Errorf("brief calls: %v after %v", err, waited)
				}
			})
		}
		all.Wait()
		for range 2 {
			all.Go(func() { m.run(t.Context(), job{tenant: "a", work: 20 * time.Millisecond}) })
		}
		<-time.After(3 * time.Millisecond)
		if s := m.Stats(); s.Running != 1 || s.Paused != 1 {
			t.Errorf("long calls: %+v", s)
		}
		if waited, _, err := m.run(t.Context(), brief); err != nil || waited == 0 {
			t.Errorf("beside long calls: %v after %v", err, waited)
		}
		all.Wait()
		settled(t, m)
	})
}

// Calls that do not yield never run with one more than there are turns.
func TestNoMoreIfStubborn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 2, 16)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				var turn admission.Turn
				call := &admission.Call{Tenant: "a", Timeout: time.Second, Settings: &script.TenantSettings{}}
				if err := m.Enter(t.Context(), &turn, call); err != nil {
					t.Error(err)
					return
				}
				if s := m.Stats(); s.Running > 2 {
					t.Errorf("%d calls run", s.Running)
				}
				<-time.After(100 * time.Microsecond)
				turn.Leave()
			})
		}
		all.Wait()
		settled(t, m)
	})
}
