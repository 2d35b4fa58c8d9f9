package rpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: no more turns than there are, in the order of their requests; one that
// nobody ends is over after a while, and a canceled request leaves the queue.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		turns := newTurns(2, time.Minute)
		first, err := turns.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turns.take(t.Context()); err != nil { // never ended
			t.Fatal(err)
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.take(gone); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third turn: %v", err)
		}
		var order []int
		for i := range 2 {
			go func() {
				done, err := turns.take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				<-time.After(time.Second)
				done()
				done() // once is enough
			}()
			synctest.Wait() // so that the next one is behind it
		}
		first()
		first()
		<-time.After(3 * time.Second)
		if len(order) != 2 || order[0] != 0 || order[1] != 1 {
			t.Errorf("the turns were taken in the order %v", order)
		}
		for range 2 {
			if _, err := turns.take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("the turn that nobody ended was over after %v", waited)
		}
	})
}
