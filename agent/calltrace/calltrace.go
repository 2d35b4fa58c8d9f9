// Package calltrace makes the spans of calls, as children of the caller's spans. A span has the version that ran, and
// the outcome. A call that is not recorded costs one look at the caller's context, and no memory.
//
// Callers are not trusted: they can send the context of a recorded trace with each call. So the spans per second are
// bounded, and one tenant gets at most half of them.
package calltrace

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a Tracer.
type Config struct {
	// Tracer must record every span: calltrace samples before it makes one.
	Tracer trace.Tracer
	// Emit, if not nil, gets the recorded calls in place of Tracer.
	Emit func(c *Call)
	// Sampling selects the calls to record.
	Sampling tracecontext.Sampling
	// Rate is the maximum number of spans per second.
	Rate int
	// Dropped counts spans above Rate.
	Dropped func(n uint64)
	// Continue is set if calls continue the traces of their callers.
	Continue bool
}

// Tracer makes the spans of calls. It is safe for concurrent use.
type Tracer struct {
	cfg     Config
	all     *rate.Limiter
	tenants [tenantSlots]*rate.Limiter
	changes changes

	unsampled bool // never record calls of callers that do not sample
}

// tenantSlots is the number of limiters for tenants. Several tenants can share one.
const tenantSlots = 64

var _ execute.Observer = (*Tracer)(nil)

// New returns a Tracer.
func New(cfg Config) *Tracer {
	t := &Tracer{cfg: cfg, all: rate.NewLimiter(rate.Limit(cfg.Rate), cfg.Rate), unsampled: cfg.Sampling.Parent && cfg.Continue}
	share := max(cfg.Rate/2, 1)
	for i := range t.tenants {
		t.tenants[i] = rate.NewLimiter(rate.Limit(share), share)
	}
	return t
}

// Call is a call that has ended.
type Call struct {
	// Name is the script. If there is no such script, Name is zero, and Asked is the name in the call.
	Name    script.Name
	Asked   string
	Version uint64 // the version that ran, or 0
	Digest  script.Digest
	// OnResponse is set for calls of the script's on_response.
	OnResponse bool
	// Protocol and Caller are the origin of the call.
	Protocol, Caller string
	// Err is the error of the call, or nil.
	Err *script.Error
	// Kind of Err.
	Kind                    script.Kind
	Start                   time.Time
	Took                    time.Duration
	Instructions, Allocated uint64
	// Trace is the caller's context; zero if none.
	Trace tracecontext.Context
}

// Ended implements execute.Observer.
func (t *Tracer) Ended(_ context.Context, e *execute.Ended) error {
	if t.unsampled && tracecontext.Unsampled(e.Call.Traceparent) { // fast path for gateways that sample
		return nil
	}
	trace := t.parent(e.Call.Traceparent)
	sampled := t.cfg.Sampling.Sampled(trace)
	if !sampled && (trace.Valid() || e.Release == nil || !t.changes.awaits(e.Release.Name, e.Reply.Version, e.Start)) {
		return nil
	}
	c := Call{
		Version: e.Reply.Version, Digest: e.Reply.Digest, OnResponse: e.Call.OnResponse, Protocol: e.Call.Origin.Protocol, Caller: e.Call.Origin.Caller,
		Kind: e.Kind, Start: e.Start, Took: e.Took, Instructions: e.Used.Instructions, Allocated: e.Used.Allocated, Trace: trace,
	}
	if e.Err != nil {
		c.Err = script.AsError(e.Err)
	}
	if e.Release != nil {
		c.Name = e.Release.Name
	} else {
		c.Asked = strings.Clone(tracecontext.Text(e.Call.Script)) // the text is valid only during the call
	}
	t.record(&c, sampled)
	return nil
}

// parent returns the trace context of the caller; zero if none or if Continue is not set.
func (t *Tracer) parent(traceparent string) (c tracecontext.Context) {
	if traceparent != "" && t.cfg.Continue {
		c, _ = tracecontext.Parse(traceparent)
	}
	return c
}

