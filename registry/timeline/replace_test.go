package timeline_test

import (
	"context"
	"iter"
	"log/slog"
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry/timeline"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// replaceable is a store in whose place another one can be put, as by a restore of etcd.
type replaceable struct {
	mu sync.Mutex
	*counted
}

func (r *replaceable) replace(by *counted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = by
}

func (r *replaceable) now() *counted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counted
}

func (r *replaceable) Mark(ctx context.Context) (int64, error) { return r.now().Mark(ctx) }

func (r *replaceable) WatchEvents(ctx context.Context, after int64) iter.Seq2[timeline.Batch, error] {
	return r.now().WatchEvents(ctx, after)
}
