package admission_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A call stands back several times a millisecond, and when others then have the
// processor for long it keeps a third for itself.
func TestBreathe(t *testing.T) {
	for name, away := range map[string]time.Duration{
		"nobody waits":     0,
		"others are brief": 20 * time.Microsecond,
		"others compute":   3 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := admission.New(admission.Config{Running: 1, Waiting: 1})
				var breaths int
				gate.StandBackBy(func() {
					breaths++
					<-time.After(away)
				})
				var turn admission.Turn
				call := &admission.Call{Tenant: "a", Timeout: time.Second, Settings: &script.TenantSettings{}}
				if err := gate.Enter(t.Context(), &turn, call); err != nil {
					t.Fatal(err)
				}
				turn.Bind(func() {})
				began := time.Now()
				const work, step = 60 * time.Millisecond, 20 * time.Microsecond
				for worked := time.Duration(0); worked < work; worked += step {
					<-time.After(step)
					turn.Breathe()
				}
				took := time.Since(began)
				turn.Leave()
				if away < time.Millisecond && breaths < int(2*work/time.Millisecond) {
					t.Errorf("%d breaths in %v", breaths, took)
				}
				if took > 3*work+away {
					t.Errorf("%v of work took %v", work, took)
				}
			})
		})
	}
}
