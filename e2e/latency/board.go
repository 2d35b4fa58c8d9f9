package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// board remembers where each content was seen first, and when. Contents are made so
// that no two changes have the same. It is safe for concurrent use.
type board struct {
	mu      sync.Mutex
	seen    map[string]map[string]time.Time // by content and node
	changed chan struct{}                   // closed, and replaced, with each sight
}

func newBoard() *board {
	return &board{seen: map[string]map[string]time.Time{}, changed: make(chan struct{})}
}

// saw notes that content was on the node at that time, unless that is known.
func (b *board) saw(node, content string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nodes := b.seen[content]
	if nodes == nil {
		nodes = map[string]time.Time{}
		b.seen[content] = nodes
	}
	if _, known := nodes[node]; known {
		return
	}
	nodes[node] = at
	close(b.changed)
	b.changed = make(chan struct{})
}

// await returns when each of the nodes saw the content first, once all have.
func (b *board) await(ctx context.Context, content string, nodes int) (map[string]time.Time, error) {
	for {
		seen, changed := b.look(content)
		if len(seen) >= nodes {
			return seen, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return seen, fmt.Errorf("%q was seen on %d of %d nodes: %w", content, len(seen), nodes, context.Cause(ctx))
		}
	}
}

func (b *board) look(content string) (map[string]time.Time, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.seen[content]), b.changed
}
