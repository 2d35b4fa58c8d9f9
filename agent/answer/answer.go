// Package answer answers the queries of registries. It calls the handler for the kind of a query, and sends the
// handler's answer in parts. It answers each query once, and ignores old queries. It limits the rate of queries, and
// the number in progress.
package answer

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// MaxPart bounds a part of an answer, in bytes. It is far below the default limit of a message in NATS (1 MiB).
const MaxPart = 256 << 10

// Bounds of answers.
const (
	maxInProgress = 16
	maxTimeout    = 3 * time.Minute
	perSecond     = 20 // queries
	atOnce        = 60 // burst of queries
	// tenantShare divides these limits for the queries about one tenant.
	tenantShare = 2
	// tenantSlots is the number of limits for tenants. Several tenants can share one.
	tenantSlots = 64
	warnEvery   = time.Minute
	// paceBytes bounds the bytes per second that the agent sends, and paceBurst a burst. The registries receive answers
	// and the feed over the same connection to NATS, which is closed if it is blocked for two seconds.
	paceBytes = 8 << 20
	paceBurst = 1 << 20
	// maxAge bounds the age of a query, including the difference of the clocks.
	maxAge = 5 * time.Minute
	// maxKnown is the number of ids in memory: all queries that the rate allows within maxAge.
	maxKnown = 2*60*5*perSecond + atOnce
	// maxErrorText bounds a text of an error in an answer, in bytes.
	maxErrorText = 1024
)

// errFull is the error of a part that does not fit into the answer.
var errFull = script.Errorf(script.Limit, "", "the answer is larger than the registry takes: ask for less")

// Send sends one part of an answer: a message of the answer's kind. It waits until the agent's rate limit allows the
// part. It fails if the part does not fit into the answer, or if ctx is done.
type Send func(*eventv1.Answer) error

// Handler answers queries of one kind. It must return soon after ctx is done, and must be safe for concurrent use. The
// agent sends its error to the registry.
type Handler func(ctx context.Context, q *eventv1.Query, send Send) error

// Config of an Answerer.
type Config struct {
	// Agent is the name of the agent.
	Agent string
	// Handlers by the name of their field in Query.kind, such as "recent_logs".
	Handlers map[string]Handler
	// Send sends a part to the registry. An error of kind Limit means that this part is too large; others can be sent.
	Send func(*eventv1.Answer) error
	// Now returns the time; time.Now if nil.
	Now     func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Answerer answers queries. It is safe for concurrent use.
type Answerer struct {
	cfg     Config
	metrics *prometheus.CounterVec
	limit   *rate.Limiter // queries
	pace    *rate.Limiter // bytes of answers

	mu       sync.Mutex
	known    map[string]time.Time // by the id of a query: when it was sent
	ctx      context.Context      // of Run; nil while it does not run
	running  sync.WaitGroup
	progress int // number of queries in progress
	tenants  [tenantSlots]share
	seed     maphash.Seed
	warned   time.Time // when the log last warned of too many queries
}

// share limits the queries about a tenant.
type share struct {
	limit    *rate.Limiter
	progress int
}

// The outcomes of queries: the values of the metric's label.
const (
	outcomeAnswered = "answered"
	outcomeFailed   = "failed"
	outcomeUnknown  = "unknown_kind"
	outcomeReplayed = "replayed"
	outcomeTooMany  = "too_many"
)

var kinds = (*eventv1.Query)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind")

// New returns an answerer. It answers while Run runs. New fails if a handler has no kind of query, or if the metrics are
// registered already.
func New(cfg Config) (*Answerer, error) {
	for kind := range cfg.Handlers {
		if kinds.Fields().ByName(protoreflect.Name(kind)) == nil {
			return nil, script.Errorf(script.Internal, "", "no query is of the kind %q", kind)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Answerer{cfg: cfg, limit: rate.NewLimiter(perSecond, atOnce), pace: rate.NewLimiter(paceBytes, paceBurst), known: map[string]time.Time{}, seed: maphash.MakeSeed()}
	for i := range a.tenants {
		a.tenants[i].limit = rate.NewLimiter(perSecond/tenantShare, atOnce/tenantShare)
	}
	a.metrics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scriptorium_agent_queries_total",
		Help: "Queries of registries by their outcome: answered, failed, unknown_kind, replayed, or too_many.",
	}, []string{"outcome"})
	for _, outcome := range []string{outcomeAnswered, outcomeFailed, outcomeUnknown, outcomeReplayed, outcomeTooMany} {
		a.metrics.WithLabelValues(outcome)
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(a.metrics); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Run answers until ctx is done, and returns when all handlers have returned.
func (a *Answerer) Run(ctx context.Context) error {
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	<-ctx.Done()
	a.mu.Lock()
	a.ctx = nil
	a.mu.Unlock()
	a.running.Wait()
	return nil
}

// Answer starts to answer a query whose signature was verified. It does not block.
func (a *Answerer) Answer(q *eventv1.Query) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil {
		return
	}
	now := a.cfg.Now()
	if !a.isNew(now, q) {
		a.metrics.WithLabelValues(outcomeReplayed).Inc()
		return
	}
	of := a.shareOf(q.GetTenant())
	if !a.hasRoom(now, of) {
		a.metrics.WithLabelValues(outcomeTooMany).Inc()
		if now.Sub(a.warned) >= warnEvery {
			a.warned = now
			a.cfg.Log.Warn("registries ask more than this agent answers; it does not answer this time. Others are logged once a minute", "in_progress", a.progress, "tenant", q.GetTenant())
		}
		return
	}
	a.known[q.GetId()] = q.GetSentAt().AsTime()
	a.progress++
	of.progress++
	ctx, cancel := context.WithTimeout(a.ctx, min(q.GetTimeout().AsDuration(), maxTimeout))
	a.running.Go(func() {
		defer cancel()
		a.metrics.WithLabelValues(a.answer(ctx, q)).Inc()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.progress--
		of.progress--
	})
}

// shareOf returns the share of the tenant. Queries without a tenant come from administrators, and have no limit.
func (a *Answerer) shareOf(tenant string) *share {
	if tenant == "" {
		return &share{limit: rate.NewLimiter(rate.Inf, 0)}
	}
	return &a.tenants[maphash.String(a.seed, tenant)%tenantSlots]
}

// hasRoom reports whether the limits allow one more query. Queries about one tenant get at most half. mu is held.
func (a *Answerer) hasRoom(now time.Time, of *share) bool {
	return a.progress < maxInProgress && of.progress < maxInProgress/tenantShare && of.limit.AllowN(now, 1) && a.limit.AllowN(now, 1)
}

// isNew reports whether the query is recent, and not known: the agent answers no query twice. mu is held.
func (a *Answerer) isNew(now time.Time, q *eventv1.Query) bool {
	if age := now.Sub(q.GetSentAt().AsTime()); age > maxAge || age < -maxAge {
		return false
	}
	if _, known := a.known[q.GetId()]; known {
		return false
	}
	if len(a.known) < maxKnown {
		return true
	}
	maps.DeleteFunc(a.known, func(_ string, at time.Time) bool { return now.Sub(at) > maxAge })
	return len(a.known) < maxKnown
}

// answer answers a query, and returns the outcome.
func (a *Answerer) answer(ctx context.Context, q *eventv1.Query) string {
	if !wait(ctx, q.GetSpread().AsDuration()) {
		return outcomeFailed
	}
	to := &reply{query: q, agent: a.cfg.Agent, send: a.cfg.Send, left: q.GetMaxBytes()}
	kind := q.ProtoReflect().WhichOneof(kinds)
	if kind == nil || a.cfg.Handlers[string(kind.Name())] == nil {
		to.unknown = true
		_ = to.end(nil) // if this fails, the registry stops waiting at its deadline
		return outcomeUnknown
	}
	err := a.handle(ctx, a.cfg.Handlers[string(kind.Name())], q, to)
	sent := to.end(err)
	if err == nil && sent == nil {
		return outcomeAnswered
	}
	a.cfg.Log.Debug("a query of the registry has no whole answer", "kind", string(kind.Name()), "error", errors.Join(err, sent))
	return outcomeFailed
}

// handle calls the handler, and recovers from its panics.
func (a *Answerer) handle(ctx context.Context, handler Handler, q *eventv1.Query, to *reply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.cfg.Log.Error("the answer to a query panicked", "panic", p, "stack", string(debug.Stack()))
			err = script.Errorf(script.Internal, "", "a fault in the agent; its log has the details")
		}
	}()
	return handler(ctx, q, func(m *eventv1.Answer) error {
		if size := wire.AnswerBytes(m); size <= MaxPart { // part returns an error for larger ones
			if err := a.pace.WaitN(ctx, int(size)); err != nil {
				return script.Errorf(script.Timeout, "", "the answer takes longer than the registry waits: %w", err)
			}
		}
		return to.part(m)
	})
}

