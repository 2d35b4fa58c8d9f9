package worker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Pool has the processes of one agent. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	host    *host // what starts processes
	metrics *metrics
	byName  atomic.Pointer[map[string]*tenant] // those that have a process; immutable
	shared  sync.Map                           // names of tenants that had one and may run in the agent now, which may not be live yet

	mu      sync.Mutex // guards changes of byName and shared, and closed
	closed  bool
	leaving sync.WaitGroup // tenants that are on their way out
}

// New returns a pool with processes for the tenants whose settings ask for one: it
// returns before they are there, and their calls wait for them. The caller shuts it
// down.
func New(cfg Config) (*Pool, error) {
	p := &Pool{cfg: cfg.withDefaults()}
	p.byName.Store(&map[string]*tenant{})
	m, err := newMetrics(cfg.Metrics, p)
	if err != nil {
		return nil, err
	}
	p.metrics = m
	if p.host, err = newHost(p); err != nil {
		return nil, err
	}
	for name := range cfg.Node.Tenants.Names() {
		p.configure(name, cfg.Node.Tenants.Settings(name), nil)
	}
	return p, nil
}

// promptly is how long the fleet's changes wait for a tenant's process to make one of its
// own live. The calls of a tenant whose process takes longer wait then, so that none is
// answered by what was there before; those of others go on.
//
// In the long run they wait for each tenant's process for a tenth of the time: one whose
// programs take long to compile, or that is slow on purpose, holds up others no longer.
const promptly = 100 * time.Millisecond

// Committed tells processes of a change that is about to be live in the agent. It returns
// when all that are concerned run it or are being replaced by such as start from it, or
// after a tenth of a second: the calls of a tenant whose process takes longer wait for it,
// and nobody else does. It does not wait for a process that is behind already. Calls come
// one after the other, each after what the one before said is live in the agent.
func (p *Pool) Committed(put []script.Object, removed []string) {
	changes := map[string]*change{}
	of := func(tenant string) *change {
		if changes[tenant] == nil {
			changes[tenant] = &change{limits: map[string]script.Limits{}}
		}
		return changes[tenant]
	}
	for _, o := range put {
		c := of(o.TenantName())
		c.put = append(c.put, o)
		switch {
		case o.Tenant != nil:
			settings := o.Tenant.Settings.OrDefaults()
			c.settings = &settings
		case o.Release != nil:
			c.limits[o.Release.Name.String()] = widest(o.Release, p.cfg.Node.Agent)
		}
	}
	for _, key := range removed {
		kind, name, _ := strings.Cut(key, "/")
		tenant, _, _ := strings.Cut(name, "/")
		c := of(tenant)
		c.gone = append(c.gone, key)
		if script.ObjectKind(kind) == script.Tenants {
			settings := script.TenantSettings{}.OrDefaults()
			c.settings = &settings
		}
	}
	tellings := map[*told]*tenant{}
	for name, c := range changes {
		t := (*p.byName.Load())[name]
		if c.settings != nil {
			t = p.configure(name, *c.settings, c)
		}
		if t == nil {
			continue
		}
		if next := t.tell(c); next != nil {
			tellings[next] = t
		}
	}
	await(tellings)
}

// widest returns the limits on time and results that hold for all calls of the release on the agent.
func widest(r *script.Release, agent script.Agent) script.Limits {
	limits := r.SpecOn(agent).Limits.OrDefaults()
	if r.KeysOn(agent) > 0 {
		other := r.Candidate.Spec.Limits.OrDefaults()
		limits.Timeout, limits.ResultBytes = max(limits.Timeout, other.Timeout), max(limits.ResultBytes, other.ResultBytes)
	}
	return limits
}

// PublishersChanged takes from processes what Config.Node.Publishers do not vouch for any more,
// and gives them what they do. It returns when Committed would: calls wait for what is late.
func (p *Pool) PublishersChanged() {
	tellings := map[*told]*tenant{}
	for _, t := range *p.byName.Load() {
		if next := t.tell(&change{again: true}); next != nil {
			tellings[next] = t
		}
	}
	await(tellings)
}

// await waits until the processes have the changes, and has calls wait for slow processes.
func await(tellings map[*told]*tenant) {
	began := time.Now()
	for c, t := range tellings {
		t.await(c, began)
	}
}

