package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// echo is an engine whose programs return their source, and which counts.
type echo struct {
	compiled, closed atomic.Int64
}

func (*echo) Name() string { return "echo" }

func (e *echo) Check(src engine.Source) error {
	if strings.HasPrefix(string(src.Code), "syntax error") {
		return script.Errorf(script.Script, "", "syntax error")
	}
	return nil
}

func (e *echo) Compile(src engine.Source) (engine.Program, error) {
	if err := e.Check(src); err != nil {
		return nil, err
	}
	e.compiled.Add(1)
	return &echoProgram{engine: e, code: string(src.Code)}, nil
}

type echoProgram struct {
	engine *echo
	code   string
}

func (p *echoProgram) Run(_ context.Context, _ *engine.Invocation, res *engine.Result) error {
	return res.Append(func(dst []byte) ([]byte, error) { return append(dst, p.code...), nil })
}

func (p *echoProgram) OnResponse() bool { return false }

func (p *echoProgram) Size() int { return 1000 }

func (p *echoProgram) Close() { p.engine.closed.Add(1) }

// shelf is where sources come from.
type shelf struct {
	mu      sync.Mutex
	sources map[script.Digest][]byte
	err     error
	reads   int
	enter   func()
}

func (s *shelf) Source(_ context.Context, d script.Digest) ([]byte, error) {
	if s.enter != nil {
		s.enter()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	return s.sources[d], nil
}

// put adds a source and returns a live release that runs it.
func (s *shelf) put(name, source string) *cache.Release {
	d := script.DigestOf([]byte(source))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		s.sources = map[script.Digest][]byte{}
	}
	s.sources[d] = []byte(source)
	v := script.Version{Number: 1, Digest: d, Engine: "echo"}
	return cache.NewRelease(script.Release{
		Name: script.Name{Tenant: "acme", Script: name}, Active: v, Retained: []script.Version{v}, Enabled: true,
	})
}

func newPrograms(s *shelf, budget int64) (*cache.Programs, *echo) {
	e := &echo{}
	return cache.NewPrograms(cache.Config{Engines: map[string]engine.Engine{"echo": e}, Sources: s, Budget: budget}), e
}

func run(tb testing.TB, p engine.Program) string {
	tb.Helper()
	var res engine.Result
	if err := p.Run(tb.Context(), &engine.Invocation{}, &res); err != nil {
		tb.Error(err)
		return ""
	}
	return string(res.Value(0))
}

// With a budget for two programs and calls of fifty scripts at once, every call
// gets its own program, and the budget holds.
func TestEvictionNeverMixesPrograms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &shelf{}
	const budget = 3500
	programs, e := newPrograms(s, budget)
	var releases []*cache.Release
	for i := range 50 {
		releases = append(releases, s.put(fmt.Sprint("s", i), fmt.Sprint("source ", i)))
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range 2000 {
				i := random.IntN(len(releases))
				if random.IntN(2) == 0 {
					i %= 3 // some are called often
				}
				p, err := programs.Of(t.Context(), releases[i], nil)
				if err != nil {
					t.Error(err)
					return
				}
				if got, want := run(t, p), fmt.Sprint("source ", i); got != want {
					t.Errorf("the program of %q answers %q", want, got)
					return
				}
			}
		})
	}
	wg.Wait()
	stats := programs.Stats()
	if stats.Bytes > budget || stats.Programs == 0 || stats.Evictions == 0 {
		t.Errorf("%+v", stats)
	}
	if open := e.compiled.Load() - e.closed.Load(); open != int64(stats.Programs) {
		t.Errorf("%d programs are open, %d are kept", open, stats.Programs)
	}
	programs.Close()
	if e.compiled.Load() != e.closed.Load() {
		t.Errorf("%d were compiled, %d closed", e.compiled.Load(), e.closed.Load())
	}
}

func TestOneLoadForManyCallers(t *testing.T) {
	release := make(chan struct{})
	s := &shelf{enter: func() { <-release }}
	programs, e := newPrograms(s, 1<<20)
	r := s.put("a", "source")
	var wg sync.WaitGroup
	var started sync.WaitGroup
	for range 20 {
		started.Add(1)
		wg.Go(func() {
			started.Done()
			if _, err := programs.Of(t.Context(), r, nil); err != nil {
				t.Error(err)
			}
		})
	}
	started.Wait()
	close(release)
	wg.Wait()
	// Whoever came after the load found the program.
	if e.compiled.Load() != 1 {
		t.Errorf("compiled %d times", e.compiled.Load())
	}
}

