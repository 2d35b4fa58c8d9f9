package query_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

const fleetID = "the fleet"

// air is a transport in memory.
type air struct {
	delivering sync.Mutex

	mu       sync.Mutex
	down     bool
	agents   map[string]*agent
	take     func(agent string, data []byte)
	queries  []*eventv1.Query
	contents []*eventv1.QueryContent
}

// agent is one end of the air. answer is called for each query.
type agent struct {
	name, identity string
	incarnation    string
	tenants        []string
	older          bool
	answer         func(a *agent, q *eventv1.Query)
	air            *air
}

func newAir(agents ...*agent) *air {
	a := &air{agents: map[string]*agent{}}
	for _, one := range agents {
		if one.identity == "" {
			one.identity = "agents"
		}
		one.air = a
		a.agents[one.name] = one
	}
	return a
}

func (a *air) Connected() bool { return !a.down }

func (a *air) PublishContent(_ context.Context, m *eventv1.QueryContent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.contents = append(a.contents, m)
	return nil
}

func (a *air) PublishQuery(_ context.Context, q *eventv1.Query) error {
	a.mu.Lock()
	a.queries = append(a.queries, q)
	all := make([]*agent, 0, len(a.agents))
	for _, one := range a.agents {
		all = append(all, one)
	}
	a.mu.Unlock()
	for _, one := range all {
		if one.answer != nil && wire.QueryNames(q, one.name) {
			go one.answer(one, proto.CloneOf(q))
		}
	}
	return nil
}

func (a *air) SubscribeAnswers(take func(agent string, data []byte)) (stop func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.take != nil {
		return nil, errors.New("subscribed twice")
	}
	a.take = take
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.take = nil
	}, nil
}

// deliver is a message on the answers' subject of the agent.
func (a *air) deliver(agent string, data []byte) {
	a.delivering.Lock()
	defer a.delivering.Unlock() // one at a time, as NATS does
	a.mu.Lock()
	take := a.take
	a.mu.Unlock()
	if take != nil { // it waits for the Asker, which may be unsubscribing
		take(agent, data)
	}
}

func (a *air) targets(string) (all []query.Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.agents {
		all = append(all, query.Target{Agent: one.name, Identity: one.identity, Incarnation: one.incarnation, Answers: !one.older})
	}
	return all
}

func (a *air) remove(agent string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.agents, agent)
}

// sessions are those of these tests: their keys follow from one secret.
type sessions struct{}

func (sessions) Key(token []byte) ([]byte, error) {
	return seal.SessionKey([]byte("secret"), token), nil
}

// session is that of the agent.
func (a *agent) session() seal.Session {
	token, err := proto.Marshal(&eventv1.Session{Fleet: fleetID, Agent: a.name, Incarnation: cmp.Or(a.incarnation, "1"), Tenants: a.tenants, Identity: a.identity})
	if err != nil {
		panic(err)
	}
	return seal.Session{Token: token, Key: seal.SessionKey([]byte("secret"), token)}
}

// say sends a part on the agent's subject, in its session.
func (a *agent) say(q *eventv1.Query, change func(*eventv1.Answer), texts ...string) {
	m := &eventv1.Answer{Fleet: q.GetFleet(), Id: q.GetId(), Agent: a.name, Last: true}
	if len(texts) > 0 {
		lines := &eventv1.RecentLogs{}
		for _, text := range texts {
			lines.Lines = append(lines.Lines, &eventv1.LogLine{Message: text})
		}
		m.Kind = &eventv1.Answer_RecentLogs{RecentLogs: lines}
	}
	if change != nil {
		change(m)
	}
	a.air.deliver(a.name, sealed(m, a.session()))
}

func sealed(m *eventv1.Answer, in seal.Session) []byte {
	data, err := seal.SealAnswer(m, in)
	if err != nil {
		panic(err)
	}
	return data
}

func (a *air) asker() *query.Asker {
	return query.New(query.Config{
		Transport: a, Fleet: func() string { return fleetID }, Targets: a.targets, Sessions: sessions{}, Log: slog.New(slog.DiscardHandler),
	})
}

// question asks everybody.
func question() query.Question {
	return query.Question{
		Caller: "ann", Tenant: "acme", Timeout: 10 * time.Second,
		Query: &eventv1.Query{Kind: &eventv1.Query_RecentLogs{RecentLogs: &eventv1.RecentLogsQuery{}}},
	}
}

// collected are the messages of the parts, by agent.
type collected map[string][]string

func (c collected) take(p query.Part) {
	for _, l := range p.Answer.GetRecentLogs().GetLines() {
		c[p.Agent] = append(c[p.Agent], l.GetMessage())
	}
}

