package answer_test

import (
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

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sent are the parts that an agent has sent.
type sent struct {
	mu    sync.Mutex
	parts []*eventv1.Answer
	fail  func(*eventv1.Answer) error
}

func (s *sent) send(m *eventv1.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(m); err != nil {
			return err
		}
	}
	s.parts = append(s.parts, proto.CloneOf(m))
	return nil
}

// take returns the parts since the last time, in short.
func (s *sent) take() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.parts {
		text := fmt.Sprint(m.GetId(), " ", m.GetNumber())
		for _, l := range m.GetRecentLogs().GetLines() {
			text += fmt.Sprintf(" %.10s", l.GetMessage())
		}
		if m.GetLast() {
			text += " last"
		}
		if m.GetError() != nil {
			text += " " + m.GetError().GetKind()
		}
		if m.GetUnknownKind() {
			text += " unknown"
		}
		if m.GetFleet() != "f" || m.GetAgent() != "n1" {
			text += " of " + m.GetFleet() + "/" + m.GetAgent()
		}
		all = append(all, text)
	}
	s.parts = nil
	return all
}

func query(id string, change func(*eventv1.Query)) *eventv1.Query {
	q := &eventv1.Query{
		Fleet: "f", Id: id, SentAt: timestamppb.Now(), Timeout: durationpb.New(10 * time.Second), MaxBytes: 1 << 20,
		Kind: &eventv1.Query_RecentLogs{RecentLogs: &eventv1.RecentLogsQuery{}},
	}
	if change != nil {
		change(q)
	}
	return q
}

func lines(texts ...string) *eventv1.Answer {
	m := &eventv1.RecentLogs{}
	for _, text := range texts {
		m.Lines = append(m.Lines, &eventv1.LogLine{Message: text})
	}
	return &eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: m}}
}

// start runs an answerer with the handler until the test's bubble ends.
func start(t *testing.T, to *sent, handler answer.Handler) (a *answer.Answerer, outcomes func() string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg := answer.Config{Agent: "n1", Send: to.send, Log: slog.New(slog.DiscardHandler), Metrics: reg}
	if handler != nil {
		cfg.Handlers = map[string]answer.Handler{"recent_logs": handler}
	}
	a, err := answer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
	return a, func() string {
		families, err := reg.Gather()
		if err != nil || len(families) != 1 {
			t.Fatal(families, err)
		}
		metrics := families[0].GetMetric()
		var all []string
		for _, outcome := range []string{"answered", "failed", "unknown_kind", "replayed", "too_many"} {
			for _, m := range metrics {
				if n := m.GetCounter().GetValue(); n > 0 && m.GetLabel()[0].GetValue() == outcome {
					all = append(all, fmt.Sprint(outcome, " ", n))
				}
			}
		}
		return strings.Join(all, ", ")
	}
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to sent
		a, outcomes := start(t, &to, func(_ context.Context, q *eventv1.Query, send answer.Send) error {
			switch q.GetRecentLogs().GetName() {
			case "three":
				return errors.Join(send(lines("one")), send(lines("two")), send(lines("three")))
			case "fails":
				return errors.Join(send(lines("one")), script.Errorf(script.Invalid, "grep", "is wrong"))
			case "panics":
				panic("a fault")
			case "large":
				return send(lines(strings.Repeat("x", answer.MaxPart)))
			case "endless":
				for {
					if err := send(lines(strings.Repeat("x", 100_000))); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for name, want := range map[string][]string{
			"three":   {" 0 one", " 1 two", " 2 three last"},
			"nothing": {" 0 last"},
			"fails":   {" 0 one last INVALID"},
			"panics":  {" 0 last INTERNAL"},
			"large":   {" 0 last INTERNAL"},
			"endless": append(slices.Collect(func(yield func(string) bool) {
				for i := range 9 {
					if !yield(fmt.Sprint(" ", i, " xxxxxxxxxx")) {
						return
					}
				}
			}), " 9 xxxxxxxxxx last LIMIT"),
		} {
			a.Answer(query(name, func(q *eventv1.Query) { q.GetRecentLogs().Name = name }))
			<-time.After(time.Second)
			synctest.Wait()
			for i := range want {
				want[i] = name + want[i]
			}
			if got := to.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		a.Answer(query("other", func(q *eventv1.Query) { q.Kind = nil }))
		synctest.Wait()
		if got := to.take(); !slices.Equal(got, []string{"other 0 last unknown"}) {
			t.Errorf("of an unknown kind: %q", got)
		}
		if got := outcomes(); got != "answered 2, failed 4, unknown_kind 1" {
			t.Error(got)
		}
	})
}

// TestReplays: a query that comes again, or that is old, has no answer.
func TestReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to sent
		a, outcomes := start(t, &to, func(context.Context, *eventv1.Query, answer.Send) error { return nil })
		one := query("one", nil)
		for range 3 {
			a.Answer(one)
		}
		a.Answer(query("old", func(q *eventv1.Query) { q.SentAt = timestamppb.New(time.Now().Add(-6 * time.Minute)) }))
		a.Answer(query("early", func(q *eventv1.Query) { q.SentAt = timestamppb.New(time.Now().Add(6 * time.Minute)) }))
		late := query("late", func(q *eventv1.Query) { q.SentAt = timestamppb.New(time.Now().Add(4 * time.Minute)) })
		a.Answer(late)
		// However many come in between, and however old the first ones get.
		for i := range 20_000 {
			<-time.After(50 * time.Millisecond)
			a.Answer(query(fmt.Sprint("q", i), nil))
			if i%1000 == 0 {
				a.Answer(one)
				a.Answer(late)
			}
		}
		synctest.Wait()
		if got := outcomes(); got != "answered 20002, replayed 44" {
			t.Error(got)
		}
	})
}

