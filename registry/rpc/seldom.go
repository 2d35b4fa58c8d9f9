package rpc

import (
	"sync"
	"time"
)

// seldomEvery is how often the same thing is logged at most: who causes it may do so
// again as fast as it can.
const seldomEvery = time.Minute

// seldom says when to log what may happen often. The zero value is ready. It is safe
// for concurrent use.
type seldom struct {
	mu     sync.Mutex
	logged time.Time
	silent int // times since
}

// due reports whether to log it this time, and how often it was not logged before.
func (s *seldom) due() (others int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.logged.IsZero() && now.Sub(s.logged) < seldomEvery {
		s.silent++
		return 0, false
	}
	others = s.silent
	s.logged, s.silent = now, 0
	return others, true
}
