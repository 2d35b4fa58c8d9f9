package execute

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of the calls that wait for their shadow.
const (
	maxShadows = 64
	// maxTenantShadows are those of one tenant, so that others have room.
	maxTenantShadows = maxShadows / 2
	// maxShadowBytes bounds the arguments and results of one call.
	maxShadowBytes = 64 << 10
	// shadowThousandths is the processor time of all shadows, in thousandths of that of the process.
	shadowThousandths = 50
	thousand          = 1000
	// maxShadowCharge bounds what a call pays for beside its turns: it may have waited for a source.
	maxShadowCharge = time.Second
	// shadowMemory is by how much the memory of a shadow is less than that of its tenant's calls.
	shadowMemory = 4
	// shadowPatience is how long a shadow waits for a free turn.
	shadowPatience = 200 * time.Millisecond
)

// shadowTenant is whom the gate accounts for shadows. No tenant has the name.
const shadowTenant = "\x00shadow"

// shadows run candidates after the live answers of calls. All run on one goroutine, which ends when no
// call waits, and in turns that no other call wants.
type shadows struct {
	executor *Executor
	before   func(*cache.Release) (leave func(), ok bool)
	settings script.TenantSettings
	turn     admission.Turn
	kept     shadow.Kept
	// apart is the time of the present call in turns, and of waiting for them.
	apart time.Duration
	began bool // a version has run in the shadow of the present call

	mu      sync.Mutex
	waiting []*shadowed
	running bool
}

// shadowed is a call whose answer has left.
type shadowed struct {
	release    *cache.Release
	onResponse bool
	start      time.Time
	args       [][]byte
	live       ending
}

// ending is what a call returned.
type ending struct {
	values [][]byte
	err    error
	ran    time.Duration
	logs   []string
}

func (s *shadows) init(x *Executor, before func(*cache.Release) (func(), bool)) {
	s.executor, s.before = x, before
	if before == nil {
		s.before = func(*cache.Release) (func(), bool) { return func() {}, true }
	}
	s.settings = script.TenantSettings{CPU: shadowCPU(&script.TenantSettings{}), Concurrency: 1}
}

// offer has the call shadowed, if it is one of those and there is room.
func (s *shadows) offer(c *call, asked *gateway.Call, reply *gateway.Reply, err error, start time.Time) {
	r := c.ended.Release
	if reply.Version != r.Runs.Number || strings.Contains(asked.Script, "@") || !comparable(err) || !r.Shadows() {
		return
	}
	size := reply.Bytes()
	for _, arg := range asked.Args {
		size += len(arg)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > maxShadowBytes || s.full(r.Name.Tenant) {
		r.Shadow.Drop()
		return
	}
	job := &shadowed{release: r, onResponse: asked.OnResponse, start: start, live: ending{err: err, ran: c.ended.Ran}}
	buf := make([]byte, 0, size)
	keep := func(value []byte) []byte {
		begin := len(buf)
		buf = append(buf, value...)
		return buf[begin:]
	}
	for _, arg := range asked.Args {
		job.args = append(job.args, keep(arg))
	}
	for i := range reply.Len() {
		job.live.values = append(job.live.values, keep(reply.Value(i)))
	}
	s.waiting = append(s.waiting, job)
	if !s.running {
		s.running = true
		go s.run()
	}
}

// full reports whether there is no room for another call of the tenant.
func (s *shadows) full(tenant string) bool {
	n := 0
	for _, job := range s.waiting {
		if job.release.Name.Tenant == tenant {
			n++
		}
	}
	return n >= maxTenantShadows || len(s.waiting) >= maxShadows
}

// comparable reports whether the call ended for a reason that is the script's.
func comparable(err error) bool {
	if err == nil {
		return true
	}
	switch kindOf(err) {
	case script.Script, script.Limit:
		return true
	}
	return false
}

// run shadows the calls that wait.
func (s *shadows) run() {
	for job := s.next(); job != nil; job = s.next() {
		live := s.executor.table.Get(job.release.Name.String())
		if live == nil || !live.Enabled || live.Shadow != job.release.Shadow {
			continue // the step is over
		}
		if !s.try(job) {
			job.release.Shadow.Drop()
		}
	}
}

// try shadows the call. The processor time of all shadows includes what that takes between the turns:
// loading programs, and comparing and masking results. No panic ends the process.
func (s *shadows) try(job *shadowed) (ok bool) {
	begun := time.Now()
	s.apart, s.began = 0, false
	defer func() {
		if v := recover(); v != nil {
			s.executor.log.Error("a call in the shadow panicked", "script", job.release.Name.String(), "panic", v, "stack", string(debug.Stack()))
			ok = false
		}
		s.executor.gate.Charge(shadowTenant, &s.settings, min(time.Since(begun)-s.apart, maxShadowCharge))
	}()
	return s.shadow(job)
}

func (s *shadows) next() *shadowed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting, s.running = nil, false
		return nil
	}
	job := s.waiting[0]
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return job
}