// Choice returns the sampling, the rate and Continue, for processes that select the calls to record themselves.
func (t *Tracer) Choice() (sampling tracecontext.Sampling, rate int, continues bool) {
	return t.cfg.Sampling, t.cfg.Rate, t.cfg.Continue
}

// Dropped counts calls that another process dropped because of the rate.
func (t *Tracer) Dropped(n uint64) { t.cfg.Dropped(n) }

// Record makes a span of a sampled call, if the rate allows it.
func (t *Tracer) Record(c *Call) { t.record(c, true) }

// record makes a span of the call, if the rate allows it. If the caller has no trace, the first call of a script after a
// traced change is part of the trace of the change.
func (t *Tracer) record(c *Call, sampled bool) {
	change, first := t.changes.of(c.Name, c.Version, c.Start)
	above := c.Trace
	if !above.Valid() {
		if first {
			above = tracecontext.Of(change)
		} else if !sampled {
			return
		}
	}
	if !t.admit(c.Name.Tenant) {
		t.cfg.Dropped(1)
		return
	}
	if t.cfg.Emit != nil {
		t.cfg.Emit(c)
		return
	}
	options := make([]trace.SpanStartOption, 0, 4)
	options = append(options, trace.WithTimestamp(c.Start), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(c.attributes()...))
	if change.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: change, Attributes: changeLink}))
	}
	_, span := t.cfg.Tracer.Start(tracecontext.With(context.Background(), above), c.spanName(), options...)
	if c.Err != nil {
		span.SetStatus(codes.Error, tracecontext.Text(c.Err.Message))
	}
	span.End(trace.WithTimestamp(c.Start.Add(c.Took)))
}

// changeLink describes the link of a call to an activation.
var changeLink = []attribute.KeyValue{attribute.String("scriptorium.link", "activation")}

// admit reports whether the limits allow one more span of the tenant. It uses the current time, not the start of the
// call: a limiter whose time goes back admits too much.
func (t *Tracer) admit(tenant string) bool {
	now := time.Now()
	slot := uint32(2166136261) // FNV-1a
	for i := range len(tenant) {
		slot = (slot ^ uint32(tenant[i])) * 16777619
	}
	return t.tenants[slot%tenantSlots].AllowN(now, 1) && t.all.AllowN(now, 1)
}

func (c *Call) spanName() string {
	if c.Name.IsZero() {
		return "call"
	}
	return "call " + c.Name.String()
}

// attributes returns the version that ran, and the outcome. The only texts of the caller are the requested name and the
// error.
func (c *Call) attributes() []attribute.KeyValue {
	outcome := "OK"
	if c.Err != nil {
		outcome = string(c.Kind)
	}
	list := make([]attribute.KeyValue, 0, 16)
	if c.Name.IsZero() {
		list = append(list, attribute.String("scriptorium.asked", c.Asked))
	} else {
		list = append(list, attribute.String("scriptorium.tenant", c.Name.Tenant), attribute.String("scriptorium.script", c.Name.Script))
	}
	if c.Version != 0 {
		list = append(list, attribute.Int64("scriptorium.version", int64(c.Version)), //nolint:gosec // the registry's number
			attribute.String("scriptorium.digest", c.Digest.String()))
	}
	list = append(list,
		attribute.String("scriptorium.outcome", outcome), attribute.Int64("scriptorium.instructions", int64(c.Instructions)), //nolint:gosec // bounded by the script's limits
		attribute.Int64("scriptorium.allocated_bytes", int64(c.Allocated)), //nolint:gosec // likewise
		attribute.String("scriptorium.protocol", c.Protocol), attribute.String("scriptorium.caller", tracecontext.Text(c.Caller)),
	)
	if c.OnResponse {
		list = append(list, attribute.Bool("scriptorium.on_response", true))
	}
	if e := c.Err; e != nil {
		list = append(list, attribute.String("error.type", string(c.Kind)))
		if e.Field != "" {
			list = append(list, attribute.String("scriptorium.error.field", tracecontext.Text(e.Field)))
		}
		if e.Line > 0 {
			list = append(list, attribute.Int("code.line.number", e.Line))
		}
		if e.Column > 0 {
			list = append(list, attribute.Int("code.column.number", e.Column))
		}
	}
	return list
}
