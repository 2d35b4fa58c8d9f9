package worker

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// home answers one process. It gives it what is its tenant's and nothing else.
type home struct {
	workerv1.UnimplementedHomeServer
	cfg    Config
	server *grpcguard.Server
	tenant atomic.Pointer[tenant] // nil until the process has one
	asked  *rate.Limiter          // requests; who asks for more a second waits
	kept   shadow.Kept
	sent   *rate.Limiter // bytes of contents
	ran    *rate.Limiter // microseconds that calls ran: of each second as many as there are processors
}

// Bounds of what a process may ask of the agent. What one needs is far below: each source
// and each value once, and to bring lines a few times a second.
const (
	maxAsked    = 8       // at a time
	maxRequest  = 1 << 20 // bytes: the largest is the lines that go together
	asksASecond = 1000    // and as many at once
	logsASecond = 100     // of them may bring lines
	sentASecond = 64 << 20

	tracesASecond = 20 // of them may bring calls that are traced
	maxTraced     = 64 // calls of one request

	maxLogged      = 64 // lines of one request
	maxLoggedLine  = 8 << 10
	maxTraceparent = 256
)

func newHome(cfg Config) *home {
	h := &home{
		cfg: cfg, server: link.NewServer(grpc.MaxConcurrentStreams(maxAsked), grpc.MaxRecvMsgSize(maxRequest)),
		asked: rate.NewLimiter(asksASecond, asksASecond), sent: rate.NewLimiter(sentASecond, sentASecond),
		ran: rate.NewLimiter(rate.Limit(runtime.NumCPU()*1e6), runtime.NumCPU()*1e6*int(ranAtOnce/time.Second)),
	}
	workerv1.RegisterHomeServer(h.server, h)
	return h
}

// Content implements workerv1.HomeServer.
func (h *home) Content(ctx context.Context, req *workerv1.ContentRequest) (*workerv1.ContentResponse, error) {
	if err := h.asked.Wait(ctx); err != nil {
		return nil, err
	}
	d, err := wire.ToDigest(req.GetDigest())
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	t := h.tenant.Load()
	if t == nil || !t.retains(d) {
		return nil, wire.ToStatus(script.Errorf(script.NotFound, "digest", "nothing of the tenant has the digest %v", d))
	}
	content, err := h.cfg.Node.Content(ctx, d)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	if err := h.sent.WaitN(ctx, min(len(content), sentASecond)); err != nil {
		return nil, err
	}
	return &workerv1.ContentResponse{Content: content}, nil
}

// Log implements workerv1.HomeServer.
func (h *home) Log(ctx context.Context, req *workerv1.LogRequest) (*workerv1.LogResponse, error) {
	if err := h.asked.WaitN(ctx, asksASecond/logsASecond); err != nil {
		return nil, err
	}
	t := h.tenant.Load()
	if t == nil || h.cfg.Host == nil {
		return &workerv1.LogResponse{}, nil
	}
	lines := req.GetLines()
	for _, line := range lines[:min(len(lines), maxLogged)] {
		// The process may say what it likes; but a line is of a script that there is, and of
		// this tenant.
		r := h.cfg.Node.Table.Get(t.name + "/" + line.GetScript())
		if r == nil {
			continue
		}
		inv := engine.Invocation{
			Tenant: t.name, Script: r.Name.Script, Version: line.GetVersion(), Traceparent: cut(line.GetTraceparent(), maxTraceparent),
			Limits: r.Limits.AtMost(h.cfg.Node.Tenants.Settings(t.name).Limits),
		}
		h.cfg.Host.Log(&inv, level(line.GetLevel()), cut(line.GetMessage(), maxLoggedLine))
	}
	if n := req.GetDropped(); n > 0 && t.sayDropped() {
		h.cfg.Log.Warn("scripts of a tenant log more than it may; lines were left out", "tenant", t.name, "lines", n)
	}
	return &workerv1.LogResponse{}, nil
}

// maxCounts bounds what one request says of calls, and of how many.
const (
	maxCounts = 1000
	maxCalls  = 1 << 32
)