func failures(r *query.Result) (all []string) {
	for _, f := range r.Failed {
		all = append(all, fmt.Sprint(f.Agent, ": ", f.Err.Kind))
	}
	return all
}

func part(n uint32, last bool) func(*eventv1.Answer) {
	return func(m *eventv1.Answer) { m.Number, m.Last = n, last }
}

func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAir(
			&agent{name: "whole", answer: func(a *agent, q *eventv1.Query) {
				a.say(q, part(0, false), "one", "two")
				<-time.After(3 * time.Second)
				a.say(q, part(1, true), "three")
			}},
			&agent{name: "empty", answer: func(a *agent, q *eventv1.Query) { a.say(q, nil) }},
			&agent{name: "failing", answer: func(a *agent, q *eventv1.Query) {
				a.say(q, part(0, false), "half")
				a.say(q, func(m *eventv1.Answer) {
					m.Number, m.Error = 1, &scriptv1.Error{Kind: string(script.Limit), Message: "too\x1b[31m much" + strings.Repeat("!", 5000)}
				})
			}},
			&agent{name: "silent"},
			&agent{name: "old", older: true},
			&agent{name: "older-kind", answer: func(a *agent, q *eventv1.Query) {
				a.say(q, func(m *eventv1.Answer) { m.UnknownKind = true })
			}},
		)
		asker, got, begun := a.asker(), collected{}, time.Now()
		result, err := asker.Ask(t.Context(), question(), got.take)
		if err != nil || time.Since(begun) != 10*time.Second {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		if !slices.Equal(result.Answered, []string{"empty", "whole"}) || !slices.Equal(result.Silent, []string{"silent"}) ||
			!slices.Equal(result.Older, []string{"old", "older-kind"}) || !slices.Equal(failures(&result), []string{"failing: LIMIT"}) {
			t.Errorf("%+v", result)
		}
		if text := result.Failed[0].Err.Message; !strings.HasPrefix(text, "too [31m much!") || len(text) > 1024 {
			t.Errorf("the error has %d bytes: %.100q", len(text), text)
		}
		if want := "map[failing:[half] whole:[one two three]]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		if asker.InProgress() != 0 || a.take != nil {
			t.Error("the query is not over")
		}

		// The slow and the silent ones leave, and nobody is waited for any more.
		a.remove("silent")
		begun = time.Now()
		if result, err := asker.Ask(t.Context(), question(), func(query.Part) {}); err != nil || time.Since(begun) != 3*time.Second || len(result.Silent) > 0 {
			t.Errorf("%+v, %v after %v", result, err, time.Since(begun))
		}
		q := question()
		q.Agents = []string{"emp*", "old"}
		begun = time.Now()
		if result, err := asker.Ask(t.Context(), q, func(query.Part) {}); err != nil || time.Since(begun) != 0 ||
			!slices.Equal(result.Answered, []string{"empty"}) || !slices.Equal(result.Older, []string{"old"}) {
			t.Errorf("of some: %+v, %v after %v", result, err, time.Since(begun))
		}
	})
}

// TestAnAgentLeaves: who leaves is not waited for.
func TestAnAgentLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAir(&agent{name: "n1"}, &agent{name: "n2", answer: func(a *agent, q *eventv1.Query) { a.say(q, nil) }})
		go func() {
			<-time.After(1500 * time.Millisecond)
			a.remove("n1")
		}()
		begun := time.Now()
		result, err := a.asker().Ask(t.Context(), question(), func(query.Part) {})
		if err != nil || time.Since(begun) != 2*time.Second || !slices.Equal(result.Silent, []string{"n1"}) || !slices.Equal(result.Answered, []string{"n2"}) {
			t.Errorf("%+v, %v after %v", result, err, time.Since(begun))
		}
	})
}

