package top_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/top"
	"github.com/scriptorium-dev/scriptorium/script"
)

// agents answer with what they say, whatever they are asked, once they may.
type agents struct {
	parts []query.Part
	err   error
	may   chan struct{} // nil: at once

	mu    sync.Mutex
	asked []query.Question
}

func (a *agents) Ask(_ context.Context, q query.Question, take func(query.Part)) (query.Result, error) {
	a.mu.Lock()
	a.asked = append(a.asked, q)
	a.mu.Unlock()
	if a.may != nil {
		<-a.may
	}
	for _, p := range a.parts {
		take(p)
	}
	return query.Result{Answered: []string{"n1"}, Silent: []string{"n9"}}, a.err
}

// say has the agent, which follows the tenants, say what it counted in two seconds.
func (a *agents) say(t *testing.T, agent, tenants string, m *eventv1.Top) {
	t.Helper()
	of, err := script.ParseSelector([]string{tenants})
	if err != nil {
		t.Fatal(err)
	}
	if m.GetPeriod() == nil {
		m.Period = durationpb.New(2 * time.Second)
	}
	a.parts = append(a.parts, query.Part{Agent: agent, Tenants: of, Answer: &eventv1.Answer{Kind: &eventv1.Answer_Top{Top: m}}})
}

// counted are so many calls, of which each took that long; a quarter failed.
func counted(name string, calls uint64, took time.Duration) *eventv1.ScriptTop {
	tenant, short, _ := strings.Cut(name, "/")
	return &eventv1.ScriptTop{
		Tenant: tenant, Name: short, Calls: calls, Errors: calls / 4, FirstBucket: int32(histogram.Of(took)), Buckets: []uint64{calls}, //nolint:gosec // less than histogram.Size
		ProcessorTime: durationpb.New(time.Second),
	}
}

func told(scripts ...*eventv1.ScriptTop) *eventv1.Top { return &eventv1.Top{Scripts: scripts} }

