// Package query asks agents questions and collects their answers. It publishes a signed query, takes
// what the agents' sessions have signed, and stops waiting when all connected agents have answered, or
// at the deadline. The bytes of answers and the queries at a time are bounded.
//
// A new kind of query has a message in Query.kind and one in Answer.kind of event.proto, under the same
// name. The agent registers a handler for it (see package answer). The registry calls Ask with it, and
// takes the parts: see package recentlogs. What does not fit into a part of 256 KiB goes into several,
// which arrive in order.
package query

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what is asked.
const (
	maxQueries   = 32        // at a time
	maxQueriesBy = 8         // of them, of one caller
	maxBytes     = 256 << 20 // of the answers to all of them
	maxTimeout   = 3 * time.Minute
	maxPattern   = 253 // bytes of a name or pattern of agents

	// minAgentBytes are what each agent may send, however many there are.
	minAgentBytes = 2 << 10
	// defaultAgentBytes and defaultBytes are for questions that say nothing else.
	defaultAgentBytes = 1 << 20
	defaultBytes      = 16 << 20

	// spreadPer agent is the time over which answers are spread; small fleets answer at once.
	spreadPer   = 200 * time.Microsecond
	spreadAbove = 100 // agents

	// lookEvery is how often the fleet is asked who is still connected.
	lookEvery = time.Second
)

// Transport carries queries and answers.
type Transport interface {
	// Connected reports whether what is published now can arrive.
	Connected() bool
	// PublishQuery seals the query and sends it to all agents.
	PublishQuery(ctx context.Context, q *eventv1.Query) error
	// SubscribeAnswers calls take, from one goroutine, for each message on the answers' subject of an
	// agent. stop ends that and does not wait for take, which may still run then. Who publishes a query after it has returned gets
	// the answers.
	SubscribeAnswers(take func(agent string, data []byte)) (stop func(), err error)
}

// Target is a connected agent.
type Target struct {
	Agent    string
	Identity string // in the access policy
	Answers  bool   // it answers queries; an older agent does not
}

// Config of an Asker.
type Config struct {
	Transport Transport
	// Fleet returns the id of the fleet.
	Fleet func() string
	// Targets returns the connected agents that follow the tenant; all connected ones if it is empty.
	Targets func(tenant string) []Target
	// Sessions verify answers.
	Sessions Sessions
	Log      *slog.Logger
}

// Question is what to ask, and whom.
type Question struct {
	// Caller is who asks. One caller cannot take all the room.
	Caller string
	// Agents by name or by pattern, such as "edge-*", at most wire.MaxQueryAgents; all if empty.
	Agents []string
	// Tenant that the agents follow, and may follow; all agents if empty.
	Tenant string
	// Timeout is how long to wait for answers.
	Timeout time.Duration
	// AgentBytes bounds the answer of each agent; 1 MiB if 0. In a large fleet they may send
	// less, so that all answers fit into Bytes.
	AgentBytes int64
	// Bytes bounds all answers together; 16 MiB if 0. In a very large fleet it is what each agent may send at least.
	Bytes int64
	// Query has the kind; the Asker sets the rest.
	Query *eventv1.Query
}

// Part is a verified part of an agent's answer.
type Part struct {
	Agent string
	// Tenants that the agent follows, and may follow by the access policy. What it says of others is not
	// to be believed.
	Tenants script.Selector
	Answer  *eventv1.Answer // its kind is the taker's own
}

// Result says who answered. All names are sorted.
type Result struct {
	Answered []string  // wholly
	Failed   []Failure // an error, or an answer that is not whole
	Silent   []string  // did not answer in time, or left
	Older    []string  // do not know the query, or its kind: their software is older
}

// Failure is why an agent has no whole answer.
type Failure struct {
	Agent string
	Err   *script.Error
}

// Asker asks agents. It is safe for concurrent use.
type Asker struct {
	cfg    Config
	counts counts

	mu      sync.Mutex
	queries map[string]*inquiry
	bytes   int64  // reserved by the queries
	stop    func() // ends the subscription; nil for none
}

// New returns an Asker.
func New(cfg Config) *Asker {
	return &Asker{cfg: cfg, queries: map[string]*inquiry{}, counts: newCounts()}
}

