// Package query sends queries to agents and collects their answers. It publishes a signed query, and accepts answers
// that the sessions of the agents signed. It stops waiting when all connected agents have answered, or at the deadline.
// It bounds the bytes of answers, and the queries in progress.
//
// To add a kind of query, add a message to Query.kind and one to Answer.kind of event.proto, under the same name. The
// agent registers a handler for the kind (see package answer). The registry calls Ask and receives the parts (see
// package recentlogs). An answer above 256 KiB has several parts, which arrive in order.
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

// Bounds of queries.
const (
	maxQueries   = 32        // in progress
	maxQueriesBy = 8         // in progress for one caller
	maxBytes     = 256 << 20 // of the answers to all queries in progress
	maxTimeout   = 3 * time.Minute
	maxPattern   = 253 // bytes of a name or pattern of agents

	// minAgentBytes is the least that each agent may send, in a fleet of any size.
	minAgentBytes = 2 << 10
	// defaultAgentBytes and defaultBytes are the defaults of Question.AgentBytes and Question.Bytes.
	defaultAgentBytes = 1 << 20
	defaultBytes      = 16 << 20

	// spreadPer is multiplied by the number of agents: answers are spread over that time. Up to spreadAbove agents answer
	// at once.
	spreadPer   = 200 * time.Microsecond
	spreadAbove = 100

	// MaxContent bounds Question.Content, in bytes.
	MaxContent = 8 << 20
	// contentPart is how many bytes of it are in a message. NATS takes 1 MiB unless it is configured.
	contentPart = 256 << 10

	// lookEvery is how often a query checks which agents are still connected.
	lookEvery = time.Second
)

// Transport carries queries and answers.
type Transport interface {
	// Connected reports whether messages can be published now.
	Connected() bool
	// PublishQuery seals the query and sends it to all agents.
	PublishQuery(ctx context.Context, q *eventv1.Query) error
	// PublishContent seals the part and sends it to its agent.
	PublishContent(ctx context.Context, m *eventv1.QueryContent) error
	// SubscribeAnswers calls take, from one goroutine, for each message on the answers' subject of an agent. It returns
	// when the subscription is active. stop ends the subscription; take may still be running when it returns.
	SubscribeAnswers(take func(agent string, data []byte)) (stop func(), err error)
}

