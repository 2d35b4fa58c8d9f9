package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tenant is one that has a process.
type tenant struct {
	pool    *Pool
	name    string
	sockets []socket
	state   atomic.Pointer[state]
	calls   atomic.Int64 // that are being forwarded

	ctx      context.Context
	cancel   context.CancelFunc
	stopped  chan struct{}
	another  chan struct{} // holds an element when the settings ask for another process
	listed   atomic.Pointer[[]Quarantined]
	grace    atomic.Pointer[context.Context]
	said     *rate.Sometimes // that lines were left out
	digests  sync.RWMutex    // guards retained
	retained map[script.Digest]struct{}

	mu       sync.Mutex // guards what follows; held while a process takes over and while it is told
	settings script.TenantSettings
	last     *change // of the last commit, which may not be live in the agent
	blame    *blame
	enough   int // digests, before those that are not retained any more are dropped
}

// state is which process serves, if one does. It is immutable.
type state struct {
	process *process      // nil while there is none
	refused error         // why there is none, if it is more than a matter of milliseconds
	changed chan struct{} // closed when another state is
}

// newTenant gives the tenant a process as soon as there is one.
func newTenant(p *Pool, name string, s script.TenantSettings, c *change) *tenant {
	t := &tenant{
		pool: p, name: name, settings: s, last: c, enough: manyDigests, blame: newBlame(p.cfg.Quarantine), said: &rate.Sometimes{Interval: time.Second},
		stopped: make(chan struct{}), another: make(chan struct{}, 1), retained: map[script.Digest]struct{}{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.state.Store(&state{changed: make(chan struct{})})
	if len(p.cfg.Command) == 0 {
		p.cfg.Log.Error("a tenant asks for a process of its own, which this agent is not set up to give: its calls are refused", "tenant", name)
		t.become(nil, script.Errorf(script.Unavailable, "tenant", "tenant %s asks for a process of its own, which this agent is not set up to give: run agentd, or set the tenant's isolation to %s", name, script.IsolationShared))
		close(t.stopped)
		return t
	}
	t.listen()
	go t.run()
	return t
}

// become puts another state in place of the one before.
func (t *tenant) become(p *process, refused error) {
	old := t.state.Swap(&state{process: p, refused: refused, changed: make(chan struct{})})
	close(old.changed)
}

// run keeps a process in place until the tenant leaves.
func (t *tenant) run() {
	defer close(t.stopped)
	ended := time.Time{} // the process before, if it died
	var old *process     // that still serves, and is to be replaced
	deaths := rate.NewLimiter(deathsASecond, deathsAtOnce)
	for {
		p := t.place()
		if old != nil {
			t.retire(context.Background(), old)
			old = nil
		}
		if p == nil { // the tenant leaves
			return
		}
		if !ended.IsZero() {
			took := time.Since(ended)
			t.pool.metrics.replacedAfter(took)
			t.pool.cfg.Log.Info("the process of a tenant was replaced", "tenant", t.name, "pid", p.cmd.Process.Pid, "after", took.Round(100*time.Microsecond))
		}
		switch t.watch(p) {
		case diedItself:
			ended = time.Now()
			t.become(nil, nil)
			t.bury(p)
			t.pause(deaths.Reserve().Delay())
		case replaceIt:
			old, ended = p, time.Time{}
			t.pool.metrics.restarts.WithLabelValues(string(settings)).Inc()
		case leave:
			t.become(nil, errLeft)
			t.retire(*t.grace.Load(), p)
			return
		}
	}
}

// How often a tenant's process is replaced at once. One that dies more often is
// replaced later: otherwise the machine would do little else.
const (
	deathsAtOnce  = 30
	deathsASecond = 1
)

func (t *tenant) pause(pause time.Duration) {
	if pause == 0 {
		return
	}
	t.become(nil, script.Errorf(script.Unavailable, "tenant", "the process of tenant %s keeps dying; the next one is started in %v: the agent's log says why", t.name, pause.Round(time.Millisecond)))
	select {
	case <-time.After(pause):
	case <-t.ctx.Done():
	}
}

// fate is why the watch over a process ends.
type fate int

const (
	diedItself fate = iota
	replaceIt
	leave
)

// expireEvery is how often it is seen whether a quarantine is over.
const expireEvery = time.Second

func (t *tenant) watch(p *process) fate {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return diedItself
		case <-t.another:
			return replaceIt
		case <-t.ctx.Done():
			return leave
		case now := <-tick.C:
			t.mu.Lock()
			if t.blame.expire(now) {
				t.list()
				t.tellBlame(p)
			}
			t.mu.Unlock()
		}
	}
}

