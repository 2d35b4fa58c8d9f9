package worker

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tenant is one that has a process.
type tenant struct {
	pool    *Pool
	name    string
	sockets sockets
	state   atomic.Pointer[state]
	calls   atomic.Int64 // that are being forwarded

	ctx      context.Context
	cancel   context.CancelFunc
	stopped  chan struct{}
	another  chan struct{}          // holds an element when the settings ask for another process
	last     atomic.Pointer[change] // of the last commit, which may be neither told nor live in the agent
	listed   atomic.Pointer[[]Quarantined]
	grace    atomic.Pointer[context.Context]
	telling  telling
	patience *rate.Limiter   // has an element for each nanosecond that changes wait for it
	said     *rate.Sometimes // that lines were left out
	digests  sync.RWMutex    // guards retained
	retained map[script.Digest]struct{}

	mu       sync.Mutex // guards what follows; held while a process takes over and while it gets a change
	settings script.TenantSettings
	blame    *blame
	filtered bool // the process may lack retained versions that no publisher has signed
	enough   int  // digests, before those that are not retained any more are dropped
}

// state is which process serves, if one does. It is immutable.
type state struct {
	process *process      // nil while there is none
	refused error         // why there is none, if it is more than a matter of milliseconds
	has     int           // number of the last change that the process has, at least
	late    int           // of the last one that it should have: calls that come now wait for it
	changed chan struct{} // closed when another state is
}

// held reports whether calls that come now wait for a change.
func (s *state) held() bool { return s.has < s.late }

// newTenant returns a tenant that has no process until it is started.
func newTenant(p *Pool, name string, s script.TenantSettings, c *change) *tenant {
	t := &tenant{
		pool: p, name: name, settings: s, enough: manyDigests, blame: newBlame(p.cfg.Quarantine), said: &rate.Sometimes{Interval: time.Second},
		sockets: sockets{troubles: map[string]string{}},
		stopped: make(chan struct{}), another: make(chan struct{}, 1), retained: map[script.Digest]struct{}{},
		patience: rate.NewLimiter(rate.Limit(promptly), int(promptly)), // a tenth of the time
		telling:  telling{renewed: map[script.Name]int{}, lacking: map[string]lack{everything: {}}},
	}
	t.last.Store(c)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.state.Store(&state{changed: make(chan struct{})})
	return t
}

// start gives the tenant a process as soon as there is one. The pool has the tenant by
// then: the host counts the tenants when it starts spares.
func (t *tenant) start() {
	if len(t.pool.cfg.Command) == 0 {
		t.pool.cfg.Log.Error("a tenant asks for a process of its own, which this agent is not set up to give: its calls are refused", "tenant", t.name)
		t.become(nil, script.Errorf(script.Unavailable, "tenant", "tenant %s asks for a process of its own, which this agent is not set up to give: run agentd, or set the tenant's isolation to %s", t.name, script.IsolationShared))
		close(t.stopped)
		return
	}
	t.listen()
	go t.run()
}

// become puts another state in place of the one before.
func (t *tenant) become(p *process, refused error) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	t.swap(&state{process: p, refused: refused})
}

