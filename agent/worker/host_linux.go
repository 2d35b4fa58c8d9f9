package worker

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
)

// host starts processes, and keeps some ready that have no tenant yet.
type host struct {
	pool    *Pool
	starter *confine.Starter
	cgroups *confine.Cgroups // nil if there are none
	ids     *ids
	number  atomic.Int64  // of the last process
	spares  chan *process // those that keep spares ready offer them here
	offered atomic.Int64  // spares that are ready
	keeping sync.Once

	mu      sync.Mutex // guards keepers
	keepers int        // goroutines that have one spare each

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newHost(p *Pool) (*host, error) {
	h := &host{pool: p, ids: newIDs(p.cfg.Users), spares: make(chan *process)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// need makes the host ready for processes, which takes nothing as long as no tenant
// has one.
func (h *host) need() {
	h.keeping.Do(func() {
		h.openCgroups()
		starter, err := confine.NewStarter(h.cgroups == nil)
		if err != nil { // they run with the agent's own priority
			h.pool.cfg.Log.Warn("processes of tenants compete with the agent for the processors", "error", err)
			starter, _ = confine.NewStarter(false) // this one cannot fail
		}
		h.starter = starter
		if os.Geteuid() != 0 {
			h.pool.cfg.Log.Info("processes of tenants run as the agent's own user: it is not root", "uid", os.Geteuid())
		}
		h.running.Go(h.watch)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for want := h.wanted(); h.keepers < want; h.keepers++ {
		h.running.Go(h.keep)
	}
}

// maxSpares is how many spares there are at most unless told.
const maxSpares = 4

// wanted is how many spares there are to be: as many tenants' processes may end at once.
func (h *host) wanted() int {
	if n := h.pool.cfg.Spares; n > 0 {
		return n
	}
	return min(max(len(*h.pool.byName.Load()), 1), maxSpares)
}

// ready returns how many spares there are.
func (h *host) ready() int { return int(h.offered.Load()) }

// openCgroups finds the control group to make those of processes in.
func (h *host) openCgroups() {
	dir := h.pool.cfg.Cgroup
	var err error
	if dir == "" {
		dir, err = confine.Delegated()
	}
	if err == nil {
		h.cgroups, err = confine.OpenCgroups(dir)
	}
	if err == nil {
		h.pool.cfg.Log.Info("processes of tenants are bounded by control groups", "cgroup", dir)
		return
	}
	h.pool.cfg.Log.Warn("processes of tenants are bounded by their own limits and a lower priority, as there are no control groups for them", "reason", err)
}

// keep has one process ready at a time, until the host is closed.
func (h *host) keep() {
	const soonest, latest = 100 * time.Millisecond, 5 * time.Second
	for delay := soonest; ; {
		p, err := h.start()
		if err != nil {
			if h.ctx.Err() != nil {
				return
			}
			h.pool.cfg.Log.Error("a process for tenants cannot be started; trying again", "error", err, "after", delay)
			select {
			case <-time.After(delay):
			case <-h.ctx.Done():
				return
			}
			delay = min(2*delay, latest)
			continue
		}
		delay = soonest
		if !h.offer(p) {
			return
		}
	}
}

// offer offers a spare until it is taken or has ended, and reports whether to start
// another.
func (h *host) offer(p *process) bool {
	h.offered.Add(1)
	defer h.offered.Add(-1)
	select {
	case h.spares <- p:
	case <-p.ended:
		h.pool.cfg.Log.Warn("a spare process ended; starting another", "state", p.state())
		p.close()
	case <-h.ctx.Done():
		p.kill(reasonSettings)
		<-p.ended
		p.close()
		return false
	}
	return true
}

// take returns a process that is ready for a tenant.
func (h *host) take(ctx context.Context) (*process, error) {
	h.need()
	for {
		select {
		case p := <-h.spares:
			select {
			case <-p.ended:
				p.close()
				continue
			default:
				return p, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-h.ctx.Done():
			return nil, context.Cause(h.ctx)
		}
	}
}

// start starts a process and waits until it is confined.
func (h *host) start() (*process, error) {
	var group *confine.Cgroup
	if h.cgroups != nil {
		var err error
		group, err = h.cgroups.Make("worker-" + strconv.FormatInt(h.number.Add(1), 10))
		if err != nil {
			return nil, err
		}
	}
	p, err := newProcess(h, group)
	if err != nil {
		return nil, fmt.Errorf("start a process for tenants: %w", err)
	}
	return p, nil
}

// Bounds of how processes are watched.
const (
	watchEvery = 100 * time.Millisecond
	// stillFor is how long a process may give no sign: the garbage collector of one that
	// is at its cap stops it for much less.
	stillFor = 10 * time.Second
	// unreachableFor is how long a process may live whose link has ended.
	unreachableFor = time.Second
)

// watch tells processes how far the agent has come, and kills those that hang.
func (h *host) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			at := h.pool.cfg.Node.Position(now)
			for _, t := range *h.pool.byName.Load() {
				t.look(at, now)
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// look tells the tenant's process how far the agent has come, and kills one that hangs.
func (t *tenant) look(at gateway.Position, now time.Time) {
	s := t.state.Load() // after the position: a process that is not behind yet has all of it
	p := s.process
	if p == nil {
		return
	}
	if still := p.look(at, s.held(), now); still > stillFor {
		t.pool.cfg.Log.Error("the process of a tenant gives no sign; it is killed", "tenant", t.name, "after", still)
		p.kill(reasonUnresponsive)
	}
	if cut := p.unreachable(now); cut > unreachableFor {
		t.pool.cfg.Log.Error("the process of a tenant ended its link with the agent; it is killed", "tenant", t.name, "after", cut)
		p.kill(reasonUnresponsive)
	}
}

// close ends what is left. No tenant has a process any more.
func (h *host) close() {
	h.cancel()
	h.running.Wait()
	if h.starter != nil {
		h.starter.Close()
	}
}