// place makes a process serve, and returns nil if the tenant leaves before that.
func (t *tenant) place() *process {
	const soonest, latest = 100 * time.Millisecond, 5 * time.Second
	for delay := soonest; ; delay = min(2*delay, latest) {
		p, err := t.pool.host.take(t.ctx)
		if err == nil {
			if err = t.handOver(p); err == nil {
				return p
			}
			p.kill(failed)
			<-p.ended
			first, _ := p.output.crash()
			err = fmt.Errorf("%w; it ended: %s, %s", err, p.state(), first)
			t.pool.metrics.restarts.WithLabelValues(string(failed)).Inc()
			p.close()
		}
		if t.ctx.Err() != nil {
			t.become(nil, errLeft)
			return nil
		}
		t.pool.cfg.Log.Error("a tenant's process cannot be made to serve; trying again", "tenant", t.name, "error", err, "after", delay)
		if t.state.Load().process == nil {
			t.become(nil, script.Errorf(script.Unavailable, "tenant", "the process of tenant %s cannot be started; the agent's log says why", t.name))
		}
		select {
		case <-time.After(delay):
		case <-t.ctx.Done():
		}
	}
}

// handOverPatience bounds the hand-over.
const handOverPatience = 5 * time.Second

// handOver makes the process the tenant's, with all that is live.
func (t *tenant) handOver(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, handOverPatience)
	defer cancel()
	cfg := t.pool.cfg
	p.look(cfg.Node.Position(time.Now()), time.Now())
	if err := p.assign(t, t.settings, &workerv1.Assignment{
		Tenant: t.name, MemoryBytes: t.settings.MemoryBytes, Processors: processors(t.settings.CPU),
		Access: cfg.Access, MaxWaiting: int64(cfg.MaxWaiting), Quarantine: t.blame.request(),
	}); err != nil {
		return err
	}
	live := t.live()
	t.retain(live.put, true)
	for _, c := range []*change{live, t.last} {
		if c == nil {
			continue
		}
		t.retain(c.put, false)
		if err := tell(ctx, p, c); err != nil {
			return fmt.Errorf("hand over what is live: %w", err)
		}
	}
	if _, err := p.client.Serve(ctx, &workerv1.ServeRequest{}); err != nil {
		return fmt.Errorf("begin to serve: %w", wire.FromStatus(err))
	}
	t.become(p, nil)
	return nil
}

// processors that a share of them takes, in thousandths; 0 is all.
func processors(cpu int) int32 {
	all := runtime.GOMAXPROCS(0)
	if cpu == 0 {
		return int32(all)
	}
	return int32(min(all, (cpu+999)/1000))
}

// live returns what is live of the tenant in the agent.
func (t *tenant) live() *change {
	node := t.pool.cfg.Node
	objects := []script.Object{{Tenant: &script.Tenant{Name: t.name, Revision: node.Tenants.Revision(t.name), Settings: t.settings}}}
	for r := range node.Table.All() {
		if r.Name.Tenant == t.name {
			release := r.Script()
			objects = append(objects, script.Object{Release: &release})
		}
	}
	for v := range node.Values.All() {
		if v.Key.Tenant == t.name {
			objects = append(objects, script.Object{Value: &v})
		}
	}
	return &change{put: objects}
}

// sayDropped reports whether it is time to say again that lines were left out.
func (t *tenant) sayDropped() (yes bool) {
	t.said.Do(func() { yes = true })
	return yes
}

// manyDigests are still few enough to be kept for no need.
const manyDigests = 10_000

// retain notes the digests that the tenant's process may ask for: those of the objects,
// and of those before unless they are all.
func (t *tenant) retain(objects []script.Object, all bool) {
	t.digests.Lock()
	defer t.digests.Unlock()
	if all {
		t.retained = map[script.Digest]struct{}{}
	}
	for _, o := range objects {
		for d := range o.Retained {
			t.retained[d] = struct{}{}
		}
		if d, _, ok := o.Content(); ok {
			t.retained[d] = struct{}{}
		}
	}
}

// retains reports whether something of the tenant has the digest.
func (t *tenant) retains(d script.Digest) bool {
	t.digests.RLock()
	defer t.digests.RUnlock()
	_, ok := t.retained[d]
	return ok
}

// together is how many bytes of objects go into one message, about.
const together = link.MaxMessage / 4

// tell makes a change live in the process: at once, unless it is a very large one.
func tell(ctx context.Context, p *process, c *change) error {
	req, size := &workerv1.ApplyRequest{}, 0
	for _, o := range c.put {
		m := wire.FromObject(o)
		if size += proto.Size(m); size > together && len(req.GetPut()) > 0 {
			if _, err := p.client.Apply(ctx, req); err != nil {
				return wire.FromStatus(err)
			}
			req, size = &workerv1.ApplyRequest{}, 0
		}
		req.Put = append(req.Put, m)
	}
	req.Gone = c.gone
	_, err := p.client.Apply(ctx, req)
	return wire.FromStatus(err)
}

