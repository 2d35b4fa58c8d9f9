package tryout

import (
	"context"
	"sync"
	"time"
)

const (
	// maxPlaces is how many scripts an agent tries at a time: one of a tenant.
	maxPlaces = 2
	// placePatience is how long a script waits for a place.
	placePatience = 3 * time.Second
)

// Places bounds how many scripts are tried at a time. The zero Places is free. It is safe for concurrent use.
type Places struct {
	mu    sync.Mutex
	taken map[string]bool // by tenant
	left  chan struct{}   // closed when somebody leaves
}

// Enter takes a place for a script of the tenant, and waits for one. The caller calls leave at the end.
func (p *Places) Enter(ctx context.Context, tenant string) (leave func(), err error) {
	timer := time.NewTimer(placePatience)
	defer timer.Stop()
	for {
		left := p.try(tenant)
		if left == nil {
			return func() { p.leave(tenant) }, nil
		}
		select {
		case <-left:
		case <-timer.C:
			return nil, busy()
		case <-ctx.Done():
			return nil, busy()
		}
	}
}

// try takes a place, or returns what is closed when there may be one.
func (p *Places) try(tenant string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken, p.left = map[string]bool{}, make(chan struct{})
	}
	if p.taken[tenant] || len(p.taken) >= maxPlaces {
		return p.left
	}
	p.taken[tenant] = true
	return nil
}

func (p *Places) leave(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, tenant)
	close(p.left)
	p.left = make(chan struct{})
}