// shadow runs the candidate and compares what it returns with the live results. If they differ, the
// active version runs again in the same conditions, and its results are what is compared: the live ones
// depend on another moment. ok is false if there was no time.
func (s *shadows) shadow(job *shadowed) (ok bool) {
	s.kept.Use(job.release.Shadow)
	r, seed, state := job.release, rand.Uint64(), job.release.Shadow.State.Fork()
	active := &job.live
	rerun := func() bool {
		active = s.once(job, r, state, seed)
		return active != nil
	}
	latency := r.ComparesLatency()
	first := latency && seed%2 == 0 // so that neither version always finds warm caches
	if first && !rerun() {
		return false
	}
	candidate := s.once(job, r.Split, &r.Shadow.State, seed)
	if candidate == nil {
		return false
	}
	outcome, paths := compared(&job.live, candidate)
	if !first && (latency || outcome != shadow.Equal) && !rerun() {
		return false
	}
	if outcome != shadow.Equal {
		outcome, paths = compared(active, candidate)
	}
	if outcome != shadow.Equal {
		r.Shadow.Differ(s.sample(job, active, candidate, paths))
	}
	r.Split.Note(script.KindOf(candidate.err), candidate.ran)
	r.Note(script.KindOf(job.live.err), active.ran)
	r.Shadow.Note(outcome, slower(candidate.ran, active.ran))
	return true
}

// slower reports whether the candidate took at least twice as long, and more than the clock's noise.
func slower(candidate, active time.Duration) bool {
	const noise = 100 * time.Microsecond
	return candidate >= 2*active && candidate-active > noise
}

// once runs what runs of the release with the arguments of the call; nil if it had no time. Calls with
// the same seed have the same random numbers and time.
func (s *shadows) once(job *shadowed, r *cache.Release, state *shadow.State, seed uint64) *ending {
	x := s.executor
	var reply gateway.Reply
	loaded, err := s.load(r, &reply)
	if err != nil {
		return nil
	}
	settings := x.tenants(r.Name.Tenant).OrDefaults()
	limits := loaded.Limits.AtMost(settings.Limits)
	timeout := limits.Timeout
	limits.Timeout += shadowPatience // the time in which others had its turn is not its own
	host := &shadowHost{Host: x.host, state: state, tenant: r.Name.Tenant, now: job.start}
	if set := r.Staged(r.Runs.Number); set != nil && x.host != nil {
		host.Host = &staged{Host: x.host, set: set, contents: x.contents}
	}
	inv := engine.Invocation{
		Tenant: shadowTenant + r.Name.Tenant, Script: r.Name.Script, Version: reply.Version, OnResponse: job.onResponse, Args: job.args,
		Config: loaded.Config, Limits: limits, Memory: settings.MemoryBytes / shadowMemory, Turn: &s.turn,
		Clock: func() time.Time { return job.start }, Random: rand.NewPCG(seed, seed),
	}
	if x.host != nil {
		inv.Host = host
	}
	s.settings.CPU = shadowCPU(&settings)
	ran, err := s.inTurn(r, loaded.program, &inv, &reply)
	used := s.turn.Used()
	switch {
	case !ran:
		return nil
	case used >= timeout:
		err = script.Errorf(script.Timeout, "", "it ran for %v, the longest that it may", timeout)
	case err != nil && !comparable(err): // also one that ran out of time while others had its turn
		return nil
	}
	e := &ending{err: err, ran: used, logs: host.logs}
	for i := range reply.Len() {
		e.values = append(e.values, reply.Value(i))
	}
	return e
}