func read(t *testing.T, a *agents, req top.Request) top.Top {
	t.Helper()
	found, err := top.New(a).Read(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rows are the scripts with their calls and errors a second, their agents and processors.
func rows(found *top.Top) (all []string) {
	for _, r := range found.Scripts {
		all = append(all, fmt.Sprintf("%v %g %g %d %g", r.Script, r.Calls, r.Errors, r.Agents, r.Processors))
	}
	return all
}

// TestFiguresOfSeveralAgents are added up. An agent that speaks of tenants that it does not follow, or of others than are
// asked for, is not believed.
func TestFiguresOfSeveralAgents(t *testing.T) {
	var a agents
	a.say(t, "n1", "*", told(counted("acme/fast", 8, time.Millisecond), counted("acme/slow", 4, time.Second)))
	a.say(t, "n1", "*", &eventv1.Top{Scripts: []*eventv1.ScriptTop{counted("acme/rare", 1, time.Minute)}, Others: &eventv1.ScriptTop{Calls: 6, Errors: 2}})
	a.say(t, "n2", "ac*", told(counted("acme/fast", 4, 3*time.Millisecond), counted("shop/cart", 1<<30, time.Hour)))
	a.say(t, "n3", "shop", told(counted("acme/fast", 1<<30, time.Hour)))
	a.parts = append(a.parts, query.Part{Agent: "n4", Answer: &eventv1.Answer{}})
	acme := script.Name{Tenant: "acme"}
	found := read(t, &a, top.Request{Caller: "ann", Of: acme, Limit: 2})
	if want := []string{"acme/fast 6 1.5 2 1", "acme/slow 2 0.5 1 0.5"}; !slices.Equal(rows(&found), want) || !found.Truncated {
		t.Errorf("%q, truncated %v; want %q", rows(&found), found.Truncated, want)
	}
	if total := found.Total; total.Calls != 11.5 || total.Errors != 3 || total.Processors != 2 || total.Agents != 0 || len(found.Result.Silent) != 1 {
		t.Errorf("the total is %+v, of %+v", total, found.Result)
	}
	if fast := found.Scripts[0]; fast.P50 < time.Millisecond || fast.P50 > 1100*time.Microsecond || fast.P99 < 3*time.Millisecond || fast.P99 > 3300*time.Microsecond {
		t.Errorf("the latencies are %v and %v, want about 1 ms and 3 ms", fast.P50, fast.P99)
	}
	q := a.asked[0]
	if m := q.Query.GetTop(); q.Caller != "ann" || q.Tenant != "acme" || m.GetName() != "" || m.GetLimit() != 4 || m.GetSort() != top.ByCalls || m.GetPeriod().AsDuration() != top.DefaultPeriod {
		t.Errorf("the agents are asked %+v", q)
	}
	for sort, first := range map[string]string{top.ByCalls: "acme/fast", top.ByErrors: "acme/fast", top.ByP50: "acme/rare", top.ByP99: "acme/rare"} {
		if found := read(t, &a, top.Request{Of: acme, Sort: sort}); found.Scripts[0].Script.String() != first {
			t.Errorf("by %s, %q", sort, rows(&found))
		}
	}
	found = read(t, &a, top.Request{Of: script.Name{Tenant: "acme", Script: "slow"}})
	if want := []string{"acme/slow 2 0.5 1 0.5"}; !slices.Equal(rows(&found), want) {
		t.Errorf("of one script: %q", rows(&found))
	}
}

// TestAnAgentThatLies changes nothing of what others counted, and cannot count for several.
func TestAnAgentThatLies(t *testing.T) {
	twice := func(change func(*eventv1.ScriptTop)) *eventv1.ScriptTop {
		m := counted("acme/route", 4, time.Second)
		change(m)
		return m
	}
	for what, lie := range map[string]*eventv1.Top{
		"no answer":          nil,
		"nothing":            told(nil, &eventv1.ScriptTop{}),
		"no calls":           told(counted("acme/route", 0, time.Second)),
		"more than can be":   told(counted("acme/route", 1<<41, time.Second)),
		"overflow":           told(twice(func(m *eventv1.ScriptTop) { m.Buckets = []uint64{math.MaxUint64, 5} })),
		"other latencies":    told(twice(func(m *eventv1.ScriptTop) { m.Buckets = []uint64{3} })),
		"no such bucket":     told(twice(func(m *eventv1.ScriptTop) { m.FirstBucket = -1 })),
		"no such buckets":    told(twice(func(m *eventv1.ScriptTop) { m.FirstBucket = math.MaxInt32 })),
		"made-up names":      told(counted("acme/..", 4, time.Second), counted("acme/\xff", 4, time.Second), counted("acme/", 4, time.Second), counted("/route", 4, time.Second)),
		"impossible others":  {Others: &eventv1.ScriptTop{Calls: math.MaxUint64}},
		"another one's name": told(counted("shop/route", 4, time.Second)),
	} {
		var a agents
		a.say(t, "honest", "*", told(counted("acme/route", 4, time.Second)))
		if lie != nil {
			a.say(t, "liar", "acme", lie)
		}
		found := read(t, &a, top.Request{})
		if want := []string{"acme/route 2 0.5 1 0.5"}; !slices.Equal(rows(&found), want) || found.Total.Calls != 2 {
			t.Errorf("%s: %q, and %v calls in all; want %q", what, rows(&found), found.Total.Calls, want)
		}
	}
	var a agents
	a.say(t, "honest", "*", told(counted("acme/route", 4, time.Second)))
	for _, period := range []time.Duration{1, -time.Hour, math.MaxInt64} { // the second and third time say the same again
		for range 2 {
			m := twice(func(m *eventv1.ScriptTop) { m.Errors, m.ProcessorTime = math.MaxUint64, durationpb.New(math.MaxInt64) })
			a.say(t, "liar", "acme", &eventv1.Top{Period: durationpb.New(period), Scripts: []*eventv1.ScriptTop{m, m}})
		}
	}
	found := read(t, &a, top.Request{})
	if want := []string{"acme/route 4 2.5 2 1024.5"}; !slices.Equal(rows(&found), want) || found.Total.Calls != 4 {
		t.Errorf("said again and again: %q, and %v calls in all; want %q", rows(&found), found.Total.Calls, want)
	}
}

// TestTheFirstOfManyScripts are found, also if the agent that has them answers last. Few are in memory.
func TestTheFirstOfManyScripts(t *testing.T) {
	for _, sort := range []string{top.ByCalls, top.ByP99} {
		var a agents
		for agent := range 60 { // each serves tenants of its own
			m := told()
			for i := range 100 {
				m.Scripts = append(m.Scripts, counted(fmt.Sprintf("t%d/s%d", agent, i), 2, time.Millisecond))
			}
			a.say(t, fmt.Sprint("n", agent), "*", m)
		}
		a.say(t, "last", "*", told(counted("hot/route", 200, time.Second)))
		found := read(t, &a, top.Request{Sort: sort, Limit: top.MaxScripts})
		if found.Scripts[0].Script.Tenant != "hot" || len(found.Scripts) != top.MaxScripts || !found.Truncated || found.Total.Calls != 6100 {
			t.Errorf("by %s: %d scripts, first %+v, truncated %v, %v calls in all", sort, len(found.Scripts), found.Scripts[0], found.Truncated, found.Total.Calls)
		}
	}
}

// TestManyRequests: those for the same share a question, and there are few at a time of a caller, and of all.
func TestManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agents{may: make(chan struct{})}
		reader := top.New(a)
		var reading sync.WaitGroup
		begin := func(caller string, limit int) {
			reading.Go(func() {
				if found, err := reader.Read(t.Context(), top.Request{Caller: caller, Limit: limit}); err != nil || len(found.Result.Answered) != 1 {
					t.Errorf("%s: %+v, %v", caller, found, err)
				}
			})
			synctest.Wait()
		}
		refused := func(caller string, limit int) {
			t.Helper()
			if _, err := reader.Read(t.Context(), top.Request{Caller: caller, Limit: limit}); script.KindOf(err) != script.Limit {
				t.Errorf("one more of %s: %v", caller, err)
			}
		}
		for i := range 1000 {
			begin("ann", 1+i%2)
		}
		refused("ann", 3)
		for i := range 6 {
			begin(fmt.Sprint("bob-", i/2), 3+i)
		}
		refused("cid", 100)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := reader.Read(ctx, top.Request{Caller: "cid", Limit: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("one that waits no longer: %v", err)
		}
		if len(a.asked) != 8 {
			t.Errorf("%d questions were asked, want 8", len(a.asked))
		}
		close(a.may)
		reading.Wait()
		begin("ann", 3)
		reading.Wait()
		a.err = script.Errorf(script.Unavailable, "", "no NATS")
		if _, err := reader.Read(t.Context(), top.Request{}); script.KindOf(err) != script.Unavailable {
			t.Errorf("without NATS: %v", err)
		}
	})
}

func TestWrongRequests(t *testing.T) {
	var a agents
	for field, req := range map[string]top.Request{
		"sort": {Sort: "name"}, "period": {Period: time.Minute}, "limit": {Limit: 1001}, "period ": {Period: -1}, "limit ": {Limit: -1},
	} {
		_, err := top.New(&a).Read(t.Context(), req)
		if e := script.AsError(err); err == nil || e.Kind != script.Invalid || e.Field != strings.TrimSpace(field) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if len(a.asked) > 0 {
		t.Errorf("agents were asked %d times", len(a.asked))
	}
}