// Ask asks the connected agents, and calls take for each part of their answers as it comes: in order for
// each agent, from one goroutine at a time, and not after Ask has returned. take must not block. Ask
// returns when all have answered, or left, or at the timeout. An error says that nobody was asked, or
// that ctx is done.
func (a *Asker) Ask(ctx context.Context, q Question, take func(Part)) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	if !a.cfg.Transport.Connected() {
		return Result{}, script.Errorf(script.Unavailable, "", "this registry is not connected to NATS, over which agents answer: ask another replica")
	}
	in := newInquiry(&q, a.targets(&q), take)
	if len(in.waiting) == 0 {
		return in.end(), nil
	}
	if err := a.begin(in); err != nil {
		return Result{}, err
	}
	defer a.over(in)
	in.query.Fleet, in.query.SentAt = a.cfg.Fleet(), timestamppb.Now()
	if err := a.cfg.Transport.PublishQuery(ctx, in.query); err != nil {
		return Result{}, err
	}
	a.wait(ctx, in, &q)
	return in.end(), ctx.Err()
}

func (q *Question) validate() error {
	if q.Timeout <= 0 || q.Timeout > maxTimeout {
		return script.Errorf(script.Invalid, "timeout", "is %v, want more than 0 and at most %v", q.Timeout, maxTimeout)
	}
	if n := len(q.Agents); n > wire.MaxQueryAgents {
		return script.Errorf(script.Invalid, "agents", "are %d, at most %d are allowed: use a pattern such as 'edge-*'", n, wire.MaxQueryAgents)
	}
	if q.Query.GetKind() == nil {
		return script.Errorf(script.Internal, "", "the query has no kind")
	}
	for _, pattern := range q.Agents {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxPattern {
			return script.Errorf(script.Invalid, "agents", "%.80q is no name and no pattern of names: use * for any characters", pattern)
		}
	}
	q.Bytes, q.AgentBytes = cmp.Or(q.Bytes, defaultBytes), cmp.Or(q.AgentBytes, defaultAgentBytes)
	return nil
}

// targets returns the agents to ask.
func (a *Asker) targets(q *Question) []Target {
	named := &eventv1.Query{Agents: q.Agents}
	return slices.DeleteFunc(a.cfg.Targets(q.Tenant), func(t Target) bool { return !wire.QueryNames(named, t.Agent) })
}

// begin makes room for the inquiry, and listens for answers.
func (a *Asker) begin(in *inquiry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := 0
	for _, other := range a.queries {
		if other.caller == in.caller {
			by++
		}
	}
	switch {
	case by >= maxQueriesBy:
		return script.Errorf(script.Limit, "", "%d queries of %.80q are in progress at this registry, the most for one caller: wait until one ends", by, in.caller)
	case len(a.queries) >= maxQueries || a.bytes+in.bytes > maxBytes:
		return script.Errorf(script.Limit, "", "too many queries are in progress at this registry: ask another replica, or again later")
	}
	if a.stop == nil {
		stop, err := a.cfg.Transport.SubscribeAnswers(a.receive)
		if err != nil {
			return err
		}
		a.stop = stop
	}
	a.queries[in.query.GetId()] = in
	a.bytes += in.bytes
	return nil
}

// over forgets the inquiry.
func (a *Asker) over(in *inquiry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.queries, in.query.GetId())
	a.bytes -= in.bytes
	if len(a.queries) == 0 {
		a.stop()
		a.stop = nil
	}
}

// wait returns when nobody is waited for any more.
func (a *Asker) wait(ctx context.Context, in *inquiry, q *Question) {
	deadline := time.NewTimer(q.Timeout + in.query.GetSpread().AsDuration())
	defer deadline.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-in.done:
			return
		case <-look.C:
			in.keep(a.targets(q))
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// newInquiry returns a query to the targets, with all but the fleet and the time.
func newInquiry(q *Question, targets []Target, take func(Part)) *inquiry {
	in := &inquiry{caller: q.Caller, take: take, waiting: map[string]*asked{}, done: make(chan struct{})}
	for _, t := range targets {
		if t.Answers {
			in.waiting[t.Agent] = &asked{identity: t.Identity}
		} else {
			in.result.Older = append(in.result.Older, t.Agent)
		}
	}
	n := len(in.waiting)
	in.bytes = max(q.Bytes, int64(n)*min(q.AgentBytes, minAgentBytes))
	in.left, in.each = in.bytes, min(q.AgentBytes, in.bytes/int64(max(n, 1)))
	in.query = &eventv1.Query{
		Id: rand.Text(), Agents: q.Agents, Tenant: q.Tenant, Timeout: durationpb.New(q.Timeout), MaxBytes: in.each, Kind: q.Query.GetKind(),
	}
	if n > spreadAbove {
		in.query.Spread = durationpb.New(min(time.Duration(n)*spreadPer, q.Timeout/2))
	}
	return in
}
