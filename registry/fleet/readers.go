package fleet

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/turns"
)

// newReaders returns the turns of slow reads. Eight reads at a time, each with a rest of 15 times its length, lock the
// fleet for about half of the time at most.
func newReaders() *turns.Turns {
	return turns.New(turns.Config{
		Concurrent: 8, PerCaller: 2, RestFactor: 15, MinRest: time.Millisecond, Busy: "many others read the fleet's status",
	})
}

// newFinders returns the turns of searches, which lock the fleet for a short time at once. One caller that searches
// without a pause takes one processor at most, and waits for nobody if it is alone.
func newFinders() *turns.Turns {
	return turns.New(turns.Config{
		Concurrent: 4, PerCaller: 1, RestFactor: 2, MinRest: time.Millisecond, Busy: "many others search scripts and agents",
	})
}

// search waits for the caller's turn, then calls do, which locks the fleet. It fails if ctx ends first.
func (f *Fleet) search(ctx context.Context, caller string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end, err := f.finders.Begin(ctx, caller)
	if err != nil {
		return err
	}
	began := time.Now()
	err = do()
	end(time.Since(began))
	return err
}

// read waits for the caller's turn, then calls do with the fleet locked. It fails if ctx ends first.
func (f *Fleet) read(ctx context.Context, caller string, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	end, err := f.readers.Begin(ctx, caller)
	if err != nil {
		return err
	}
	f.mu.Lock()
	began := time.Now()
	do()
	f.mu.Unlock()
	end(time.Since(began))
	return nil
}