// TestManyQueries: only some are answered at a time, and only so many a second.
func TestManyQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to sent
		a, outcomes := start(t, &to, func(ctx context.Context, _ *eventv1.Query, _ answer.Send) error {
			<-ctx.Done()
			return ctx.Err()
		})
		for i := range 30 {
			a.Answer(query(fmt.Sprint("slow", i), nil))
		}
		synctest.Wait()
		if got := outcomes(); got != "too_many 14" {
			t.Error(got)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := outcomes(); got != "failed 16, too_many 14" {
			t.Error(got)
		}
		for i := range 1000 {
			a.Answer(query(fmt.Sprint("fast", i), func(q *eventv1.Query) { q.Kind = nil }))
			synctest.Wait()
		}
		if got := outcomes(); got != "failed 16, unknown_kind 60, too_many 954" {
			t.Error(got)
		}
	})
}

// TestOneTenantLeavesRoom: whoever asks about one tenant, slowly or often, does not keep the agent from
// answers about others.
func TestOneTenantLeavesRoom(t *testing.T) {
	for name, wait := range map[string]bool{"slow": true, "often": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var to sent
				a, outcomes := start(t, &to, func(ctx context.Context, q *eventv1.Query, _ answer.Send) error {
					if wait && q.GetTenant() == "acme" {
						<-ctx.Done()
					}
					return nil
				})
				ask := func(id, tenant string) {
					a.Answer(query(id, func(q *eventv1.Query) { q.Tenant = tenant }))
				}
				for i := range 1000 {
					ask(fmt.Sprint("acme", i), "acme")
					if !wait {
						synctest.Wait()
					}
				}
				if got := outcomes(); got != map[bool]string{true: "too_many 992", false: "answered 30, too_many 970"}[wait] {
					t.Error(got)
				}
				to.take()
				for _, tenant := range []string{"shop", "books", "maps", "mail"} { // one may have the share of acme
					ask(tenant, tenant)
				}
				synctest.Wait()
				if len(to.take()) == 0 {
					t.Errorf("others have no answers: %s", outcomes())
				}
			})
		})
	}
}

// TestPace: a large answer takes its time, and one that takes too long says so.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to sent
		a, _ := start(t, &to, func(_ context.Context, _ *eventv1.Query, send answer.Send) error {
			for range 160 {
				if err := send(lines(strings.Repeat("x", 100<<10))); err != nil {
					return err
				}
			}
			return nil
		})
		large := func(q *eventv1.Query) { q.MaxBytes = 20 << 20 }
		a.Answer(query("one", large))
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		if n := len(to.take()); n < 120 || n > 140 {
			t.Errorf("%d parts of 100 KiB left in 1.5 s, want about 130", n)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got := to.take(); len(got) == 0 || got[len(got)-1] != "one 159 xxxxxxxxxx last" {
			t.Errorf("%q", got)
		}
		a.Answer(query("two", func(q *eventv1.Query) {
			large(q)
			q.Timeout = durationpb.New(time.Second)
		}))
		<-time.After(time.Second)
		synctest.Wait()
		if got := to.take(); len(got) < 80 || !strings.HasSuffix(got[len(got)-1], "last TIMEOUT") {
			t.Errorf("%q", got)
		}
	})
}

// TestSpread: an agent answers after a random time, and not at all if that is too late.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to sent
		a, _ := start(t, &to, func(context.Context, *eventv1.Query, answer.Send) error { return nil })
		begun := time.Now()
		for i := range 10 {
			a.Answer(query(fmt.Sprint(i), func(q *eventv1.Query) { q.Spread = durationpb.New(5 * time.Second) }))
		}
		<-time.After(2500 * time.Millisecond)
		synctest.Wait()
		if n := len(to.take()); n == 10 {
			t.Errorf("all ten answered within %v", time.Since(begun))
		}
		a.Answer(query("late", func(q *eventv1.Query) {
			q.Spread, q.Timeout = durationpb.New(100*time.Hour), durationpb.New(time.Millisecond)
		}))
		<-time.After(5 * time.Second)
		synctest.Wait()
		for _, got := range to.take() {
			if strings.HasPrefix(got, "late") {
				t.Error(got)
			}
		}
	})
}

// TestPartsThatNATSDoesNotTake: the answer says so in place of the part.
func TestPartsThatNATSDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := sent{fail: func(m *eventv1.Answer) error {
			if len(m.GetRecentLogs().GetLines()) > 0 {
				return script.Errorf(script.Limit, "", "raise max_payload")
			}
			return nil
		}}
		a, outcomes := start(t, &to, func(_ context.Context, q *eventv1.Query, send answer.Send) error {
			if q.GetId() == "two" {
				if err := send(lines("x")); err != nil {
					return err
				}
			}
			return send(lines("y"))
		})
		a.Answer(query("one", nil))
		synctest.Wait()
		a.Answer(query("two", nil))
		synctest.Wait()
		if got := to.take(); !slices.Equal(got, []string{"one 0 last LIMIT", "two 0 last LIMIT"}) {
			t.Errorf("%q", got)
		}
		if got := outcomes(); got != "failed 2" {
			t.Error(got)
		}
	})
}

func TestAHandlerForNoKind(t *testing.T) {
	if _, err := answer.New(answer.Config{Handlers: map[string]answer.Handler{"recent_lgos": nil}}); err == nil {
		t.Error("it has a handler for a kind that there is not")
	}
}
