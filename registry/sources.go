package registry

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/scriptorium-dev/scriptorium/script"
)

// SourceMemory is how many bytes of sources a registry keeps in memory. Agents that join
// want the same ones: without that, each of them costs the store a read of every source.
const SourceMemory = 64 << 20

// sourceOverhead is what a source takes besides its bytes, roughly.
const sourceOverhead = 256

// sources keeps those that were read last in memory.
type sources struct {
	store   Store
	reading chan struct{} // holds whoever reads from the store, so that nobody reads the same

	mu    sync.Mutex
	lru   *simplelru.LRU[script.Digest, []byte]
	bytes int
}

func newSources(store Store) *sources {
	lru, err := simplelru.NewLRU[script.Digest, []byte](math.MaxInt, nil)
	if err != nil {
		panic(err) // of a size below 1 only
	}
	return &sources{store: store, reading: make(chan struct{}, 1), lru: lru}
}

// get returns those of the sources that there are.
func (s *sources) get(ctx context.Context, digests []script.Digest) ([]Source, error) {
	found, missing := s.remembered(make([]Source, 0, len(digests)), digests)
	if len(missing) == 0 {
		return found, nil
	}
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.reading }()
	found, missing = s.remembered(found, missing) // what others have read meanwhile
	if len(missing) == 0 {
		return found, nil
	}
	read, err := s.store.Sources(ctx, missing)
	if err != nil {
		return nil, err
	}
	// Something else under a digest is of no use to anybody, and is not to be remembered.
	read = slices.DeleteFunc(read, func(source Source) bool { return script.DigestOf(source.Content) != source.Digest })
	s.remember(read)
	return append(found, read...), nil
}

// remembered adds those of the sources that are in memory to found, and returns the
// digests of the others.
func (s *sources) remembered(found []Source, digests []script.Digest) (all []Source, missing []script.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range digests {
		if content, ok := s.lru.Get(d); ok {
			found = append(found, Source{Digest: d, Content: content})
			continue
		}
		missing = append(missing, d)
	}
	return found, missing
}

// remember keeps the sources, and gives up those that were used longest ago for them.
func (s *sources) remember(read []Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range read {
		if s.lru.Contains(source.Digest) {
			continue
		}
		s.lru.Add(source.Digest, source.Content)
		s.bytes += len(source.Content) + sourceOverhead
	}
	for s.bytes > SourceMemory {
		_, content, ok := s.lru.RemoveOldest()
		if !ok {
			return
		}
		s.bytes -= len(content) + sourceOverhead
	}
}