// TestForgedAnswers: whoever can publish on NATS, or is an agent of another tenant, changes nothing.
func TestForgedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thief := &agent{name: "thief", tenants: []string{"evil"}}
		honest := &agent{name: "n1", tenants: []string{"ac*"}}
		thief.answer = func(_ *agent, q *eventv1.Query) {
			m := &eventv1.Answer{Fleet: fleetID, Id: q.GetId(), Agent: "n1", Last: true, Kind: &eventv1.Answer_RecentLogs{
				RecentLogs: &eventv1.RecentLogs{Lines: []*eventv1.LogLine{{Tenant: "acme", Message: "forged"}}},
			}}
			of := honest.session()
			a := thief.air
			a.deliver("n1", sealed(m, seal.Session{}))                                        // unsigned
			a.deliver("n1", sealed(m, seal.Session{Token: of.Token, Key: []byte("guessed")})) // of a session that it has seen
			a.deliver("n1", []byte("rubbish"))
			status, err := seal.SealStatus(&eventv1.Status{Agent: "n1"}, of)
			if err != nil {
				t.Error(err)
			}
			a.deliver("n1", status) // which the agent has signed
			a.deliver("n1", make([]byte, 1<<20))
			a.deliver("n1", sealed(m, thief.session()))                                  // in its own session
			a.deliver("thief", sealed(m, thief.session()))                               // in the name of the other
			a.deliver("n1", sealed(m, (&agent{name: "n1", identity: "evil"}).session())) // of a namesake
			a.deliver("nobody", sealed(m, of))
			thief.say(q, nil, "of a tenant that it does not follow")
			honest.say(q, func(m *eventv1.Answer) { m.Fleet = "another" }, "forged")
			honest.say(q, func(m *eventv1.Answer) { m.Id = "another" }, "forged")
			honest.say(q, part(0, false), "true")
			honest.say(q, part(0, false), "true")
			honest.say(q, part(1, true), "true")
			honest.say(q, part(1, true), "true")
		}
		a := newAir(thief, honest)
		asker, got := a.asker(), collected{}
		result, err := asker.Ask(t.Context(), question(), got.take)
		if err != nil || !slices.Equal(result.Answered, []string{"n1"}) || !slices.Equal(result.Silent, []string{"thief"}) {
			t.Errorf("%+v, %v", result, err)
		}
		if want := "map[n1:[true true]]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		for of, want := range map[string]uint64{
			"taken": 2, "forged": 4, "malformed": 1, "other_session": 5, "doubled": 1, "unexpected": 3, "incomplete": 0, "too_large": 0,
		} {
			if got := asker.Count(of); got != want {
				t.Errorf("%d messages are %s, want %d", got, of, want)
			}
		}
	})
}

// TestBoundsOfAnAnswer: an agent that sends more than it may, or of which a part is missing, has failed,
// and others have not.
func TestBoundsOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 100_000)
		a := newAir(
			&agent{name: "endless", answer: func(a *agent, q *eventv1.Query) {
				for n := range uint32(100) {
					a.say(q, part(n, false), long)
				}
			}},
			&agent{name: "empty-parts", answer: func(a *agent, q *eventv1.Query) {
				for n := range uint32(10_000) {
					a.say(q, part(n, false))
				}
			}},
			&agent{name: "gap", answer: func(a *agent, q *eventv1.Query) {
				a.say(q, part(0, false), "one")
				a.say(q, part(2, true), "three")
			}},
			&agent{name: "honest", answer: func(a *agent, q *eventv1.Query) { a.say(q, nil, long) }},
		)
		q, got := question(), collected{}
		q.AgentBytes = 450_000
		result, err := a.asker().Ask(t.Context(), q, got.take)
		if err != nil || !slices.Equal(failures(&result), []string{"empty-parts: LIMIT", "endless: LIMIT", "gap: UNAVAILABLE"}) || !slices.Equal(result.Answered, []string{"honest"}) {
			t.Errorf("%+v, %v", result, err)
		}
		if n := len(got["endless"]); n != 4 {
			t.Errorf("%d parts of an endless answer were taken, want 4", n)
		}
		if a.queries[0].GetMaxBytes() != 450_000 || a.queries[0].GetSpread().AsDuration() != 0 {
			t.Errorf("%v", a.queries[0])
		}
	})
}

// TestALargeFleet: the more agents there are, the less each of them sends, and the later.
func TestALargeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 5000
		a := newAir()
		for i := range agents {
			name := fmt.Sprint("n", i)
			a.agents[name] = &agent{name: name, identity: "agents", air: a, answer: func(a *agent, q *eventv1.Query) { a.say(q, nil, "here") }}
		}
		q, lines := question(), 0
		q.Bytes = 10 << 20
		result, err := a.asker().Ask(t.Context(), q, func(query.Part) { lines++ })
		if err != nil || len(result.Answered) != agents || lines != agents {
			t.Errorf("%d answered with %d lines, %v", len(result.Answered), lines, err)
		}
		sent := a.queries[0]
		if sent.GetMaxBytes() != max(10<<20/agents, 2<<10) || sent.GetSpread().AsDuration() != time.Second || len(sent.GetAgents()) != 0 {
			t.Errorf("%v", sent)
		}
	})
}

