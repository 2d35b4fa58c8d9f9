package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sightings are when each of so many saw things, which have numbers.
type sightings struct {
	count int

	mu    sync.Mutex
	above int64 // things with lower numbers are of no interest
	of    map[int64]*sighting
}

type sighting struct {
	at   []int64
	left int
	all  chan struct{} // closed when nobody is left
}

func newSightings(count int) *sightings {
	return &sightings{count: count, above: -1, of: map[int64]*sighting{}}
}

// expect forgets everything up to the number.
func (s *sightings) expect(above int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.above = above
	clear(s.of)
}

// get returns the sighting; nil if it is of no interest. s.mu is held.
func (s *sightings) get(number int64) *sighting {
	if number <= s.above {
		return nil
	}
	g := s.of[number]
	if g == nil {
		g = &sighting{at: make([]int64, s.count), left: s.count, all: make(chan struct{})}
		s.of[number] = g
	}
	return g
}

// see notes that one of them saw the thing. The first time counts.
func (s *sightings) see(number int64, index int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.get(number)
	if g == nil || g.at[index] != 0 {
		return
	}
	g.at[index] = at.UnixNano()
	if g.left--; g.left == 0 {
		close(g.all)
	}
}

// seen returns how many saw the thing.
func (s *sightings) seen(number int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.of[number]
	if g == nil {
		return 0
	}
	return s.count - g.left
}

// await returns when each saw the thing, once all did.
func (s *sightings) await(ctx context.Context, number int64, failed <-chan error) ([]int64, error) {
	s.mu.Lock()
	g := s.get(number)
	s.mu.Unlock()
	if g == nil {
		return nil, fmt.Errorf("number %d is of no interest any more", number)
	}
	select {
	case <-g.all:
		return g.at, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, fmt.Errorf("%d of %d agents of a process do not have it: %w", g.left, s.count, ctx.Err())
	}
}
