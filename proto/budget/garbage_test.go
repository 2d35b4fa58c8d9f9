package budget_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// TestGarbageCountsUntilItIsCollected: a caller whose requests are given up one after the other
// makes no more garbage than the budget has room for.
func TestGarbageCountsUntilItIsCollected(t *testing.T) {
	for name, take := range map[string]func(*request) bool{
		"Take": func(r *request) bool { return r.Take(100) },
		"Try":  func(r *request) bool { return r.Try(100) },
	} {
		t.Run(name, func(t *testing.T) { garbageCounts(t, take) })
	}
}

func garbageCounts(t *testing.T, take func(*request) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		collected := make(chan struct{})
		b := budget.NewCapped(1000, func() { <-collected })
		var bytes int
		flood := func() {
			var all []*request
			for goesOn := true; goesOn && bytes < 100_000; bytes += 100 {
				next := open(b, "a")
				next.Await(time.Time{})
				goesOn = take(next)
				all = append(all, next)
				if all[0].why != nil {
					all[0].Close()
					all = all[1:]
				}
			}
			for _, r := range all {
				r.Close()
			}
		}
		go flood()
		synctest.Wait()
		if bytes > 1000 {
			t.Errorf("%d bytes came in while nothing was collected", bytes)
		}
		other := open(b, "b")
		if !other.Take(100) {
			t.Error("another caller has no room")
		}
		other.Close()
		close(collected)
		<-time.After(time.Minute)
		if bytes != 100_000 {
			t.Errorf("%d bytes came in in all", bytes)
		}
		if whole := open(b, "a"); !whole.Try(500) {
			t.Error("what was collected still counts")
		}
	})
}

// TestRepliesDoNotWait: a reply is in memory already, so its connection ends if there is no room.
func TestRepliesDoNotWait(t *testing.T) {
	collected := make(chan struct{})
	b := budget.NewCapped(1000, func() { <-collected })
	for range 5 {
		r := open(b, "a")
		r.Await(time.Now())
		r.Take(125)
		b.Expire(time.Now().Add(time.Second))
		r.Close()
	}
	reply := open(b, "a")
	if reply.Hold(1) {
		t.Error("there is room beyond the margin")
	}
	close(collected)
	for !reply.Hold(500) { // nothing was taken before
		runtime.Gosched()
	}
}

// TestWhatIsGivenUpEndsFirst: a request that is tried for waits until those that make room for it
// have ended, but not for ever.
func TestWhatIsGivenUpEndsFirst(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := budget.New(1000)
			first := waiting(b, "a", 250)
			waiting(b, "a", 250)
			next := open(b, "a")
			began := time.Now()
			taken := make(chan bool, 1)
			go func() { taken <- next.Try(250) }()
			synctest.Wait()
			if first.why == nil || len(taken) > 0 {
				t.Errorf("given up: %v; %d have room before that ended", first.why, len(taken))
			}
			if ends {
				first.Close()
			}
			if !<-taken || ends != (time.Since(began) == 0) || time.Since(began) > time.Second {
				t.Errorf("it has ended: %t; the next one waited %v", ends, time.Since(began))
			}
		})
	}
}
