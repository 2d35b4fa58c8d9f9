package tryout

import (
	"context"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxPlaces is how many scripts a registry has tried at a time, and maxPlacesOf how many of one tenant. So a tenant
	// leaves room for others: among the queries of a registry, and where an agent keeps what waits for its turn.
	maxPlaces   = 16
	maxPlacesOf = 2
	// maxWaiting scripts of a tenant wait for a place, for placePatience at most.
	maxWaiting    = 16
	placePatience = 3 * time.Second
)

// Places bounds how many scripts are tried at a time. The zero Places is free. It is safe for concurrent use.
type Places struct {
	mu      sync.Mutex
	taken   int
	tenants map[string]*line
}

// line is the scripts of a tenant.
type line struct {
	turns chan struct{}
	all   int // that have a place or wait for one
}

// Enter takes a place for a script of the tenant, and waits for one. The caller calls leave at the end.
func (p *Places) Enter(ctx context.Context, tenant string) (leave func(), err error) {
	l := p.join(tenant)
	if l == nil {
		return nil, busy(tenant)
	}
	timer := time.NewTimer(placePatience)
	defer timer.Stop()
	select {
	case l.turns <- struct{}{}:
	case <-timer.C:
		p.part(tenant, l, 0)
		return nil, busy(tenant)
	case <-ctx.Done():
		p.part(tenant, l, 0)
		return nil, ctx.Err()
	}
	p.mu.Lock()
	full := p.taken == maxPlaces
	if !full {
		p.taken++
	}
	p.mu.Unlock()
	if full {
		<-l.turns
		p.part(tenant, l, 0)
		return nil, script.Errorf(script.Overloaded, "", "this registry has %d scripts tried now, the most at a time: try again, or at another replica", maxPlaces)
	}
	return func() {
		<-l.turns
		p.part(tenant, l, 1)
	}, nil
}

// join returns the line of the tenant; nil if it is too long.
func (p *Places) join(tenant string) *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.tenants[tenant]
	if l == nil {
		if p.tenants == nil {
			p.tenants = map[string]*line{}
		}
		l = &line{turns: make(chan struct{}, maxPlacesOf)}
		p.tenants[tenant] = l
	}
	if l.all == maxPlacesOf+maxWaiting {
		return nil
	}
	l.all++
	return l
}

// part leaves the line, and gives up the places that were taken.
func (p *Places) part(tenant string, l *line, places int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= places
	if l.all--; l.all == 0 {
		delete(p.tenants, tenant)
	}
}

func busy(tenant string) error {
	return script.Errorf(script.Overloaded, "tenant", "this registry has %d scripts of tenant %s tried now, the most of a tenant at a time: try again when one has ended", maxPlacesOf, tenant)
}