// change is what of a commit concerns one tenant.
type change struct {
	number   int // later ones have higher numbers
	put      []script.Object
	gone     []string                 // keys
	settings *script.TenantSettings   // if they changed, defaults applied
	limits   map[string]script.Limits // of the releases in it, by "tenant/name", defaults applied
	again    bool                     // all that is live, too, as publishers' keys are now
	signed   bool                     // versions need signatures, and those in it are verified

	renewed map[script.Name]script.Revision // releases of which something else runs than before
}

// configure gives the tenant a process, or takes it away, and returns the tenant if it
// had one and keeps it. A new process gets the change c, if that is not nil.
func (p *Pool) configure(name string, settings script.TenantSettings, c *change) *tenant {
	p.mu.Lock()
	defer p.mu.Unlock()
	isolated := settings.Isolation == script.IsolationProcess
	t := (*p.byName.Load())[name]
	switch {
	case isolated:
		p.shared.Delete(name) // from here on, whatever happens, it does not run in the agent
		if t != nil {
			return t
		}
		if !p.closed {
			t = newTenant(p, name, settings, c)
			p.put(name, t)
			p.cfg.Isolated(name, true)
			t.start()
		}
	case p.closed: // what has a process keeps being refused
	case t != nil:
		p.shared.Store(name, true)
		p.put(name, nil)
		t.closeSockets(true) // now, lest it find them in its way if it comes back
		p.cfg.Isolated(name, false)
		p.leaving.Go(func() { t.leave(context.Background()) })
		p.cfg.Changed()
	}
	return nil
}

// find returns the tenant that has a process, and neither that nor an error for one that
// runs in the agent. A tenant whose settings ask for a process never does.
func (p *Pool) find(name string) (*tenant, error) {
	if t := (*p.byName.Load())[name]; t != nil {
		return t, nil
	}
	if p.cfg.Node.Tenants.Settings(name).Isolation != script.IsolationProcess {
		return nil, nil
	}
	if t := (*p.byName.Load())[name]; t != nil { // since a moment ago
		return t, nil
	}
	if _, ok := p.shared.Load(name); ok { // the settings that say so are not live yet
		return nil, nil
	}
	return nil, script.Errorf(script.Unavailable, "tenant", "tenant %s asks for a process of its own, and this agent has none for it: the agent stops, or its log says why", name)
}

// put changes who has a process. p.mu is held.
func (p *Pool) put(name string, t *tenant) {
	all := maps.Clone(*p.byName.Load())
	if t == nil {
		delete(all, name)
	} else {
		all[name] = t
	}
	p.byName.Store(&all)
}

// Quarantined returns the scripts that are kept from running, in order of their names.
func (p *Pool) Quarantined() []Quarantined {
	var all []Quarantined
	for _, t := range *p.byName.Load() {
		all = append(all, t.quarantined()...)
	}
	slices.SortFunc(all, func(a, b Quarantined) int { return cmp.Compare(a.Script.String(), b.Script.String()) })
	return all
}

// Lags returns the tenants whose process lacks releases that the agent no longer waits for, each with
// a revision that these are above.
func (p *Pool) Lags() map[string]script.Revision {
	var lags map[string]script.Revision
	for name, t := range *p.byName.Load() {
		if above, ok := t.lag(); ok {
			if lags == nil {
				lags = map[string]script.Revision{}
			}
			lags[name] = above
		}
	}
	return lags
}

// Status returns the processes of all tenants that have one, in order of the tenants.
func (p *Pool) Status() []Status {
	tenants := *p.byName.Load()
	all := make([]Status, 0, len(tenants))
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		all = append(all, tenants[name].status())
	}
	return all
}

// Shutdown closes the tenants' own sockets, lets calls in flight finish until ctx is
// done, and ends all processes. Calls that come later are refused. It may be called
// again.
func (p *Pool) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.leaving.Wait()
		return nil
	}
	p.closed = true
	for _, t := range *p.byName.Load() {
		t.closeSockets(false) // a pod may have mounted the folder, and waits for the next agent
		p.leaving.Go(func() { t.leave(ctx) })
	}
	p.mu.Unlock()
	p.leaving.Wait()
	p.host.close()
	return ctx.Err()
}
