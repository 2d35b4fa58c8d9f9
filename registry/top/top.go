// Package top adds up the calls of scripts that the agents of the fleet count for a while, and finds the scripts that
// have most.
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

// Bounds of what is asked, and of what is kept of the answers.
const (
	// MaxScripts of a Top, and DefaultScripts if nothing is said.
	MaxScripts     = 1000
	DefaultScripts = 100
	// MaxPeriod that agents count, and DefaultPeriod.
	MaxPeriod     = 10 * time.Second
	DefaultPeriod = 2 * time.Second

	patience   = 3 * time.Second // for the answers, besides the period
	agentBytes = 256 << 10
	allBytes   = 16 << 20
	// maxKept scripts are added up at a time. When there are more, the MaxScripts that come first so far stay.
	maxKept = 2 * MaxScripts
	// maxAsked are asked at a time at this registry, and maxAskedBy one caller: others ask for something else.
	maxAsked   = 8
	maxAskedBy = 2
	// mostCalls that an agent can have had in a period, and mostProcessors that it can have kept busy.
	mostCalls      = 1 << 40
	mostProcessors = 1024
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

// Request says which scripts.
type Request struct {
	Caller string        // who asks
	Of     script.Name   // all scripts of the tenant if it has no Script; all if it is zero
	Period time.Duration // that agents count; DefaultPeriod if 0
	Sort   string        // ByCalls if empty
	Limit  int           // DefaultScripts if 0
}

// Rates are what the calls of a script are now.
type Rates struct {
	Script     script.Name
	Calls      float64 // a second
	Errors     float64 // a second
	P50, P99   time.Duration
	Processors float64 // that they keep busy
	Agents     int     // that called it
}

// Top is the calls of scripts now.
type Top struct {
	Scripts   []Rates // in the order that was asked for
	Total     Rates   // of all scripts; it has latencies of those alone that agents tell of
	Truncated bool    // there are more scripts than in it
	Result    query.Result
}

// Tops answers requests. Requests for the same at about the same time share the question to the fleet. It is safe for
// concurrent use.
type Tops struct {
	asker Asker

	mu     sync.Mutex
	flying map[question]*flight
}

// question is what requests have in common that share one.
type question struct {
	of     script.Name
	period time.Duration
	sort   string
	limit  int
}

type flight struct {
	caller string
	done   chan struct{}
	top    Top
	err    error
}

// New returns Tops that ask by the asker.
func New(asker Asker) *Tops { return &Tops{asker: asker, flying: map[question]*flight{}} }

// Read has the fleet count, and returns what it counted.
func (t *Tops) Read(ctx context.Context, req Request) (Top, error) {
	if err := req.validate(); err != nil {
		return Top{}, err
	}
	f, err := t.join(req)
	if err != nil {
		return Top{}, err
	}
	select {
	case <-f.done:
		return f.top, f.err
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

// join returns the flight for the request, and begins one if there is none.
func (t *Tops) join(req Request) (*flight, error) {
	q := question{of: req.Of, period: req.Period, sort: req.Sort, limit: req.Limit}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.flying[q]; f != nil {
		return f, nil
	}
	by := 0
	for _, f := range t.flying {
		if f.caller == req.Caller {
			by++
		}
	}
	if by >= maxAskedBy || len(t.flying) >= maxAsked {
		return nil, script.Errorf(script.Limit, "", "this registry counts calls for %d others, %d of %.80q: ask for the same as they, ask another replica, or try again", len(t.flying), by, req.Caller)
	}
	f := &flight{caller: req.Caller, done: make(chan struct{})}
	t.flying[q] = f
	go t.fly(q, f)
	return f, nil
}

func (t *Tops) fly(q question, f *flight) {
	defer close(f.done)
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.flying, q)
	}()
	s := &sums{question: q, scripts: map[script.Name]*sum{}, agents: map[string]int{}}
	// The asker ends it in time: those who wait for it may be gone, and others may have come.
	result, err := t.asker.Ask(context.Background(), query.Question{
		Caller: f.caller, Tenant: q.of.Tenant, Timeout: q.period + patience, AgentBytes: agentBytes, Bytes: allBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_Top{Top: &eventv1.TopQuery{
			Name: q.of.Script, Period: durationpb.New(q.period), Sort: q.sort, Limit: int32(2 * q.limit), //nolint:gosec // at most MaxScripts
		}}},
	}, s.take)
	if err != nil {
		f.err = err
		return
	}
	f.top = s.top()
	f.top.Result = result
}

// sums add up what agents counted.
type sums struct {
	question
	scripts   map[script.Name]*sum
	agents    map[string]int // a number for each
	total     sum
	truncated bool
}

type sum struct {
	Rates
	buckets histogram.Buckets
	from    big.Int // has a bit for each agent that told of the script
}

// take adds what an agent says of scripts that it may speak of, and that are asked for: once of each.
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
	seconds := max(m.GetPeriod().AsDuration(), s.period).Seconds() // none counts for less than it was asked to
	for _, one := range m.GetScripts() {
		name := script.Name{Tenant: one.GetTenant(), Script: one.GetName()}
		buckets, ok := readBuckets(one)
		if !ok || !s.asks(name) || !p.Tenants.Matches(name.Tenant) || name.Validate() != nil {
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
		if len(s.scripts) >= maxKept {
			s.trim()
		}
	}
	if m.GetOthers().GetCalls() > 0 && m.GetOthers().GetCalls() <= mostCalls {
		s.truncated = true
		s.total.add(m.GetOthers(), seconds, &histogram.Buckets{})
	}
}

// readBuckets returns the latencies of the calls; ok is false if these are not of so many calls, or cannot be so many.
func readBuckets(m *eventv1.ScriptTop) (b histogram.Buckets, ok bool) {
	calls := m.GetCalls()
	if calls == 0 || calls > mostCalls || slices.ContainsFunc(m.GetBuckets(), func(n uint64) bool { return n > calls }) {
		return b, false
	}
	b, ok = histogram.FromSparse(int(m.GetFirstBucket()), m.GetBuckets())
	return b, ok && b.Total() == calls
}

func (s *sums) asks(name script.Name) bool {
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
	s.Processors += min(max(0, m.GetProcessorTime().AsDuration().Seconds())/seconds, mostProcessors)
	s.Agents++
	for i, n := range buckets {
		s.buckets[i] += n
	}
}

// top returns the scripts that come first.
func (s *sums) top() Top {
	t := Top{Scripts: s.sorted(), Total: s.total.rates(), Truncated: s.truncated}
	t.Total.Agents = 0
	if len(t.Scripts) > s.limit {
		t.Scripts, t.Truncated = t.Scripts[:s.limit], true
	}
	return t
}

// sorted returns all scripts, in the order that was asked for.
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