func TestADeadlineOfOneCallerFailsNoOther(t *testing.T) {
	release := make(chan struct{})
	s := &shelf{enter: func() { <-release }}
	programs, _ := newPrograms(s, 1<<20)
	r := s.put("a", "source")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := programs.Of(ctx, r, nil); script.KindOf(err) != script.Timeout {
		t.Errorf("a call whose time is over: %v", err)
	}
	close(release)
	if _, err := programs.Of(t.Context(), r, nil); err != nil {
		t.Error(err)
	}
}

func TestFailuresAreNotKept(t *testing.T) {
	s := &shelf{err: errors.New("disk on fire")}
	programs, _ := newPrograms(s, 1<<20)
	r := s.put("a", "source")
	if _, err := programs.Of(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "on fire") {
		t.Errorf("got %v", err)
	}
	s.err = nil
	if _, err := programs.Of(t.Context(), r, nil); err != nil {
		t.Error(err)
	}
}

func TestPrepare(t *testing.T) {
	s := &shelf{}
	programs, e := newPrograms(s, 3500)
	key := func(source string) cache.Key {
		return cache.Key{Engine: "echo", Digest: script.DigestOf([]byte(source))}
	}
	prepare := func(source string, keep bool) error {
		return programs.Prepare("acme", key(source), []byte(source), script.Inputs{}, keep)
	}
	if err := prepare("syntax error", true); script.KindOf(err) != script.Script {
		t.Errorf("what does not compile: %v", err)
	}
	if err := programs.Prepare("acme", cache.Key{Engine: "cobol"}, nil, script.Inputs{}, true); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "echo") {
		t.Errorf("an unknown engine: %v", err)
	}
	for _, src := range []string{"one", "two"} {
		if err := prepare(src, true); err != nil || !programs.Has(key(src)) {
			t.Errorf("%s: %v", src, err)
		}
	}
	if err := prepare("three", false); err != nil || programs.Has(key("three")) || !programs.Has(key("one")) {
		t.Errorf("without room, nothing should give way: %v", err)
	}
	if err := prepare("four", true); err != nil || !programs.Has(key("four")) || programs.Has(key("one")) {
		t.Errorf("the oldest should give way: %v", err)
	}
	compiled := e.compiled.Load()
	if err := prepare("four", true); err != nil || e.compiled.Load() != compiled {
		t.Errorf("compiled again: %v", err)
	}
}

func TestTable(t *testing.T) {
	s := &shelf{}
	table := cache.NewTable()
	var all []*cache.Release
	for i := range 1000 {
		all = append(all, s.put(fmt.Sprintf("s%03d", i), "x"))
	}
	table.Update(all, nil)
	again := s.put("s007", "y")
	table.Update([]*cache.Release{again}, []script.Name{{Tenant: "acme", Script: "s008"}, {Tenant: "acme", Script: "unknown"}})
	if table.Len() != 999 || table.Get("acme/s007") != again || table.Get("acme/s008") != nil || table.Get("acme/s009") != all[9] {
		t.Errorf("%d releases; s007 %v, s008 %v", table.Len(), table.Get("acme/s007"), table.Get("acme/s008"))
	}
	sorted := table.Sorted()
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].Name.String() >= sorted[i].Name.String() {
			t.Fatalf("%s is before %s", sorted[i-1].Name, sorted[i].Name)
		}
	}
}

func TestTheShortWayAllocatesNothing(t *testing.T) {
	s := &shelf{}
	programs, _ := newPrograms(s, 1<<20)
	table := cache.NewTable()
	table.Update([]*cache.Release{s.put("a", "source")}, nil)
	ctx := t.Context()
	name := "acme/a"
	if n := testing.AllocsPerRun(100, func() {
		if _, err := programs.Of(ctx, table.Get(name), nil); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOf(b *testing.B) {
	s := &shelf{}
	programs, _ := newPrograms(s, 1<<20)
	table := cache.NewTable()
	table.Update([]*cache.Release{s.put("a", "source")}, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := programs.Of(b.Context(), table.Get("acme/a"), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestReleasesAreSwappedTogether: who looks at two scripts, one after the other, never finds the second
// one older than the first.
func TestReleasesAreSwappedTogether(t *testing.T) {
	table := cache.NewTable()
	const last = 2000
	names := make([]script.Name, 8)
	for i := range names {
		names[i] = script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}
	}
	put := func(n int) {
		releases := make([]*cache.Release, len(names))
		for i, name := range names {
			releases[i] = cache.NewRelease(script.Release{Name: name, Revision: script.Revision(n), Enabled: true})
		}
		table.Update(releases, nil)
	}
	put(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 2; n <= last; n++ {
			put(n)
		}
	}()
	for seen := script.Revision(0); seen < last; {
		for _, name := range names {
			now := table.Revision(name.String())
			if now < seen {
				t.Fatalf("%s is at revision %d, and another one was at %d before", name, now, seen)
			}
			seen = now
		}
	}
	<-done
}
