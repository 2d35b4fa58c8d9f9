package gateway

import (
	"context"
	"sync"
)

// Slots are one for each caller: large answers are made one at a time for each, since nobody
// knows before how large they are. The zero Slots are ready to use.
type Slots struct {
	mu   sync.Mutex
	each map[string]*slot // of callers that have theirs or wait for it
}

type slot struct {
	taken chan struct{} // has an element while it is
	users int
}

// Enter takes the caller's slot as soon as it is free, and returns what gives it back.
func (s *Slots) Enter(ctx context.Context, caller string) (leave func(), err error) {
	s.mu.Lock()
	mine := s.each[caller]
	if mine == nil {
		if s.each == nil {
			s.each = map[string]*slot{}
		}
		mine = &slot{taken: make(chan struct{}, 1)}
		s.each[caller] = mine
	}
	mine.users++
	s.mu.Unlock()
	select {
	case mine.taken <- struct{}{}:
		return func() {
			<-mine.taken
			s.forget(caller, mine)
		}, nil
	case <-ctx.Done():
		s.forget(caller, mine)
		return nil, ctx.Err()
	}
}

func (s *Slots) forget(caller string, mine *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(s.each, caller)
	}
}