// TestAVeryLargeFleet: all agents have room for what each may send at least.
func TestAVeryLargeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 10_000
		a := newAir()
		for i := range agents {
			name := fmt.Sprint("n", i)
			a.agents[name] = &agent{name: name, identity: "agents", air: a, answer: func(a *agent, q *eventv1.Query) {
				a.say(q, nil, strings.Repeat("x", int(q.GetMaxBytes())-128))
			}}
		}
		result, err := a.asker().Ask(t.Context(), question(), func(query.Part) {})
		if err != nil || len(result.Answered) != agents {
			t.Errorf("%d of %d answered, %d failed, %v", len(result.Answered), agents, len(result.Failed), err)
		}
	})
}

// TestBoundsOfQueries: neither one caller nor all together keep more than some queries in progress.
func TestBoundsOfQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAir(&agent{name: "silent"})
		asker := a.asker()
		ask := func(caller string, bytes int64) error {
			q := question()
			q.Caller, q.Bytes = caller, bytes
			_, err := asker.Ask(t.Context(), q, func(query.Part) {})
			return err
		}
		var all sync.WaitGroup
		begin := func(caller string, bytes int64) {
			all.Go(func() {
				if err := ask(caller, bytes); err != nil {
					t.Error(caller, err)
				}
			})
		}
		for range 8 {
			begin("ann", 1<<20)
		}
		synctest.Wait()
		if err := ask("ann", 1<<20); script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), "one caller") {
			t.Errorf("one more of a caller: %v", err)
		}
		begin("bob", 240<<20)
		synctest.Wait()
		if err := ask("cid", 16<<20); script.KindOf(err) != script.Limit {
			t.Errorf("more bytes than there is room for: %v", err)
		}
		for i := range 23 {
			begin(fmt.Sprint("other-", i/8), 1<<10)
		}
		synctest.Wait()
		if err := ask("cid", 1); script.KindOf(err) != script.Limit || asker.InProgress() != 32 {
			t.Errorf("one more of all: %v, with %d", err, asker.InProgress())
		}
		all.Wait()
		if err := ask("ann", 1<<20); err != nil || asker.InProgress() != 0 {
			t.Errorf("when all are over: %v, with %d", err, asker.InProgress())
		}
	})
}

func TestQuestionsThatAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAir(&agent{name: "n1"})
		asker := a.asker()
		for what, change := range map[string]func(*query.Question){
			"timeout":       func(q *query.Question) { q.Timeout = 0 },
			"long timeout":  func(q *query.Question) { q.Timeout = time.Hour },
			"many agents":   func(q *query.Question) { q.Agents = slices.Repeat([]string{"n"}, 65) },
			"bad pattern":   func(q *query.Question) { q.Agents = []string{"["} },
			"empty pattern": func(q *query.Question) { q.Agents = []string{""} },
			"long pattern":  func(q *query.Question) { q.Agents = []string{strings.Repeat("n", 300)} },
		} {
			q := question()
			change(&q)
			if _, err := asker.Ask(t.Context(), q, nil); script.KindOf(err) != script.Invalid {
				t.Errorf("%s: %v", what, err)
			}
		}
		q := question()
		q.Query = &eventv1.Query{}
		if _, err := asker.Ask(t.Context(), q, nil); script.KindOf(err) != script.Internal {
			t.Errorf("of no kind: %v", err)
		}
		q = question()
		q.Agents = []string{"edge-*"}
		if result, err := asker.Ask(t.Context(), q, nil); err != nil || fmt.Sprint(result) != "{[] [] [] [] []}" {
			t.Errorf("of nobody: %+v, %v", result, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := asker.Ask(ctx, question(), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its context ends: %v", err)
		}
		a.down = true
		if _, err := asker.Ask(t.Context(), question(), nil); script.KindOf(err) != script.Unavailable {
			t.Errorf("without NATS: %v", err)
		}
		if len(a.queries) != 1 {
			t.Errorf("%d queries were published, want 1", len(a.queries))
		}
	})
}

// FuzzAnswers: whatever comes on an agent's subject, nothing of it is taken that its session has not signed.
func FuzzAnswers(f *testing.F) {
	one := &agent{name: "n1", identity: "agents"}
	f.Add([]byte("\x08\x01"))
	f.Add(sealed(&eventv1.Answer{Fleet: fleetID, Agent: "n1", Last: true}, one.session()))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		a := newAir(&agent{name: "n1", answer: func(a *agent, _ *eventv1.Query) {
			a.air.deliver("n1", data)
			cancel()
		}})
		asker := a.asker()
		if _, err := asker.Ask(ctx, question(), func(query.Part) { t.Error("it was taken") }); err == nil {
			t.Error("it answered the query")
		}
	})
}
