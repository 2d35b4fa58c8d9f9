package tryout_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/tryout"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestPlaces: a tenant has two scripts tried at a time, and some wait for a moment. Others have theirs meanwhile.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p tryout.Places
		enter := func(tenant string) func() {
			t.Helper()
			leave, err := p.Enter(t.Context(), tenant)
			if err != nil {
				t.Fatalf("%s: %v", tenant, err)
			}
			return leave
		}
		refused := func(tenant string) {
			t.Helper()
			if _, err := p.Enter(t.Context(), tenant); script.KindOf(err) != script.Overloaded {
				t.Errorf("%s: %v", tenant, err)
			}
		}
		first, second := enter("acme"), enter("acme")
		refused("acme")
		go func() {
			<-time.After(time.Second)
			first()
		}()
		third := enter("acme")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Enter(ctx, "acme"); err == nil {
			t.Error("a caller that has gone has a place")
		}

		began, ends := time.Now(), make(chan time.Duration, 1000)
		for range cap(ends) {
			go func() {
				refused("acme")
				ends <- time.Since(began)
			}()
		}
		waited := 0
		for range cap(ends) {
			if <-ends > 0 {
				waited++
			}
		}
		if waited != 16 {
			t.Errorf("of 1000 at once, %d wait", waited)
		}
		var leave []func()
		for i := range 14 {
			leave = append(leave, enter(fmt.Sprint("tenant-", i)))
		}
		refused("other")
		for _, l := range append(leave, second, third) {
			l()
		}
		enter("acme")()
		enter("other")()
	})
}