// Target is a connected agent.
type Target struct {
	Agent    string
	Identity string // in the access policy
	// Incarnation is another one after each start of the agent.
	Incarnation string
	Answers     bool // supports queries; older agents do not
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

// Question is a query, and the agents that it is for.
type Question struct {
	// Caller identifies the user. The queries in progress of one caller are bounded.
	Caller string
	// Agents are names or patterns, such as "edge-*", at most wire.MaxQueryAgents; all agents if empty.
	Agents []string
	// Tenant selects the agents that follow it, and may follow it; all agents if empty.
	Tenant string
	// Timeout is how long to wait for answers.
	Timeout time.Duration
	// AgentBytes bounds the answer of each agent; 1 MiB if 0. In a large fleet the bound is lower, so that all answers
	// fit into Bytes.
	AgentBytes int64
	// Bytes bounds all answers together; 16 MiB if 0. In a very large fleet it is higher: each agent may send 2 KiB.
	Bytes int64
	// Query has the kind. The Asker sets the other fields.
	Query *eventv1.Query
	// Incarnation is the only one that can answer; any if empty. Ask stops waiting for an agent that has started again.
	Incarnation string
	// Content is sent before the query, to its only agent. It is at most MaxContent bytes.
	Content []byte
}

// Part is a verified part of an agent's answer.
type Part struct {
	Agent string
	// Tenants are those that the agent follows, and may follow by the access policy. Ignore what it answers about others.
	Tenants script.Selector
	Answer  *eventv1.Answer // the callback reads its kind
}

// Result lists the agents by their outcome. All names are sorted.
type Result struct {
	Answered []string  // the answer is complete
	Failed   []Failure // an error, or an incomplete answer
	Silent   []string  // no answer in time, or disconnected
	Gone     []string  // the agents of Silent that disconnected, or started again
	Older    []string  // too old to know queries, or this kind
}

// Failure is why an agent has no complete answer.
type Failure struct {
	Agent string
	Err   *script.Error
}

// Asker sends queries to agents. It is safe for concurrent use.
type Asker struct {
	cfg    Config
	counts counts

	mu      sync.Mutex
	queries map[string]*inquiry
	bytes   int64  // reserved by the queries
	stop    func() // ends the subscription; nil if there is none
}

// New returns an Asker.
func New(cfg Config) *Asker {
	return &Asker{cfg: cfg, queries: map[string]*inquiry{}, counts: newCounts()}
}

// Ask sends the query to the connected agents, and calls take for each part of their answers: in order for each agent,
// from one goroutine at a time, and not after Ask has returned. take must not block. Ask returns when all agents have
// answered or disconnected, or at the timeout. An error means that the query was not sent, or that ctx is done.
func (a *Asker) Ask(ctx context.Context, q Question, take func(Part)) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	if !a.cfg.Transport.Connected() {
		return Result{}, script.Errorf(script.Unavailable, "", "this registry is not connected to NATS, over which agents answer: ask another replica")
	}
	in := newInquiry(&q, a.targets(&q), take)
	if len(in.pending) == 0 {
		return in.end(), nil
	}
	if err := a.begin(in); err != nil {
		return Result{}, err
	}
	defer a.remove(in)
	in.query.Fleet, in.query.SentAt = a.cfg.Fleet(), timestamppb.Now()
	if err := a.sendContent(ctx, in.query, q.Content); err != nil {
		return Result{}, err
	}
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
	if len(q.Content) > MaxContent || len(q.Content) > 0 && len(q.Agents) != 1 {
		return script.Errorf(script.Limit, "", "what a query brings has %d bytes, at most %d are sent, and to one agent", len(q.Content), MaxContent)
	}
	for _, pattern := range q.Agents {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || len(pattern) > maxPattern {
			return script.Errorf(script.Invalid, "agents", "%.80q is no name and no pattern of names: use * for any characters", pattern)
		}
	}
	q.Bytes, q.AgentBytes = cmp.Or(q.Bytes, defaultBytes), cmp.Or(q.AgentBytes, defaultAgentBytes)
	return nil
}

// targets returns the agents that the query is for.
func (a *Asker) targets(q *Question) []Target {
	named := &eventv1.Query{Agents: q.Agents}
	return slices.DeleteFunc(a.cfg.Targets(q.Tenant), func(t Target) bool { return !wire.QueryNames(named, t.Agent) })
}

// begin adds the inquiry, if the limits allow it, and subscribes to answers.
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

// remove removes the inquiry. After the last one, it ends the subscription.
func (a *Asker) remove(in *inquiry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.queries, in.query.GetId())
	a.bytes -= in.bytes
	if len(a.queries) == 0 {
		a.stop()
		a.stop = nil
	}
}

// sendContent sends what belongs to the query.
func (a *Asker) sendContent(ctx context.Context, q *eventv1.Query, content []byte) error {
	for n := uint32(0); len(content) > 0; n++ {
		part := content[:min(len(content), contentPart)]
		content = content[len(part):]
		if err := a.cfg.Transport.PublishContent(ctx, &eventv1.QueryContent{
			Fleet: q.GetFleet(), Id: q.GetId(), Agent: q.GetAgents()[0], Number: n, Last: len(content) == 0, Data: part, SentAt: q.GetSentAt(),
		}); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until no agent is pending, the timeout is over, or ctx is done.
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
			in.dropDisconnected(a.targets(q))
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// newInquiry returns an inquiry for the targets. The query has no fleet and no time yet.
func newInquiry(q *Question, targets []Target, take func(Part)) *inquiry {
	in := &inquiry{caller: q.Caller, incarnation: q.Incarnation, take: take, pending: map[string]*pendingAgent{}, done: make(chan struct{})}
	for _, t := range targets {
		if t.Answers {
			in.pending[t.Agent] = &pendingAgent{identity: t.Identity}
		} else {
			in.result.Older = append(in.result.Older, t.Agent)
		}
	}
	n := len(in.pending)
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