// Count implements workerv1.HomeServer. What the process says counts for its own tenant's
// candidates, if they run here.
func (h *home) Count(ctx context.Context, req *workerv1.CountRequest) (*workerv1.CountResponse, error) {
	if err := h.asked.Wait(ctx); err != nil {
		return nil, err
	}
	t := h.tenant.Load()
	if t == nil {
		return &workerv1.CountResponse{}, nil
	}
	counts := req.GetCounts()
	for _, c := range counts[:min(len(counts), maxCounts)] {
		r := h.cfg.Node.Table.Get(t.name + "/" + c.GetScript())
		if r == nil || r.Candidate == nil || r.Candidate.Version.Number != c.GetVersion() || r.Candidate.Attempt != c.GetAttempt() {
			continue // of an attempt that is over
		}
		h.addShadow(r, c)
		if besides := wire.ToStepCalls(c.GetActiveCalls()); besides != nil && r.Besides() != nil && besides.Calls() <= maxCalls {
			r.Besides().Add(*besides)
		}
		if r = r.OfCandidate(); r.Calls != nil {
			calls := min(c.GetCalls(), maxCalls)
			r.Calls.Add(calls, min(c.GetFailedCalls(), calls))
		}
		if step := wire.ToStepCalls(c.GetStepCalls()); step != nil && r.StepCalls != nil && step.Calls() <= maxCalls {
			r.StepCalls.Add(*step)
		}
	}
	return &workerv1.CountResponse{}, nil
}

// addShadow adds what the process found in the shadow of calls, unless that is of a step that is over.
func (h *home) addShadow(r *cache.Release, c *workerv1.Count) {
	calls := wire.ToShadowCalls(c.GetShadow())
	if r.Shadow == nil || calls != nil && calls.Step != r.Shadow.Step {
		return
	}
	if calls != nil && calls.Compared() <= maxCalls && calls.Dropped <= maxCalls {
		r.Shadow.Add(*calls)
	}
	if c.GetFindings() == nil {
		return
	}
	h.kept.Use(r.Shadow)
	found := wire.ToFindings(c.GetFindings())
	r.Shadow.AddFindings(&found)
}

// Bounds of what one request says of all calls: of how many scripts, and for how long they ran before it was said.
const (
	maxScripts = 64
	ranAtOnce  = 10 * time.Second
)

// Calls implements workerv1.HomeServer. What the process says counts for its own tenant, and no call runs for longer
// than there are processors.
func (h *home) Calls(ctx context.Context, req *workerv1.CallsRequest) (*workerv1.CallsResponse, error) {
	if err := h.asked.Wait(ctx); err != nil {
		return nil, err
	}
	t := h.tenant.Load()
	if t == nil || h.cfg.Calls == nil {
		return &workerv1.CallsResponse{}, nil
	}
	scripts := req.GetScripts()
	for _, m := range scripts[:min(len(scripts), maxScripts)] {
		f, ok := link.ToFigures(m)
		if !ok {
			continue
		}
		f.Ran = h.couldRun(f.Ran)
		h.cfg.Calls.Bring(script.Name{Tenant: t.name, Script: m.GetScript()}, &f)
	}
	return &workerv1.CallsResponse{}, nil
}

// couldRun returns so much of the time as calls can have run, since that was said last.
func (h *home) couldRun(said time.Duration) time.Duration {
	now := time.Now()
	most := int64(max(h.ran.TokensAt(now), 0))
	believed := min(said.Microseconds(), most)
	if !h.ran.AllowN(now, int(believed)) { // another request had it
		believed = 0
	}
	return min(said, time.Duration(believed+1)*time.Microsecond)
}

// Trace implements workerv1.HomeServer.
func (h *home) Trace(ctx context.Context, req *workerv1.TraceRequest) (*workerv1.TraceResponse, error) {
	if err := h.asked.WaitN(ctx, asksASecond/tracesASecond); err != nil {
		return nil, err
	}
	t, traces := h.tenant.Load(), h.cfg.Traces
	if t == nil || traces == nil {
		return &workerv1.TraceResponse{}, nil
	}
	traces.Dropped(min(req.GetDropped(), maxCalls))
	calls := req.GetCalls()
	for _, m := range calls[:min(len(calls), maxTraced)] {
		if c, ok := t.traced(m, time.Now()); ok {
			traces.Record(c)
		}
	}
	return &workerv1.TraceResponse{}, nil
}

// level reads a level; what is none is Info.
func level(s string) engine.Level {
	switch l := engine.Level(s); l {
	case engine.Warn, engine.Error:
		return l
	}
	return engine.Info
}
