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