// tellPatience is how long a process may take to make a change live. One that does not
// is replaced by one that starts from it: the fleet does not wait for a tenant that
// keeps its process busy.
const tellPatience = 5 * time.Second

// apply makes a change live in the tenant's process, unless there is none just now:
// the next one then starts from it.
func (t *tenant) apply(c *change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = c
	lifted := t.released(c)
	if c.settings != nil {
		before := t.settings
		t.settings = *c.settings
		if before.MemoryBytes != t.settings.MemoryBytes || before.CPU != t.settings.CPU {
			select {
			case t.another <- struct{}{}:
			default: // it is on its way
			}
		}
	}
	if len(t.retained) > t.enough { // most of them are of the past
		t.retain(t.live().put, true)
		t.enough = 2*len(t.retained) + manyDigests
	}
	t.retain(c.put, false)
	p := t.state.Load().process
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, tellPatience)
	defer cancel()
	if err := tell(ctx, p, c); err != nil {
		t.pool.cfg.Log.Warn("the process of a tenant does not take a change; it is replaced by one that has it", "tenant", t.name, "error", err)
		p.kill(unresponsive)
		return
	}
	if lifted {
		t.tellBlame(p)
	}
}

// leave ends the tenant's process, which finishes its calls until ctx is done, or for as
// long as one may take.
func (t *tenant) leave(ctx context.Context) {
	const longest = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	t.grace.Store(&ctx)
	t.cancel()
	<-t.stopped
}

// retire ends a process that is no longer needed.
func (t *tenant) retire(ctx context.Context, p *process) {
	const longest = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	p.drain(ctx)
	p.close()
}

// bury says why the process died, and finds out who is to blame.
func (t *tenant) bury(p *process) {
	why := p.reason()
	t.pool.metrics.restarts.WithLabelValues(string(why)).Inc()
	running := t.ranAtTheEnd(p.ranAtTheEnd())
	first, more := p.output.crash()
	names := make([]string, 0, len(running))
	for name := range running {
		names = append(names, name.String())
	}
	t.pool.cfg.Log.Error("the process of a tenant died", "tenant", t.name, "pid", p.cmd.Process.Pid, "reason", string(why),
		"state", p.state(), "running", names, "error", errors.New(first), "output", more)
	p.close()

	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.blame.quarantined)
	if !t.blame.died(time.Now(), running) {
		return
	}
	if len(t.blame.quarantined) == before {
		t.pool.cfg.Log.Warn("several scripts may be what kills the process of a tenant: they run one at a time from now on", "tenant", t.name, "scripts", t.blame.request().GetSuspects())
		return
	}
	for _, q := range t.blame.list() {
		t.pool.cfg.Log.Error("a script is in quarantine", "script", q.Script.String(), "until", q.Until, "error", q.Err)
	}
	t.list()
}

// ranAtTheEnd returns the scripts that the marks stand for, with their revisions.
func (t *tenant) ranAtTheEnd(marks map[link.Mark]bool) map[script.Name]script.Revision {
	running := map[script.Name]script.Revision{}
	if len(marks) == 0 {
		return running
	}
	for r := range t.pool.cfg.Node.Table.All() {
		if r.Name.Tenant != t.name {
			continue
		}
		if marks[link.MarkScript(r.Name)] || marks[link.MarkSource(r.Active.Digest)] {
			running[r.Name] = r.Revision
		}
	}
	return running
}

// released ends the quarantine of scripts that have another release, and reports
// whether it ended one. t.mu is held.
func (t *tenant) released(c *change) bool {
	lifted := false
	for _, o := range c.put {
		if o.Release != nil && t.blame.released(o.Release.Name, o.Release.Revision) {
			lifted = true
		}
	}
	for _, q := range t.blame.list() {
		for _, key := range c.gone {
			if key == wire.ReleaseKey(q.Script) && t.blame.released(q.Script, 0) {
				lifted = true
			}
		}
	}
	if lifted {
		t.list()
	}
	return lifted
}

// tellBlame tells the process who is in quarantine. t.mu is held.
func (t *tenant) tellBlame(p *process) {
	ctx, cancel := context.WithTimeout(t.ctx, tellPatience)
	defer cancel()
	if _, err := p.client.Quarantine(ctx, t.blame.request()); err != nil {
		p.kill(unresponsive) // the next one is told first
	}
}

// quarantined returns who is in quarantine, without waiting for what holds t.mu.
func (t *tenant) quarantined() []Quarantined {
	if list := t.listed.Load(); list != nil {
		return *list
	}
	return nil
}

// list says who is in quarantine from now on. t.mu is held.
func (t *tenant) list() {
	list := t.blame.list()
	t.listed.Store(&list)
	t.pool.cfg.Changed()
}

func (t *tenant) status() Status {
	s := Status{Tenant: t.name}
	if p := t.state.Load().process; p != nil {
		s.PID, s.Memory = p.cmd.Process.Pid, p.resident()
	}
	return s
}
