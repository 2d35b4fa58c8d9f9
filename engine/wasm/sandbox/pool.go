package sandbox

import (
	"container/list"
	"sync"
)

// maxIdle is how many instances a sandbox keeps that wait for calls.
const maxIdle = 256

// pool keeps idle instances by module and tenant: one that served a tenant never serves another. When there are too
// many, or they hold too many bytes, the one that was idle for longest goes. It is safe for concurrent use.
type pool struct {
	perTenant int
	most      int // bytes

	mu    sync.Mutex
	users map[user]*idle
	all   list.List // of *instance, the one that became idle last at the front
	bytes int
}

// user is whose instances are alike.
type user struct {
	module *Module
	tenant string
	memory int  // that its calls may have
	reuse  bool // else it is the memory alone that is kept
}

// idle are a user's instances that wait, the newest last.
type idle struct {
	instances []*instance
	image     *image // what the user's instances are reset to
	live      int    // how many there are, those that run included
}

func newPool(perTenant, most int) *pool {
	return &pool{perTenant: perTenant, most: most, users: map[user]*idle{}}
}

// take returns an idle instance, or nil.
func (p *pool) take(key user) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[key]
	if u == nil || len(u.instances) == 0 {
		return nil
	}
	last := len(u.instances) - 1
	i := u.instances[last]
	p.remove(u, last)
	return i
}

// image returns what the user's instances are reset to; nil if there are none.
func (p *pool) image(key user) *image {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.users[key]; u != nil {
		return u.image
	}
	return nil
}

// join makes i one of its user's instances. It has its image.
func (p *pool) join(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i.joined = true
	u := p.users[i.user]
	if u == nil {
		u = &idle{image: i.image}
		p.users[i.user] = u
	}
	u.live++
}

// leave is for an instance that is dropped. Instances that never joined may leave.
func (p *pool) leave(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !i.joined {
		return
	}
	i.joined = false
	if u := p.users[i.user]; u != nil {
		if u.live--; u.live == 0 {
			delete(p.users, i.user)
		}
	}
}

// put keeps i, which was reset. It reports whether there is room. Those that have to go are dropped.
func (p *pool) put(i *instance) bool {
	size := i.bytes()
	if !i.joined || size > p.most {
		return false
	}
	var gone []*instance
	defer func() {
		for _, g := range gone {
			g.drop()
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[i.user]
	if u == nil || i.of.closed.Load() || len(u.instances) >= p.perTenant {
		return false
	}
	u.instances = append(u.instances, i)
	i.idleBytes, i.place = size, p.all.PushFront(i)
	p.bytes += size
	for p.all.Len() > maxIdle || p.bytes > p.most {
		oldest := p.all.Back().Value.(*instance)
		p.remove(p.users[oldest.user], 0) // the first of its user, since those are in the same order
		gone = append(gone, oldest)
	}
	return true
}

// remove takes the n-th instance out.
func (p *pool) remove(u *idle, n int) {
	i := u.instances[n]
	u.instances = append(u.instances[:n], u.instances[n+1:]...)
	p.all.Remove(i.place)
	p.bytes -= i.idleBytes
	i.place = nil
}

// forget drops all instances of the module.
func (p *pool) forget(m *Module) {
	p.mu.Lock()
	var gone []*instance
	for key, u := range p.users {
		if key.module != m {
			continue
		}
		for len(u.instances) > 0 {
			gone = append(gone, u.instances[0])
			p.remove(u, 0)
		}
	}
	p.mu.Unlock()
	for _, i := range gone {
		i.drop()
	}
}

// bytesOf returns what the idle instances of the module hold.
func (p *pool) bytesOf(m *Module) (bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, u := range p.users {
		if key.module == m {
			for _, i := range u.instances {
				bytes += i.idleBytes
			}
		}
	}
	return bytes
}
