package lua

import (
	"maps"
	"runtime"
	"sync"
)

const (
	// maxIdleStates and maxIdleBytes bound the idle states of an engine.
	maxIdleStates = 256
	maxIdleBytes  = 16 << 20
	// maxStateBytes is how large an idle state may be. A fresh one has some 11 KiB; one
	// whose script has filled its stack has 600, and is dropped.
	maxStateBytes = 90 << 10
)

// pool keeps idle states by tenant: a state that served one tenant never serves
// another. When there are too many, or they hold too many bytes, the one that was
// idle for longest goes. A tenant has at most perTenant of them. It is safe for
// concurrent use.
type pool struct {
	perTenant int

	mu      sync.Mutex
	tenants map[string]*tenantStates
	idle    int
	bytes   int    // that they hold
	newest  *state // ends of the list of all idle states, by when they became idle
	oldest  *state
}

// tenantStates are the idle states of one tenant, the newest last.
type tenantStates struct {
	states []*state
}

func newPool() *pool {
	return &pool{
		perTenant: 2 * runtime.GOMAXPROCS(0),
		tenants:   make(map[string]*tenantStates),
	}
}

// get returns an idle state of the tenant, or a new one.
func (p *pool) get(tenant string) *state {
	if s := p.take(tenant); s != nil {
		return s
	}
	return newState(tenant)
}

func (p *pool) take(tenant string) *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[tenant]
	if t == nil || len(t.states) == 0 {
		return nil
	}
	last := len(t.states) - 1
	s := t.states[last]
	t.states[last] = nil
	t.states = t.states[:last]
	p.unlink(s)
	return s
}

// put keeps s for its tenant's next call, or drops it if the tenant has enough.
func (p *pool) put(s *state) {
	if s.bytes = s.trim(maxStateBytes); s.bytes > maxStateBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[s.tenant]
	if t == nil {
		if len(p.tenants) >= 2*maxIdleStates {
			maps.DeleteFunc(p.tenants, func(_ string, t *tenantStates) bool { return len(t.states) == 0 })
		}
		t = &tenantStates{}
		p.tenants[s.tenant] = t
	}
	if len(t.states) >= p.perTenant {
		return
	}
	for p.idle >= maxIdleStates || p.idle > 0 && p.bytes+s.bytes > maxIdleBytes {
		p.evict()
	}
	t.states = append(t.states, s)
	p.link(s)
}

// evict drops the state that was idle for longest: the first of its tenant,
// since those are in the same order.
func (p *pool) evict() {
	s := p.oldest
	p.unlink(s)
	t := p.tenants[s.tenant]
	n := copy(t.states, t.states[1:])
	t.states[n] = nil
	t.states = t.states[:n]
}

func (p *pool) link(s *state) {
	s.older, s.newer = p.newest, nil
	if p.newest != nil {
		p.newest.newer = s
	} else {
		p.oldest = s
	}
	p.newest = s
	p.idle++
	p.bytes += s.bytes
}

func (p *pool) unlink(s *state) {
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		p.newest = s.older
	}
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		p.oldest = s.newer
	}
	s.older, s.newer = nil, nil
	p.idle--
	p.bytes -= s.bytes
}
