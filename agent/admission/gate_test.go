package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/admission"
	"github.com/scriptorium-dev/scriptorium/script"
)

// instruction is how often a call of the simulation looks whether its turn is asked
// for.
const instruction = 50 * time.Microsecond

// machine is a gate whose turns are watched.
type machine struct {
	*admission.Gate
	tb    testing.TB
	turns int64
	held  atomic.Int64 // turns that were given out
}

func newMachine(tb testing.TB, running, waiting int) *machine {
	tb.Helper()
	return &machine{Gate: admission.New(admission.Config{Running: running, Waiting: waiting}), tb: tb, turns: int64(running)}
}

// job is a call of the simulation.
type job struct {
	tenant, script string
	concurrency    int
	settings       script.TenantSettings
	timeout        time.Duration
	work           time.Duration // of processor time
	late           time.Duration // until the engine's clock begins
	background     bool
}

func (m *machine) hold(n int64) {
	if held := m.held.Add(n); held > m.turns+2 || held < 0 { // one is brief, and one may not have noticed yet
		m.tb.Errorf("%d turns are held, of %d", held, m.turns)
	}
}

// run does the job and returns for how long it waited for its first turn, and how
// much it worked.
func (m *machine) run(ctx context.Context, j job) (waited, worked time.Duration, err error) {
	if j.timeout == 0 {
		j.timeout = time.Hour
	}
	var turn admission.Turn
	born := time.Now()
	if err := m.Enter(ctx, &turn, &admission.Call{
		Tenant: j.tenant, Script: j.script, Concurrency: j.concurrency, Timeout: j.timeout, Settings: &j.settings, Background: j.background,
	}); err != nil {
		return time.Since(born), 0, err
	}
	entered := time.Now()
	defer turn.Leave()
	m.hold(1)
	held := true
	defer func() {
		if held {
			m.hold(-1)
		}
	}()
	<-time.After(j.late)
	began := time.Now()
	var asked atomic.Bool
	turn.Bind(func() { asked.Store(true) })
	over := func() bool { return ctx.Err() != nil || time.Since(began) >= j.timeout }
	for worked < j.work && !over() {
		step := min(instruction, j.work-worked)
		<-time.After(step)
		worked += step
		if !asked.Swap(false) {
			continue
		}
		m.hold(-1)
		turn.Yield()
		if held = !over(); !held { // it may be without a turn
			break
		}
		if m.Stats().Running == 0 {
			m.tb.Error("a call goes on, and has no turn")
		}
		m.hold(1)
	}
	return entered.Sub(born), worked, nil
}

// spin runs calls of a tenant one after the other until ctx is done, and adds up what
// they worked.
func (m *machine) spin(ctx context.Context, worked *atomic.Int64, j job) {
	for ctx.Err() == nil {
		_, did, _ := m.run(ctx, j)
		worked.Add(int64(did))
	}
}

func settled(t *testing.T, m *machine) {
	t.Helper()
	if s := m.Stats(); s.Running != 0 || s.Waiting != 0 || s.Paused != 0 || m.held.Load() != 0 {
		t.Errorf("when all is over: %+v, %d held", s, m.held.Load())
	}
}

// Tenants that take all they can get, each with a number of calls and calls of a
// length of its own, get equal shares; a quiet one waits for no more than an
// instruction to be finished.
func TestShares(t *testing.T) {
	for _, turns := range []int{1, 3} {
		t.Run(fmt.Sprint(turns, " turns"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t, turns, 1024)
				const lasting, spinners = 5 * time.Second, 5
				ctx, cancel := context.WithTimeout(t.Context(), lasting)
				defer cancel()
				var all sync.WaitGroup
				var worked [spinners]atomic.Int64
				for i := range spinners {
					j := job{tenant: fmt.Sprint("spinner-", i), work: time.Duration(i*i*i+1) * 700 * time.Microsecond, timeout: 100 * time.Millisecond}
					for range i*2 + turns { // connections
						all.Go(func() { m.spin(ctx, &worked[i], j) })
					}
				}
				var longest time.Duration
				began := time.Now()
				all.Go(func() {
					for ctx.Err() == nil {
						<-time.After(3*time.Millisecond + 17*time.Microsecond)
						waited, _, err := m.run(t.Context(), job{tenant: "quiet", work: 20 * time.Microsecond})
						if err != nil {
							t.Error(err)
						}
						if time.Since(began) > lasting/100 { // before, nobody has used anything
							longest = max(longest, waited)
						}
					}
				})
				all.Wait()
				settled(t, m)
				if longest > 2*instruction {
					t.Errorf("the quiet tenant waited %v", longest)
				}
				share := lasting * time.Duration(turns) / spinners
				for i := range worked {
					got := time.Duration(worked[i].Load())
					if got < share*9/10 || got > share*11/10 {
						t.Errorf("spinner %d worked %v, its share is %v", i, got, share)
					}
				}
			})
		})
	}
}

