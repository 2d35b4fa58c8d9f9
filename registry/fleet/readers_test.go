package fleet_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
)

// TestManyReadersLeaveRoomForReports: however many read the status, and however long that takes,
// the fleet is free for reports half of the time: of nine reads in a row, the last begins when the
// first has made room.
func TestManyReadersLeaveRoomForReports(t *testing.T) {
	const readers, reads, atOnce = 50, 60, 8
	const took, rest = 2 * time.Millisecond, 15 * 2 * time.Millisecond
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	var starts, ends []time.Time
	done := sync.OnceFunc(cancel)
	slowly := fleet.Filter{Readable: func(string) bool { // the fleet is locked
		began := time.Now()
		for time.Since(began) < took {
		}
		starts, ends = append(starts, began), append(ends, time.Now())
		if len(starts) == reads {
			done()
		}
		return true
	}}
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					b.Status(slowly)
					continue
				}
				for range b.Watch(ctx, slowly) {
					break
				}
			}
		})
	}
	reading.Wait()
	for i := atOnce; i < reads; i++ {
		if got := starts[i].Sub(ends[i-atOnce]); got < rest {
			t.Fatalf("read %d begins %v after the end of read %d, want %v or more", i, got, i-atOnce, rest)
		}
	}
}

// TestManyReadersOfOneCaller: a caller with many requests holds up its own ones. A request whose
// caller has gone does not wait.
func TestManyReadersOfOneCaller(t *testing.T) {
	const requests, few, most = 600, 40, 300
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, ofMany := make(chan struct{}), 0 // with the fleet locked
	many := fleet.Filter{Caller: "many", Readable: func(string) bool {
		for began := time.Now(); time.Since(began) < time.Millisecond; {
		}
		if ofMany++; ofMany == few {
			close(begun)
		}
		return true
	}}
	var reading sync.WaitGroup
	for i := range requests {
		reading.Go(func() {
			for ctx.Err() == nil {
				if i%2 == 0 {
					_, _ = b.StatusFor(ctx, many)
					continue
				}
				for range b.Watch(ctx, many) {
					break
				}
			}
		})
	}
	<-begun
	at := 0
	_, err := b.StatusFor(ctx, fleet.Filter{Caller: "other", Readable: func(string) bool { at = ofMany; return true }})
	if err != nil || at-few > most {
		t.Errorf("%v after %d requests of another caller, want %d at most", err, at-few, most)
	}
	cancel()
	reading.Wait()
	if _, err := b.AgentsFor(ctx, fleet.AgentFilter{}); err == nil {
		t.Error("a request whose caller has gone is answered")
	}
}
