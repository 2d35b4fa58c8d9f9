package turns_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/turns"
	"github.com/scriptorium-dev/scriptorium/script"
)

// run makes a request that runs for so long.
func run(ctx context.Context, t *turns.Turns, caller string, length time.Duration) error {
	end, err := t.Begin(ctx, caller)
	if err != nil {
		return err
	}
	<-time.After(length)
	end(length)
	return nil
}

// TestRequestsRest: requests run for a limited part of the time, however many there are. Short ones do not rest.
func TestRequestsRest(t *testing.T) {
	for _, c := range []struct {
		name         string
		length, want time.Duration
	}{
		{"long", 20 * time.Millisecond, 5*4*20*time.Millisecond - 60*time.Millisecond}, // the last rest is not waited for
		{"short", 19 * time.Millisecond, 5 * 19 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := turns.New(turns.Config{Concurrent: 2, PerCaller: 1, RestFactor: 3, MinRest: 60 * time.Millisecond})
				began := time.Now()
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						if err := run(t.Context(), requests, string(rune('a'+i)), c.length); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took != c.want {
					t.Errorf("ten requests of ten callers take %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestCallersAreEqual: a caller with many requests delays its own ones, and another caller by few of them.
func TestCallersAreEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := turns.New(turns.Config{Concurrent: 1, PerCaller: 2, Busy: "many others read"})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := run(ctx, requests, "greedy", time.Second); err != nil && script.KindOf(err) != script.Unavailable {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := run(ctx, requests, "modest", 0); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("another caller waits %v, want two requests of the greedy one at most", took)
		}
		bounded, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		err := run(bounded, requests, "greedy", 0)
		if want := "many others read: context deadline exceeded"; script.KindOf(err) != script.Unavailable || err.Error() != want {
			t.Errorf("a request that gave up: %v, want %q", err, want)
		}
		cancel()
		all.Wait()
		if err := run(t.Context(), requests, "greedy", 0); err != nil {
			t.Error("requests that gave up hold their places:", err)
		}
	})
}
