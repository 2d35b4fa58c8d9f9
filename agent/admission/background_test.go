package admission_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A call in the background begins only while a turn is free, and gives its turn to any other call that
// comes.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		background := job{tenant: "shadow", work: 20 * time.Millisecond, background: true}
		var all sync.WaitGroup
		all.Go(func() { m.run(t.Context(), job{tenant: "a", work: 5 * time.Millisecond}) })
		synctest.Wait()
		if _, _, err := m.run(t.Context(), background); script.KindOf(err) != script.Overloaded {
			t.Errorf("a background call began beside a call that has the only turn: %v", err)
		}
		all.Wait()

		var began, ended time.Time
		all.Go(func() {
			began = time.Now()
			if _, _, err := m.run(t.Context(), background); err != nil {
				t.Errorf("a background call on an idle machine: %v", err)
			}
			ended = time.Now()
		})
		<-time.After(2 * time.Millisecond)
		for range 40 {
			if waited, _, err := m.run(t.Context(), job{tenant: "a", work: time.Millisecond}); err != nil || waited > time.Millisecond {
				t.Errorf("a call beside one in the background: %v after %v", err, waited)
			}
		}
		all.Wait()
		if took := ended.Sub(began); took < 50*time.Millisecond {
			t.Errorf("the background call took %v, less than the calls that came while it ran", took)
		}
		settled(t, m)
	})
}

// The bucket of the background bounds its processor time.
func TestBackgroundBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		settings := script.TenantSettings{CPU: 50}
		refused, began := 0, time.Now()
		var used time.Duration
		for time.Since(began) < 10*time.Second {
			_, worked, err := m.run(t.Context(), job{tenant: "shadow", work: time.Millisecond, background: true, settings: settings})
			used += worked
			if err != nil {
				refused++
				<-time.After(time.Millisecond)
			}
		}
		if most := 10*time.Second/20 + 60*time.Millisecond; used > most || refused == 0 {
			t.Errorf("the background used %v in 10 s, want at most %v, and %d calls were refused", used, most, refused)
		}
		var turn admission.Turn
		if err := m.Enter(t.Context(), &turn, &admission.Call{Tenant: "a", Timeout: time.Second, Settings: &script.TenantSettings{}}); err != nil {
			t.Error(err)
		}
		turn.Leave()
		settled(t, m)
	})
}

// TestCharge: what was done without a turn counts for the bucket.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		settings := script.TenantSettings{CPU: 50}
		m.Charge("shadow", &settings, time.Second)
		began := time.Now()
		for {
			_, _, err := m.run(t.Context(), job{tenant: "shadow", work: time.Millisecond, background: true, settings: settings})
			if err == nil {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		if took := time.Since(began); took < 18*time.Second || took > 20*time.Second {
			t.Errorf("a second at 50 thousandths, less what was saved, is paid after %v", took)
		}
		settled(t, m)
	})
}

// TestBackgroundGoesOn: a call in the background that has begun goes on with an empty bucket, and those after it wait.
func TestBackgroundGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		background := job{tenant: "shadow", work: 500 * time.Millisecond, background: true, settings: script.TenantSettings{CPU: 50}}
		began := time.Now()
		if waited, _, err := m.run(t.Context(), background); err != nil || waited != 0 || time.Since(began) > time.Second {
			t.Errorf("%v, waited %v of %v", err, waited, time.Since(began))
		}
		<-time.After(8 * time.Second)
		if _, _, err := m.run(t.Context(), background); script.KindOf(err) != script.Overloaded {
			t.Errorf("the next: %v", err)
		}
		settled(t, m)
	})
}

// TestBackgroundIsFair: a call in the background that does not end keeps no other tenant's from the background.
func TestBackgroundIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		endless := job{tenant: "a", work: 2 * time.Second, background: true}
		var all sync.WaitGroup
		all.Go(func() { m.run(t.Context(), endless) })
		<-time.After(10 * time.Millisecond)
		for range 20 {
			if waited, _, err := m.run(t.Context(), job{tenant: "b", work: time.Millisecond, background: true}); err != nil || waited != 0 {
				t.Errorf("a short call of another tenant: %v after %v", err, waited)
			}
			<-time.After(7 * time.Millisecond)
		}

		endless.tenant = "c"
		began := time.Now()
		_, worked, err := m.run(t.Context(), endless)
		if took := time.Since(began); err != nil || took > 3*worked {
			t.Errorf("another one that does not end: %v, %v of %v", err, worked, took)
		}
		all.Wait()
		settled(t, m)
	})
}
