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

// Who had the machine alone does not pay for it when others come, also if calls waited that could not have used it.
func TestNobodyPaysForWhatNobodyCouldUse(t *testing.T) {
	for name, idle := range map[string]job{
		"background":        {tenant: "idle", work: time.Hour, background: true},
		"bounded by itself": {tenant: "idle", work: time.Hour, settings: script.TenantSettings{CPU: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, 1, 16)
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
				defer cancel()
				var early, late atomic.Int64
				var all sync.WaitGroup
				all.Go(func() { m.run(ctx, idle) })
				all.Go(func() {
					<-time.After(10 * time.Millisecond)
					m.spin(ctx, &early, job{tenant: "early", work: 20 * time.Second})
				})
				all.Go(func() {
					<-time.After(5 * time.Second)
					m.spin(ctx, &late, job{tenant: "late", work: 20 * time.Second})
				})
				all.Wait()
				if got := time.Duration(late.Load()); got < 450*time.Millisecond || got > 550*time.Millisecond {
					t.Errorf("the late one worked %v of the last second", got)
				}
				settled(t, m)
			})
		})
	}
}