// run keeps a process in place until the tenant leaves.
func (t *tenant) run() {
	defer close(t.stopped)
	var retiring sync.WaitGroup
	defer retiring.Wait()
	ended := time.Time{} // the process before, if it died
	var old *process     // that still serves until the next one does
	deaths := rate.NewLimiter(deathsASecond, deathsAtOnce)
	for {
		p := t.place()
		if old != nil {
			ending := old // the next one is watched meanwhile
			retiring.Go(func() { t.retireInTime(ending) })
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
		case fateDied:
			ended = time.Now()
			t.become(nil, nil)
			t.reap(p)
			t.pause(deaths.Reserve().Delay())
		case fateReplace:
			old, ended = p, time.Time{}
			t.pool.metrics.restarts.WithLabelValues(string(reasonSettings)).Inc()
		case fateLeave:
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
	fateDied fate = iota
	fateReplace
	fateLeave
)

// expireEvery is how often it is seen whether a quarantine is over, and whether sockets
// can be opened that could not before.
const expireEvery = time.Second

func (t *tenant) watch(p *process) fate {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return fateDied
		case <-t.another:
			return fateReplace
		case <-t.ctx.Done():
			return fateLeave
		case now := <-tick.C:
			t.mu.Lock()
			if t.blame.expire(now) {
				t.list()
				t.tellBlame(p)
			}
			t.mu.Unlock()
			if t.listen() { // one that has them, too
				return fateReplace
			}
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
			err = t.giveUp(p, err)
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

// giveUp ends a process that cannot be made to serve, and returns why with its last words.
// One that died as it began to serve may have been killed by a script.
func (t *tenant) giveUp(p *process, err error) error {
	select {
	case <-p.ended:
	case <-t.ctx.Done():
	case <-time.After(unreachableFor):
	}
	p.kill(reasonFailed)
	<-p.ended
	if t.ctx.Err() != nil {
		p.close()
		return err
	}
	first, _ := p.output.crash()
	err = fmt.Errorf("%s; it ended: %s, %s", cut(err.Error(), maxSaid), p.state(), first)
	t.reap(p)
	return err
}

// handOverPatience bounds each step of the hand-over.
const handOverPatience = 5 * time.Second

// handOver makes the process the tenant's, with all that is live, and has it serve.
func (t *tenant) handOver(p *process) error {
	if err := t.giveAll(t.ctx, p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, handOverPatience)
	defer cancel()
	// Scripts run from here on, and may keep the process from answering: the fleet's
	// changes do not wait for that.
	_, err := p.client.Serve(ctx, &workerv1.ServeRequest{})
	switch {
	case err == nil:
		p.serves.Store(true)
		t.begun(true)
	case t.ctx.Err() == nil: // one that leaves is drained
		t.begun(false)
		return fmt.Errorf("begin to serve: %w", wire.FromStatus(err))
	}
	return nil
}

// giveAll gives the process all that is live and the last change. From then on the process
// gets the tenant's changes and calls.
func (t *tenant) giveAll(ctx context.Context, p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	cfg := t.pool.cfg
	p.look(cfg.Node.Position(time.Now()), false, time.Now())
	live, last := t.takeUp()
	t.noteAll(last)
	if err := p.assign(t, t.settings, &workerv1.Assignment{
		Tenant: t.name, MemoryBytes: t.settings.MemoryBytes, Processors: processors(t.settings.CPU),
		Access: t.access(), MaxWaiting: int64(cfg.MaxWaiting), Quarantine: t.blame.request(), Agent: cfg.Node.Agent.Name, Labels: cfg.Node.Agent.Labels,
		MetricScripts: int64(cfg.MetricScripts), ClassicHistograms: cfg.ClassicHistograms,
		Tracing: tracingOf(cfg.Traces),
	}); err != nil {
		return err
	}
	for part := range parts(t.handed(live, last)) {
		ctx, cancel := context.WithTimeout(ctx, handOverPatience)
		err := tell(ctx, p, part)
		if cancel(); err != nil {
			return fmt.Errorf("hand over what is live: %w", err)
		}
	}
	t.begin(p)
	number := 0
	if last != nil {
		number = last.number
	}
	t.finish(number, true)
	return nil
}

// access returns the rules for callers on the tenant's own sockets. The process has nothing of other tenants.
func (t *tenant) access() []string {
	if _, ok := t.pool.cfg.Groups[t.name]; ok {
		return []string{gateway.Everybody} // who is in the group
	}
	return t.pool.cfg.Access
}

// processors that a share of them takes, in thousandths; 0 is all.
func processors(cpu int) int32 {
	all := runtime.GOMAXPROCS(0)
	if cpu == 0 {
		return int32(all)
	}
	return int32(min(all, (cpu+999)/1000))
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

// retireInTime retires a process that another has replaced, at the latest when the tenant
// that leaves has no more time.
func (t *tenant) retireInTime(p *process) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(t.ctx, func() {
		<-(*t.grace.Load()).Done()
		cancel()
	})
	defer stop()
	t.retire(ctx, p)
}

// retire ends a process that is no longer needed.
func (t *tenant) retire(ctx context.Context, p *process) {
	const longest = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	p.drain(ctx)
	p.close()
}

// serves reports whether the tenant's process says that it does. It may get calls a
// little earlier.
func (t *tenant) serves() bool {
	p := t.state.Load().process
	return p != nil && p.serves.Load()
}

func (t *tenant) status() Status {
	s := Status{Tenant: t.name}
	if p := t.state.Load().process; p != nil {
		s.PID, s.Memory = p.cmd.Process.Pid, p.resident()
	}
	return s
}
