// Package top finds the scripts with the most calls, errors or latency. For a few seconds the agents of the fleet count
// calls; the package adds up the counts.
package top

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of requests and of answers.
const (
	// MaxScripts and DefaultScripts are for Request.Limit.
	MaxScripts     = 1000
	DefaultScripts = 100
	// MaxPeriod and DefaultPeriod are for Request.Period.
	MaxPeriod     = 10 * time.Second
	DefaultPeriod = 2 * time.Second

	answerTimeout = 3 * time.Second // after the period
	agentBytes    = 256 << 10       // of the answer of one agent
	allBytes      = 16 << 20        // of all answers
	// maxSums is the number of scripts in memory. When there are more, only the first MaxScripts so far stay.
	maxSums = 2 * MaxScripts
	// This registry runs at most maxQueries queries at a time, and at most maxQueriesBy for one caller.
	maxQueries   = 8
	maxQueriesBy = 2
	// maxCalls and maxProcessors are what the answer of one agent can say of one script.
	maxCalls      = 1 << 40
	maxProcessors = 1024
)

// The orders of scripts.
const (
	ByCalls  = "calls"
	ByErrors = "errors"
	ByP50    = "p50"
	ByP99    = "p99"
)

// Asker asks agents.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Request selects scripts.
type Request struct {
	Caller string        // the identity that asks
	Of     script.Name   // all scripts of the tenant if it has no Script; all scripts if it is zero
	Period time.Duration // how long agents count; DefaultPeriod if 0
	Sort   string        // ByCalls if empty
	Limit  int           // DefaultScripts if 0
}

// Rates are the calls of a script during the period.
type Rates struct {
	Script     script.Name
	Calls      float64 // per second
	Errors     float64 // per second
	P50, P99   time.Duration
	Processors float64 // processors that the calls kept busy
	Agents     int     // agents that had calls
}

// Top is the answer to a Request.
type Top struct {
	Scripts   []Rates // in the order of Request.Sort
	Total     Rates   // of all scripts; its latencies are those of scripts that agents name
	Truncated bool    // there are more scripts
	Result    query.Result
}

// Reader answers requests. Equal requests at the same time share one query to the fleet. It is safe for concurrent use.
type Reader struct {
	asker Asker

	mu      sync.Mutex
	queries map[key]*running
}

// key is equal for requests that share a query.
type key struct {
	of     script.Name
	period time.Duration
	sort   string
	limit  int
}

// running is a query that runs.
type running struct {
	caller string
	done   chan struct{} // closed when top and err are set
	top    Top
	err    error
}

// New returns a Reader that asks agents through the asker.
func New(asker Asker) *Reader { return &Reader{asker: asker, queries: map[key]*running{}} }

// Read makes the agents count, and returns the sums.
func (r *Reader) Read(ctx context.Context, req Request) (Top, error) {
	if err := req.validate(); err != nil {
		return Top{}, err
	}
	q, err := r.join(req)
	if err != nil {
		return Top{}, err
	}
	select {
	case <-q.done:
		return q.top, q.err
	case <-ctx.Done():
		return Top{}, ctx.Err()
	}
}

func (r *Request) validate() error {
	switch r.Sort {
	case "":
		r.Sort = ByCalls
	case ByCalls, ByErrors, ByP50, ByP99:
	default:
		return script.Errorf(script.Invalid, "sort", "%.80q is no order: want %s, %s, %s or %s", r.Sort, ByCalls, ByErrors, ByP50, ByP99)
	}
	if r.Period < 0 || r.Period > MaxPeriod {
		return script.Errorf(script.Invalid, "period", "is %v, want more than 0 and at most %v", r.Period, MaxPeriod)
	}
	if r.Limit < 0 || r.Limit > MaxScripts {
		return script.Errorf(script.Invalid, "limit", "is %d, want 1 to %d", r.Limit, MaxScripts)
	}
	r.Period, r.Limit = cmp.Or(r.Period, DefaultPeriod), cmp.Or(r.Limit, DefaultScripts)
	return nil
}

// join returns the query for the request, and starts it if it does not run.
func (r *Reader) join(req Request) (*running, error) {
	k := key{of: req.Of, period: req.Period, sort: req.Sort, limit: req.Limit}
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queries[k]; q != nil {
		return q, nil
	}
	by := 0
	for _, q := range r.queries {
		if q.caller == req.Caller {
			by++
		}
	}
	if by >= maxQueriesBy || len(r.queries) >= maxQueries {
		return nil, script.Errorf(script.Limit, "", "this registry counts calls for %d others, %d of %.80q: ask for the same as they, ask another replica, or try again", len(r.queries), by, req.Caller)
	}
	q := &running{caller: req.Caller, done: make(chan struct{})}
	r.queries[k] = q
	go r.run(k, q)
	return q, nil
}

