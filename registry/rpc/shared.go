package rpc

import (
	"context"
	"sync"
)

// shared answers a question for everyone who asks it at about the same time: when
// NATS is down every agent asks for the head each second. Whoever asks gets an
// answer to a question that was put no earlier.
type shared[T any] struct {
	ask func(ctx context.Context) (T, error)

	mu   sync.Mutex
	busy bool       // a question is under way
	next *answer[T] // of the question after it; nil while nobody waits for one
}

type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// get returns an answer, or the error of ctx.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &answer[T]{done: make(chan struct{})}
	}
	wanted := s.next
	if !s.busy {
		s.busy = true
		go s.run()
	}
	s.mu.Unlock()
	select {
	case <-wanted.done:
		return wanted.value, wanted.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// run asks until nobody waits.
func (s *shared[T]) run() {
	for {
		s.mu.Lock()
		a := s.next
		s.next = nil
		if a == nil {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), catchUpTimeout)
		a.value, a.err = s.ask(ctx)
		cancel()
		close(a.done)
	}
}