// Who had the machine alone does not pay for it when others come.
func TestNobodyPaysForWhatNobodyWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		var early, late atomic.Int64
		var all sync.WaitGroup
		all.Go(func() { m.spin(ctx, &early, job{tenant: "early", work: 20 * time.Second}) })
		all.Go(func() {
			<-time.After(5 * time.Second)
			m.spin(ctx, &late, job{tenant: "late", work: 5 * time.Millisecond})
		})
		all.Wait()
		if got := time.Duration(late.Load()); got < 450*time.Millisecond || got > 550*time.Millisecond {
			t.Errorf("the late one worked %v of the last second", got)
		}
		settled(t, m)
	})
}

// A short call of a tenant is not held up by a long one of the same tenant.
func TestShortBehindLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 16)
		var all sync.WaitGroup
		all.Go(func() { m.run(t.Context(), job{tenant: "a", work: 50 * time.Millisecond}) })
		<-time.After(time.Microsecond)
		waited, _, err := m.run(t.Context(), job{tenant: "a", work: time.Millisecond})
		if err != nil || waited > 2*time.Millisecond {
			t.Errorf("%v, waited %v", err, waited)
		}
		all.Wait()
		settled(t, m)
	})
}

// A tenant with a bucket gets no more than that, even alone, and what it did not use
// for a second; and it gets that.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 2, 16)
		const lasting = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), lasting)
		defer cancel()
		var worked [2]atomic.Int64
		var all sync.WaitGroup
		for i, cpu := range []int{250, 50} {
			j := job{tenant: fmt.Sprint("t", i), work: 7 * time.Millisecond, settings: script.TenantSettings{CPU: cpu}}
			for range 3 {
				all.Go(func() { m.spin(ctx, &worked[i], j) })
			}
		}
		all.Wait()
		for i, cpu := range []float64{0.25, 0.05} {
			got, want := time.Duration(worked[i].Load()), time.Duration(cpu*float64(lasting+time.Second))
			if got < want*95/100 || got > want*105/100 {
				t.Errorf("%v of a core: worked %v, want %v", cpu, got, want)
			}
		}
		settled(t, m)
	})
}

// A call of a tenant whose bucket is empty waits, and its error names the setting.
func TestEmptyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 8, 16)
		bound := script.TenantSettings{CPU: 1}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				m.run(t.Context(), job{tenant: "a", work: time.Second, timeout: 20 * time.Millisecond, settings: bound})
			})
		}
		all.Wait()
		waited, _, err := m.run(t.Context(), job{tenant: "a", settings: bound})
		e := script.AsError(err)
		if e == nil || e.Kind != script.Overloaded || e.Field != "tenant.cpu" || waited != time.Second ||
			e.Message != "a has used the 1 thousandths of a core that its setting cpu allows: try again" || m.Stats().Overloaded["cpu"] != 1 {
			t.Errorf("%v after %v", err, waited)
		}
		if waited, _, err := m.run(t.Context(), job{tenant: "b"}); err != nil || waited != 0 {
			t.Errorf("another tenant: %v after %v", err, waited)
		}
		settled(t, m)
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 8, 16)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		long := func(j job) {
			j.work = time.Hour
			all.Go(func() { m.run(ctx, j) })
			synctest.Wait()
		}
		two := script.TenantSettings{Concurrency: 2}
		long(job{tenant: "a", settings: two})
		long(job{tenant: "a", settings: two})
		long(job{tenant: "b", script: "s", concurrency: 1})
		for _, test := range []struct {
			job         job
			field, says string
		}{
			{job{tenant: "a", settings: two}, "tenant.concurrency", "2 calls of a are in progress, as many as its setting concurrency allows: try again"},
			{job{tenant: "b", script: "s", concurrency: 1}, "limits.concurrency", "1 calls of b/s are in progress, as many as its limit concurrency allows: try again"},
		} {
			waited, _, err := m.run(t.Context(), test.job)
			e := script.AsError(err)
			if e == nil || e.Kind != script.Overloaded || e.Field != test.field || e.Message != test.says || waited != time.Second {
				t.Errorf("%v after %v, want %s", err, waited, test.says)
			}
			short, done := context.WithTimeout(t.Context(), time.Millisecond)
			_, _, err = m.run(short, test.job)
			done()
			if e := script.AsError(err); e == nil || e.Field != test.field || !strings.Contains(e.Message, "in progress") {
				t.Errorf("its time ran out: %v", err)
			}
		}
		// A script that is at its bound does not hold up its tenant's others.
		all.Go(func() { m.run(t.Context(), job{tenant: "b", script: "s", concurrency: 1}) })
		synctest.Wait()
		if waited, _, err := m.run(t.Context(), job{tenant: "b", script: "other", concurrency: 1}); err != nil || waited != 0 {
			t.Errorf("another script: %v after %v", err, waited)
		}
		cancel()
		all.Wait()
		settled(t, m)
	})
}

