package inside

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// holding is an executor whose calls last until they are released or canceled.
type holding struct {
	gateway.Executor
	began   chan string
	ended   chan error
	release chan struct{}
}

func newHolding() *holding {
	return &holding{began: make(chan string, 100), ended: make(chan error, 100), release: make(chan struct{})}
}

func (h *holding) Execute(ctx context.Context, call *gateway.Call, _ *gateway.Reply) error {
	h.began <- call.Script
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	h.ended <- ctx.Err()
	return ctx.Err()
}

// opens is the onError of each script.
func opens(context.Context, string) script.OnError {
	return script.OnError{Policy: script.PolicyOpen}
}

// TestOnErrorOfWhatIsGuarded: what does not run for what it may do has its policy all the same.
func TestOnErrorOfWhatIsGuarded(t *testing.T) {
	g := newGuard(newHolding(), nil, opens, cache.NewTable(), nil, nil)
	g.set(&workerv1.QuarantineRequest{
		Scripts:  []*workerv1.Quarantined{{Script: "acme/a", Error: wire.FromError(script.Errorf(script.Limit, "", "it ended the process"))}},
		Suspects: []string{"acme/b"},
	})
	g.alone <- struct{}{}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for ref, kind := range map[string]script.Kind{"acme/a@2": script.Limit, "acme/b": script.Overloaded} {
		var reply gateway.Reply
		if err := g.Execute(over, &gateway.Call{Script: ref}, &reply); script.KindOf(err) != kind || !reply.OnError.Opens() {
			t.Errorf("%s: %v, %+v", ref, err, reply.OnError)
		}
	}
}

func (*holding) Position() gateway.Position { return gateway.Position{} }

// TestSuspectsWaitBriefly: while a suspect runs for long, others of them are refused
// after a second, or at once if many wait; those that nobody suspects are not held up.
func TestSuspectsWaitBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newHolding()
		g := newGuard(x, nil, opens, cache.NewTable(), nil, nil)
		g.set(&workerv1.QuarantineRequest{Suspects: []string{"acme/a", "acme/b"}})
		var callers sync.WaitGroup
		call := func(name string) <-chan error {
			done := make(chan error, 1)
			callers.Go(func() { done <- g.Execute(t.Context(), &gateway.Call{Script: name}, &gateway.Reply{}) })
			return done
		}
		call("acme/a@2")
		if got := <-x.began; got != "acme/a@2" {
			t.Errorf("%s began", got)
		}
		start := time.Now()
		var waiting []<-chan error
		for range maxSuspects {
			waiting = append(waiting, call("acme/b"))
		}
		synctest.Wait()
		call("acme/other")
		if got := <-x.began; got != "acme/other" {
			t.Errorf("%s began", got)
		}
		if err := <-call("acme/b"); script.KindOf(err) != script.Overloaded || time.Since(start) != 0 {
			t.Errorf("one too many: %v after %v", err, time.Since(start))
		}
		for _, w := range waiting {
			if err := <-w; script.KindOf(err) != script.Overloaded || time.Since(start) != suspectPatience {
				t.Errorf("one that waited: %v after %v", err, time.Since(start))
			}
		}
		next := call("acme/b")
		synctest.Wait()
		close(x.release)
		if err := <-next; err != nil {
			t.Errorf("its turn came: %v", err)
		}
		callers.Wait()
		if n := g.waiting.Load(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// TestACallEndsWithItsCaller: what runs for an agent that has closed the connection is
// canceled.
func TestACallEndsWithItsCaller(t *testing.T) {
	x := newHolding()
	s := &service{process: &process{log: slog.New(slog.DiscardHandler)}, executor: newGuard(x, nil, opens, cache.NewTable(), nil, nil)}
	ours, theirs, err := link.Stream()
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.answerCalls(theirs)
	}()
	send := func() {
		frame, err := link.AppendFrame(link.AppendTimeout(nil, time.Hour), &workerv1.ExecuteRequest{Script: "acme/a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Write(frame); err != nil {
			t.Fatal(err)
		}
		<-x.began
	}
	send()
	x.release <- struct{}{}
	var resp workerv1.ExecuteResponse
	if _, err := link.ReadFrame(ours, link.MaxMessage, nil, &resp); err != nil || <-x.ended != nil {
		t.Errorf("the first: %v", err)
	}
	send()
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-x.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	<-answered
}

// counting is an engine that notes what it compiles.
type counting struct {
	engine.Engine
	compiled map[string]int
}

func (c *counting) Compile(src engine.Source) (engine.Program, error) {
	c.compiled[string(src.Code)]++
	return program{}, nil
}

type program struct{ engine.Program }

func (program) OnResponse() bool { return false }

func (program) Size() int { return 1 }

func (program) Close() {}

type sources map[script.Digest]string

func (s sources) Source(_ context.Context, d script.Digest) ([]byte, error) {
	return []byte(s[d]), nil
}

// TestWhoIsBarredIsNotCompiled: a script that kills the process when it is compiled does
// not do so any more once it is known, nor does another one with its source.
func TestWhoIsBarredIsNotCompiled(t *testing.T) {
	e, from := &counting{compiled: map[string]int{}}, sources{}
	release := func(name, source string) *cache.Release {
		d := script.DigestOf([]byte(source))
		from[d] = source
		return cache.NewRelease(script.Release{
			Name: script.Name{Tenant: "acme", Script: name}, Enabled: true, Active: script.Version{Number: 1, Digest: d, Engine: "counting"},
		})
	}
	newService := func() *service {
		table := cache.NewTable()
		return &service{
			process: &process{log: slog.New(slog.DiscardHandler)}, executor: newGuard(newHolding(), nil, opens, table, nil, nil), table: table,
			programs: cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"counting": e}, Sources: from, Budget: 1 << 20}),
		}
	}
	barred := &workerv1.QuarantineRequest{Scripts: []*workerv1.Quarantined{{Script: "acme/bad", Error: wire.FromError(script.Errorf(script.Unavailable, "", "in quarantine"))}}, Suspects: []string{"acme/suspect"}}
	for name, compile := range map[string]func(*service, []*cache.Release){
		"at the start": func(s *service, _ []*cache.Release) { s.warm(t.Context()) },
		"by a change":  func(s *service, all []*cache.Release) { s.compile(t.Context(), all) },
	} {
		clear(e.compiled)
		s := newService()
		all := []*cache.Release{release("good", "good"), release("bad", "bad"), release("twin", "bad"), release("suspect", "maybe")}
		s.table.Update(all, nil)
		s.executor.set(barred)
		compile(s, all)
		for _, ref := range []string{"acme/bad", "acme/bad@1", "acme/twin"} {
			if err := s.executor.Execute(t.Context(), &gateway.Call{Script: ref}, &gateway.Reply{}); script.KindOf(err) != script.Unavailable {
				t.Errorf("%s: %v", ref, err)
			}
		}
		if len(e.compiled) != 1 || e.compiled["good"] != 1 {
			t.Errorf("%s: compiled %v", name, e.compiled)
		}
	}
}