var errBarred = script.Errorf(script.Unavailable, "script", "the script does not run in the shadow now")

// load is Executor.load of what runs of the release.
func (s *shadows) load(r *cache.Release, reply *gateway.Reply) (loaded, error) {
	leave, ok := s.before(r)
	if !ok {
		return loaded{}, errBarred
	}
	defer leave()
	return s.executor.load(context.Background(), r, 0, reply)
}

// inTurn runs the program once a turn is free; ran is false if none is.
func (s *shadows) inTurn(r *cache.Release, p engine.Program, inv *engine.Invocation, reply *gateway.Reply) (ran bool, err error) {
	ctx, begun := context.Background(), time.Now()
	defer func() { s.apart += time.Since(begun) }()
	call := &admission.Call{Tenant: shadowTenant, Settings: &s.settings, Timeout: inv.Limits.Timeout, Background: true, GoesOn: s.began}
	if !s.enter(ctx, call) {
		return false, nil
	}
	defer s.turn.Leave()
	s.began = true
	leave, ok := s.before(r)
	if !ok {
		return false, nil
	}
	defer leave()
	return true, p.Run(ctx, inv, &reply.Result)
}

// enter waits for a free turn.
func (s *shadows) enter(ctx context.Context, call *admission.Call) bool {
	for wait := time.Millisecond; ; wait *= 2 {
		if s.executor.gate.Enter(ctx, &s.turn, call) == nil {
			return true
		}
		if wait > shadowPatience {
			return false
		}
		<-time.After(wait)
	}
}

// shadowCPU is the processor time of all shadows of the process, in thousandths of one processor. A tenant
// with a process of its own has no more than its share of its own.
func shadowCPU(settings *script.TenantSettings) int {
	all := thousand * runtime.GOMAXPROCS(0)
	if settings.Isolation == script.IsolationProcess && settings.CPU > 0 {
		all = min(all, settings.CPU)
	}
	return max(all*shadowThousandths/thousand, 1)
}

// Bounds of what a shadow logs.
const (
	maxShadowLogs    = 10
	maxShadowLogLine = 256     // in a sample
	maxShadowLogText = 4 << 10 // until it is masked
)

// shadowHost is the Host of calls in the shadow. They read the live values, and change nothing.
type shadowHost struct {
	engine.Host
	state  *shadow.State
	tenant string
	now    time.Time
	logs   []string
}

// Log implements engine.Host.
func (h *shadowHost) Log(_ *engine.Invocation, level engine.Level, message string) {
	if len(h.logs) < maxShadowLogs {
		h.logs = append(h.logs, string(level)+" "+script.CutText(message, maxShadowLogText))
	}
}

// Value implements engine.Host.
func (h *shadowHost) Value(_, key string) ([]byte, bool, error) { return h.Host.Value(h.tenant, key) }

// Keys implements engine.Host.
func (h *shadowHost) Keys(_, prefix, after string, limit int) []string {
	return h.Host.Keys(h.tenant, prefix, after, limit)
}

// Count implements engine.Host.
func (h *shadowHost) Count(_, counter string, n float64) (float64, error) {
	return h.state.Count(counter, n)
}

// Take implements engine.Host.
func (h *shadowHost) Take(_, bucket string, n, rate, burst float64) (bool, time.Duration) {
	return h.state.Take(h.now, bucket, n, rate, burst)
}