// A tenant that fills the queue makes room for one that does not.
func TestCrowdedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, 1, 8)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		errs := map[string][]error{}
		var mu sync.Mutex
		enter := func(tenant string) {
			all.Go(func() {
				_, _, err := m.run(ctx, job{tenant: tenant, work: time.Hour})
				mu.Lock()
				defer mu.Unlock()
				errs[tenant] = append(errs[tenant], err)
			})
			synctest.Wait()
		}
		refused := func(tenant string) int {
			mu.Lock()
			defer mu.Unlock()
			return len(errs[tenant])
		}
		for range 6 { // one runs, half of 8 wait, one is refused
			enter("a")
		}
		if refused("a") != 1 || script.AsError(errs["a"][0]).Message != "4 calls of a are waiting, the most that one tenant may have on this agent, half of --max-waiting: try again" {
			t.Errorf("one too many of one tenant: %v", errs["a"])
		}
		for range 4 {
			enter("b")
		}
		if refused("a") != 1 || refused("b") != 0 {
			t.Fatalf("there was room: %v", errs)
		}
		enter("c")
		if refused("c") != 0 || refused("a")+refused("b") != 2 {
			t.Errorf("c needed room: %v", errs)
		}
		enter("c")
		enter("c") // has two of eight waiting, nobody more than three… but by one
		if refused("a")+refused("b")+refused("c") != 4 {
			t.Errorf("three needed room: %v", errs)
		}
		s := m.Stats()
		if s.Waiting != 8 || s.Overloaded["tenant_queue"] != 1 || s.Overloaded["crowded_out"]+s.Overloaded["agent_queue"] != 3 {
			t.Errorf("%+v", s)
		}
		cancel()
		all.Wait()
		settled(t, m)
	})
}

// Whatever calls come, in whatever order: there are never more turns than there are,
// nobody waits while one is free, and all come to their end.
func TestSimulation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(rounds) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, round))
			m := newMachine(t, 1+random.IntN(4), 1+random.IntN(20))
			settings := make([]script.TenantSettings, 6)
			for i := range settings {
				settings[i] = script.TenantSettings{Concurrency: random.IntN(4), CPU: random.IntN(3) * random.IntN(1000)}
			}
			var all sync.WaitGroup
			var answered, refused atomic.Int64
			calls := 500
			for range calls {
				j := job{
					work:    time.Duration(random.ExpFloat64() * float64(2*time.Millisecond)),
					timeout: time.Duration(random.IntN(100)) * time.Millisecond,
					script:  fmt.Sprint(random.IntN(3)), concurrency: random.IntN(3),
				}
				i := random.IntN(len(settings))
				j.tenant, j.settings = fmt.Sprint(i), settings[i]
				after := time.Duration(random.IntN(1000)) * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), after+time.Duration(random.IntN(200))*time.Millisecond)
				all.Go(func() {
					defer cancel()
					<-time.After(after)
					if _, _, err := m.run(ctx, j); err != nil {
						refused.Add(1)
						return
					}
					answered.Add(1)
				})
			}
			all.Wait()
			settled(t, m)
			s := m.Stats()
			var counted uint64
			for _, n := range s.Overloaded {
				counted += n
			}
			if answered.Load()+refused.Load() != int64(calls) || counted > uint64(refused.Load()) || answered.Load() == 0 {
				t.Errorf("%d answered, %d refused, %+v", answered.Load(), refused.Load(), s)
			}
		})
	}
}

// The same with real goroutines on real processors, for the race detector.
func TestStampede(t *testing.T) {
	m := newMachine(t, 2, 64)
	var all sync.WaitGroup
	for worker := range 32 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			var turn admission.Turn
			var asked atomic.Bool
			ask := func() { asked.Store(true) }
			settings := script.TenantSettings{}
			call := &admission.Call{Tenant: fmt.Sprint(worker % 5), Timeout: time.Hour, Settings: &settings}
			for range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(20_000))*time.Microsecond)
				if err := m.Enter(ctx, &turn, call); err == nil {
					m.hold(1)
					held := true
					turn.Bind(ask)
					for range random.IntN(30_000) {
						if !asked.Load() || !asked.Swap(false) {
							continue
						}
						m.hold(-1)
						turn.Yield()
						if held = ctx.Err() == nil; !held { // it may be without a turn
							break
						}
						m.hold(1)
					}
					if held {
						m.hold(-1)
					}
					turn.Leave()
				}
				cancel()
			}
		})
	}
	all.Wait()
	settled(t, m)
	t.Logf("%+v", m.Stats())
}

func TestFreeTurnsCostNothing(t *testing.T) {
	m := newMachine(t, 2, 2)
	var turn admission.Turn
	call := &admission.Call{Tenant: "a", Timeout: time.Second, Settings: &script.TenantSettings{}}
	ctx := t.Context()
	allocs := testing.AllocsPerRun(1000, func() {
		if err := m.Enter(ctx, &turn, call); err != nil {
			t.Error(err)
		}
		turn.Leave()
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkFree(b *testing.B) {
	g := admission.New(admission.Config{Running: 2, Waiting: 2})
	var turn admission.Turn
	call := &admission.Call{Tenant: "a", Timeout: time.Second, Settings: &script.TenantSettings{}}
	ctx := b.Context()
	for b.Loop() {
		if err := g.Enter(ctx, &turn, call); err != nil {
			b.Fatal(err)
		}
		turn.Leave()
	}
}