func (r *Reader) run(k key, q *running) {
	defer close(q.done)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.queries, k)
	}()
	s := &sums{key: k, scripts: map[script.Name]*sum{}, agents: map[string]int{}}
	// Requests come and go while the query runs, so it has no context of theirs. It ends at its timeout.
	q.top.Result, q.err = r.asker.Ask(context.Background(), query.Question{
		Caller: q.caller, Tenant: k.of.Tenant, Timeout: k.period + answerTimeout, AgentBytes: agentBytes, Bytes: allBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_Top{Top: &eventv1.TopQuery{
			Name: k.of.Script, Period: durationpb.New(k.period), Sort: k.sort, Limit: int32(2 * k.limit), //nolint:gosec // at most MaxScripts
		}}},
	}, s.take)
	if q.err == nil {
		s.addTo(&q.top)
	}
}

// sums add up the counts of agents.
type sums struct {
	key
	scripts   map[script.Name]*sum
	agents    map[string]int // numbers the agents
	total     sum
	truncated bool
}

type sum struct {
	Rates
	buckets histogram.Buckets
	from    big.Int // bit n: the sum has the counts of the agent with the number n
}

// take adds one part of an agent's answer. It ignores scripts that the agent does not follow, that the request does not
// select, or that the agent reported before.
func (s *sums) take(p query.Part) {
	m := p.Answer.GetTop()
	if m == nil {
		return
	}
	agent, known := s.agents[p.Agent]
	if !known {
		agent = len(s.agents)
		s.agents[p.Agent] = agent
	}
	seconds := max(m.GetPeriod().AsDuration(), s.period).Seconds() // an agent must not report a higher rate by a shorter period
	for _, one := range m.GetScripts() {
		name := script.Name{Tenant: one.GetTenant(), Script: one.GetName()}
		buckets, ok := readBuckets(one)
		if !ok || !s.selects(name) || !p.Tenants.Matches(name.Tenant) || name.Validate() != nil {
			continue
		}
		into := s.scripts[name]
		if into == nil {
			into = &sum{Rates: Rates{Script: name}}
			s.scripts[name] = into
		}
		if into.from.Bit(agent) == 1 {
			continue
		}
		into.from.SetBit(&into.from, agent, 1)
		into.add(one, seconds, &buckets)
		s.total.add(one, seconds, &buckets)
		if len(s.scripts) >= maxSums {
			s.trim()
		}
	}
	if m.GetOthers().GetCalls() > 0 && m.GetOthers().GetCalls() <= maxCalls {
		s.truncated = true
		s.total.add(m.GetOthers(), seconds, &histogram.Buckets{})
	}
}

// readBuckets returns the latencies of the calls; ok is false if they are more or fewer than the calls, or too
// high.
func readBuckets(m *eventv1.ScriptTop) (b histogram.Buckets, ok bool) {
	calls := m.GetCalls()
	if calls == 0 || calls > maxCalls || slices.ContainsFunc(m.GetBuckets(), func(n uint64) bool { return n > calls }) {
		return b, false
	}
	b, ok = histogram.FromSparse(int(m.GetFirstBucket()), m.GetBuckets())
	return b, ok && b.Total() == calls
}

func (s *sums) selects(name script.Name) bool {
	return (s.of.Tenant == "" || s.of.Tenant == name.Tenant) && (s.of.Script == "" || s.of.Script == name.Script)
}

// trim makes room: a script that an agent reports late can come before the scripts of the first agents.
func (s *sums) trim() {
	for _, r := range s.sorted()[MaxScripts:] {
		delete(s.scripts, r.Script)
	}
	s.truncated = true
}

func (s *sum) add(m *eventv1.ScriptTop, seconds float64, buckets *histogram.Buckets) {
	s.Calls += float64(m.GetCalls()) / seconds
	s.Errors += float64(min(m.GetErrors(), m.GetCalls())) / seconds
	s.Processors += min(max(0, m.GetProcessorTime().AsDuration().Seconds())/seconds, maxProcessors)
	s.Agents++
	for i, n := range buckets {
		s.buckets[i] += n
	}
}

// addTo adds the first scripts and the total to t.
func (s *sums) addTo(t *Top) {
	t.Scripts, t.Total, t.Truncated = s.sorted(), s.total.rates(), s.truncated
	t.Total.Agents = 0
	if len(t.Scripts) > s.limit {
		t.Scripts, t.Truncated = t.Scripts[:s.limit], true
	}
}

// sorted returns all scripts in the order of the request.
func (s *sums) sorted() []Rates {
	all := make([]Rates, 0, len(s.scripts))
	for _, one := range s.scripts {
		all = append(all, one.rates())
	}
	slices.SortFunc(all, func(a, b Rates) int {
		return cmp.Or(order(s.sort, &b, &a), cmp.Compare(a.Script.Tenant, b.Script.Tenant), cmp.Compare(a.Script.Script, b.Script.Script))
	})
	return all
}

func (s *sum) rates() Rates {
	r := s.Rates
	r.P50, r.P99 = s.buckets.Quantile(0.5), s.buckets.Quantile(0.99)
	return r
}

func order(by string, a, b *Rates) int {
	switch by {
	case ByErrors:
		return cmp.Compare(a.Errors, b.Errors)
	case ByP50:
		return cmp.Compare(a.P50, b.P50)
	case ByP99:
		return cmp.Compare(a.P99, b.P99)
	}
	return cmp.Compare(a.Calls, b.Calls)
}