// wait waits for a random time up to spread. It returns false if ctx is done before.
func wait(ctx context.Context, spread time.Duration) bool {
	if spread <= 0 {
		return true
	}
	timer := time.NewTimer(rand.N(spread))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reply is an answer in progress. It sends each part when it gets the next one, because the last part has a mark.
type reply struct {
	query   *eventv1.Query
	agent   string
	send    func(*eventv1.Answer) error
	left    int64           // bytes
	next    *eventv1.Answer // the part to send next; nil if there is none
	number  uint32
	unknown bool // the kind of the query is unknown
}

// part adds the next part, and sends the part before it.
func (r *reply) part(m *eventv1.Answer) error {
	size := wire.AnswerBytes(m)
	if size > MaxPart {
		return script.Errorf(script.Internal, "", "a part of an answer has %d bytes, at most %d are allowed", size, MaxPart)
	}
	if size > r.left {
		return errFull
	}
	r.left -= size
	if err := r.flush(false); err != nil {
		return err
	}
	r.next = m
	return nil
}

func (r *reply) flush(last bool) error {
	m := r.next
	if m == nil {
		return nil
	}
	r.next = nil
	m.Fleet, m.Id, m.Agent, m.Number, m.Last = r.query.GetFleet(), r.query.GetId(), r.agent, r.number, last
	if err := r.send(m); err != nil {
		return err
	}
	r.number++
	return nil
}

// end sends the last part.
func (r *reply) end(err error) error {
	if r.next == nil {
		r.next = &eventv1.Answer{}
	}
	m := r.next
	m.Error, m.UnknownKind = reason(err), r.unknown
	err = r.flush(true)
	if script.KindOf(err) != script.Limit {
		return err
	}
	r.next = &eventv1.Answer{Error: reason(err)}
	return errors.Join(err, r.flush(true))
}

// reason returns the error as a message, with bounded texts.
func reason(err error) *scriptv1.Error {
	m := wire.FromError(err)
	if m != nil {
		m.Field = strings.ToValidUTF8(m.GetField()[:min(len(m.GetField()), maxErrorText)], "")
		m.Message = strings.ToValidUTF8(m.GetMessage()[:min(len(m.GetMessage()), maxErrorText)], "")
	}
	return m
}