// TestLinesFitARequest: as many as go together are less than the agent takes.
func TestLinesFitARequest(t *testing.T) {
	hostile := strings.Repeat("a\xff", maxLine)
	if got := asText(hostile, maxLine); len(got) > maxLine || len(got) < maxLine-3 {
		t.Errorf("%d bytes of a line of %d", len(got), len(hostile))
	}
	if got := asText("short \xff", maxLine); got != "short \uFFFD" {
		t.Errorf("%q", got)
	}
	if most := together * (maxLine + maxTrace + 64 + binary.MaxVarintLen64); most > 1<<20 {
		t.Errorf("lines that go together have %d bytes", most)
	}
}

// TestRunning: one processor is left, and a tenant has no more than it may.
func TestRunning(t *testing.T) {
	for processors, want := range map[int32]func(int) bool{
		0: func(n int) bool { return n == 1 }, 1: func(n int) bool { return n == 1 },
		1 << 20: func(n int) bool { return n >= 1 && n < 1<<20 },
	} {
		p := &process{}
		p.assignment.Processors = processors
		if got := p.running(); !want(got) {
			t.Errorf("%d of %d processors", got, processors)
		}
	}
}

// TestNoShadowBesideSuspects: what runs beside a suspect would hide whether that ends the process.
func TestNoShadowBesideSuspects(t *testing.T) {
	page, file, err := link.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = file.Close(), page.Close() }()
	g := newGuard(newHolding(), nil, opens, cache.NewTable(), nil, page)
	route := cache.NewRelease(script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Active: script.Version{Number: 1}})
	quarantined := func(name string) *workerv1.QuarantineRequest {
		return &workerv1.QuarantineRequest{Scripts: []*workerv1.Quarantined{{Script: name, Error: wire.FromError(script.Errorf(script.Unavailable, "", "in quarantine"))}}}
	}
	for _, c := range []struct {
		rules *workerv1.QuarantineRequest
		runs  bool
	}{
		{&workerv1.QuarantineRequest{}, true},
		{quarantined("acme/other"), true},
		{quarantined("acme/route"), false},
		{&workerv1.QuarantineRequest{Suspects: []string{"acme/other"}}, false},
	} {
		g.set(c.rules)
		leave, ok := g.shadow(route)
		if ok != c.runs || page.Running()[link.MarkShadow(route.Name)] != c.runs {
			t.Errorf("%v: it runs: %v, %v is marked", c.rules, ok, page.Running())
		}
		if ok {
			leave()
		}
	}
}
