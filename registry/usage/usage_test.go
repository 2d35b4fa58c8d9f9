package usage_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

// flaky is a store that fails now and then, before or after it has done what it was asked.
type flaky struct {
	usage.Store
	writes atomic.Int64

	mu     sync.Mutex
	random *rand.Rand // nil: it does not fail
}

// use has the store fail at random from now on, or not at all.
func (f *flaky) use(random *rand.Rand) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.random = random
}

func (f *flaky) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random != nil && f.random.IntN(5) == 0
}

var errFlaky = script.Errorf(script.Unavailable, "", "no such luck")

func (f *flaky) PutUsage(ctx context.Context, term int64, parts []usage.Part) error {
	f.writes.Add(int64(len(parts)))
	if f.fails() {
		return errFlaky
	}
	if err := f.Store.PutUsage(ctx, term, parts); err != nil {
		return err
	}
	if f.fails() {
		return errFlaky
	}
	return nil
}

func (f *flaky) Usage(ctx context.Context, from, until time.Time, number int) iter.Seq2[usage.Part, error] {
	if f.fails() {
		return func(yield func(usage.Part, error) bool) { yield(usage.Part{}, errFlaky) }
	}
	return f.Store.Usage(ctx, from, until, number)
}

// replicas are ledgers with one store.
type replicas struct {
	t     *testing.T
	store *flaky
	all   []*usage.Ledger
	term  int64
	agent map[string]*agent
}

func newReplicas(t *testing.T, n int) *replicas {
	t.Helper()
	r := &replicas{t: t, store: &flaky{Store: memstore.New()}, agent: map[string]*agent{}}
	for range n {
		r.all = append(r.all, r.newLedger())
	}
	return r
}

func (r *replicas) newLedger() *usage.Ledger {
	return usage.New(usage.Config{Store: r.store, Knows: func(tenant string) bool { return tenant != "nobody" }, Log: slog.New(slog.DiscardHandler)})
}

// lead has a replica lead until the returned function is called.
func (r *replicas) lead(n int) (stop func()) {
	r.term++
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.all[n].Lead(ctx, r.term)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

// agent reports what calls of tenants used.
type agent struct {
	incarnation string
	sequence    uint64
}

// report has the agent report to those replicas that hears says, three times. used: of one second of each tenant.
func (r *replicas) report(name string, hears func(replica, time int) bool, apart time.Duration, tenants ...string) {
	a := r.agent[name]
	if a == nil {
		a = &agent{incarnation: "1"}
		r.agent[name] = a
	}
	a.sequence++
	for again := range 3 {
		for n, l := range r.all {
			if !hears(n, again) {
				continue
			}
			u := &fleet.Usage{Sequence: a.sequence, Repeated: again > 0, Covers: time.Minute, Processors: 2}
			for _, tenant := range tenants {
				u.Tenants = append(u.Tenants, script.TenantUsage{Tenant: tenant, Usage: used})
			}
			l.Heard(&fleet.Report{Agent: name, Incarnation: a.incarnation, Usage: u})
		}
		pass(apart)
	}
}

var used = script.Usage{Calls: 10, Errors: 1, ProcessorTime: time.Second, Instructions: 1000, BytesIn: 7, BytesOut: 8}

func everyone(int, int) bool { return true }

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// read returns what is kept of the tenant, or of all.
func (r *replicas) read(f usage.Filter) (sum script.Usage, hours int) {
	r.t.Helper()
	before := script.HourUsage{}
	for u, err := range r.all[0].Read(r.t.Context(), f) {
		if err != nil {
			r.t.Fatal(err)
		}
		if u.Hour.Before(before.Hour) || u.Hour.Equal(before.Hour) && u.Tenant <= before.Tenant {
			r.t.Errorf("%v comes after %v", u, before)
		}
		before = u
		sum, hours = sum.Add(u.Usage), hours+1
	}
	return sum, hours
}

func times(n int) script.Usage {
	var sum script.Usage
	for range n {
		sum = sum.Add(used)
	}
	return sum
}

func (r *replicas) want(what string, f usage.Filter, reports, hours int) {
	r.t.Helper()
	if sum, n := r.read(f); sum != times(reports) || n != hours {
		r.t.Errorf("%s: %+v in %d hours, want %+v in %d", what, sum, n, times(reports), hours)
	}
}

// TestUsageIsKeptByTheHour: of each tenant, whoever reports it, once.
func TestUsageIsKeptByTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 2)
		stop := r.lead(0)
		r.store.writes.Store(0)
		for range 3 {
			for _, agent := range []string{"n1", "n2", "n3"} {
				r.report(agent, everyone, 5*time.Second, "acme", "shop", "nobody")
			}
			pass(time.Hour)
		}
		r.want("all", usage.Filter{}, 18, 6)
		r.want("a tenant", usage.Filter{Tenant: "acme"}, 9, 3)
		r.want("the last hour but one", usage.Filter{Tenant: "acme", Since: time.Now().Truncate(time.Hour).Add(-2 * time.Hour), Until: time.Now().Truncate(time.Hour).Add(-time.Hour)}, 3, 1)
		r.want("another tenant", usage.Filter{Tenant: "zoo"}, 0, 0)
		if n := r.store.writes.Load(); n > 3*2*4 {
			t.Errorf("%d parts were written for two tenants in three hours with a few reports", n)
		}
		stats := r.all[0].Stats()
		if stats.Counted != 9 || stats.Repeated != 18 || stats.Unknown != 9 || stats.Clamped != 0 || stats.Dropped != 0 {
			t.Errorf("counts: %+v", stats)
		}
		// What comes just before a leader stops is stored, and the next one adds to it.
		r.report("n1", everyone, 0, "acme")
		stop()
		r.want("after it stopped", usage.Filter{Tenant: "acme"}, 10, 4)
		stop = r.lead(1)
		r.report("n1", everyone, 0, "acme")
		stop()
		r.want("of the next leader", usage.Filter{Tenant: "acme"}, 11, 4)
	})
}

func TestUsageIsPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		defer r.lead(0)()
		for range 40 {
			r.report("n1", everyone, 5*time.Second, "acme")
			pass(24*time.Hour - 15*time.Second)
		}
		if _, hours := r.read(usage.Filter{}); hours < 30 || hours > 31 {
			t.Errorf("of 40 days %d are kept", hours)
		}
		parts := 0
		for range r.store.Store.Usage(t.Context(), time.Unix(0, 0), time.Now().Add(time.Hour), -1) {
			parts++
		}
		if parts > 32 {
			t.Errorf("the store has %d hours of one call a day", parts)
		}
	})
}

// TestNoUsageIsCountedTwice changes leaders, loses reports, and has the store fail: what is kept is never more than what
// was used, and all of it if no leader was lost.
func TestNoUsageIsCountedTwice(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("crashes=%v,seed=%d", crashes, seed), func(t *testing.T) {
			random, flaws := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1)) // of the test, and of the store
			synctest.Test(t, func(t *testing.T) {
				r := newReplicas(t, 3)
				r.store.use(flaws)
				reports, lost, leader := 0, 0, 0
				stop := r.lead(leader)
				for range 300 {
					missing := random.IntN(3)
					// One of the three times gets lost on the way to a replica, but never the leader's all.
					r.report(fmt.Sprint("n", random.IntN(20)), func(replica, again int) bool { return again != missing || replica == leader && again == 0 }, 5*time.Second, "acme")
					reports++
					if random.IntN(10) != 0 {
						continue
					}
					if crashes && random.IntN(2) == 0 { // what it has not stored is lost, and it begins anew
						r.all[leader] = r.newLedger()
						lost += 30/15 + 1
					} else {
						r.store.use(nil)
						stop()
						r.store.use(flaws)
					}
					leader = random.IntN(3)
					stop = r.lead(leader)
				}
				r.store.use(nil)
				stop()
				sum, _ := r.read(usage.Filter{})
				if most := times(reports); sum.Calls > most.Calls || !crashes && sum != most {
					t.Errorf("%d calls are kept of %d", sum.Calls, most.Calls)
				}
				if least := times(max(0, reports-8*lost)); sum.Calls < least.Calls {
					t.Errorf("%d calls are kept of %d, though only %d reports could be lost", sum.Calls, times(reports).Calls, 8*lost)
				}
			})
		})
	}
}

// TestALateLeaderStoresNothing: of two that lead, the one of the later term counts.
func TestALateLeaderStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 2)
		stopOld := r.lead(0)
		r.report("n1", everyone, time.Second, "acme")
		pass(time.Minute)
		stopNew := r.lead(1)
		r.report("n1", everyone, time.Second, "acme")
		pass(time.Minute)
		r.report("n1", everyone, time.Second, "acme")
		stopOld()
		stopNew()
		r.want("in the end", usage.Filter{}, 3, 1)
	})
}

// TestALeaderDoesNotCountWhatTheOneBeforeMayHave: a repetition counts only of what was first reported to it.
func TestALeaderDoesNotCountWhatTheOneBeforeMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		stop := r.lead(0)
		first := func(_, again int) bool { return again > 0 }
		r.report("n1", first, 5*time.Second, "acme") // the first time was before
		if stats := r.all[0].Stats(); stats.Missed != 1 || stats.Counted != 0 {
			t.Errorf("counts: %+v", stats)
		}
		pass(time.Minute)
		r.report("n1", first, 5*time.Second, "acme") // the first time got lost
		stop()
		r.want("in the end", usage.Filter{}, 1, 1)
	})
}

// TestWhatCannotBeIsClamped: an agent that lies is believed no more than its machine can do in the time.
func TestWhatCannotBeIsClamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		stop := r.lead(0)
		l, began := r.all[0], time.Now()
		huge := script.Usage{Calls: math.MaxUint64, Errors: math.MaxUint64, ProcessorTime: math.MaxInt64, Instructions: math.MaxUint64, BytesIn: math.MaxUint64, BytesOut: math.MaxUint64}
		for i := range 100 {
			u := &fleet.Usage{Sequence: uint64(i + 1), Covers: math.MaxInt64 / 2, Processors: 2}
			for _, tenant := range []string{"acme", "shop"} {
				u.Tenants = append(u.Tenants, script.TenantUsage{Tenant: tenant, Usage: huge})
			}
			l.Heard(&fleet.Report{Agent: "liar", Incarnation: fmt.Sprint(i % 2), Usage: u})
			pass(time.Second)
		}
		stop()
		sum, _ := r.read(usage.Filter{})
		// An hour for the first report, and ten seconds for each.
		if most := 2 * (time.Since(began) + time.Hour + 100*10*time.Second); sum.ProcessorTime > most || sum.ProcessorTime <= 0 {
			t.Errorf("the calls ran for %v, more than %v", sum.ProcessorTime, most)
		}
		if sum.Calls == math.MaxUint64 || sum.Errors > sum.Calls || sum.Instructions == math.MaxUint64 || sum.BytesIn == math.MaxUint64 {
			t.Errorf("kept %+v", sum)
		}
		if stats := l.Stats(); stats.Clamped != 100 {
			t.Errorf("counts: %+v", stats)
		}
	})
}

// TestATimeThatOverflowsIsClamped: a report for all of time counts no negative time, and no more calls than others can.
func TestATimeThatOverflowsIsClamped(t *testing.T) {
	for processors := range 5 {
		synctest.Test(t, func(t *testing.T) {
			r := newReplicas(t, 1)
			stop := r.lead(0)
			r.all[0].Heard(&fleet.Report{Agent: "liar", Incarnation: "1", Usage: &fleet.Usage{
				Sequence: 1, Covers: math.MaxInt64, Processors: processors,
				Tenants: []script.TenantUsage{{Tenant: "acme", Usage: script.Usage{Calls: math.MaxUint64, ProcessorTime: time.Second}}},
			}})
			stop()
			if sum, _ := r.read(usage.Filter{}); sum.ProcessorTime != time.Second || sum.Calls > 1<<40 {
				t.Errorf("%d processors: kept %+v", processors, sum)
			}
		})
	}
}

// TestALieIsNotAtTheCostOfOthers: the process of a tenant that makes up figures takes nothing from the tenants beside it.
func TestALieIsNotAtTheCostOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		stop := r.lead(0)
		lie := script.Usage{Calls: 1, ProcessorTime: math.MaxInt64}
		r.all[0].Heard(&fleet.Report{Agent: "n1", Incarnation: "1", Usage: &fleet.Usage{
			Sequence: 1, Covers: time.Minute, Processors: 2, Tenants: []script.TenantUsage{{Tenant: "evil", Usage: lie}, {Tenant: "acme", Usage: used}, {Tenant: "evil-2", Usage: lie}},
		}})
		stop()
		r.want("the tenant beside", usage.Filter{Tenant: "acme"}, 1, 1)
		if sum, _ := r.read(usage.Filter{}); sum.ProcessorTime > 2*(time.Minute+10*time.Second) {
			t.Errorf("the calls ran for %v on two processors in a minute", sum.ProcessorTime)
		}
	})
}

// TestAgentsThatComeAndGo under new names take no more memory than agents may, and others count again soon.
func TestAgentsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		stop := r.lead(0)
		r.report("n1", everyone, 0, "acme")
		for i := range 110_000 {
			r.all[0].Heard(&fleet.Report{Agent: fmt.Sprint("made-up-", i), Incarnation: "1", Leaving: true, Usage: &fleet.Usage{
				Sequence: 1, Covers: time.Minute, Processors: 2, Tenants: []script.TenantUsage{{Tenant: "nobody", Usage: used}},
			}})
		}
		if dropped := r.all[0].Stats().Dropped; dropped != 10_001 {
			t.Errorf("the usage of %d agents was dropped; want the usage of each agent above 100,000", dropped)
		}
		r.report("n1", everyone, 0, "acme")
		pass(3 * time.Minute)
		r.report("n2", everyone, 0, "acme")
		stop()
		r.want("in the end", usage.Filter{Tenant: "acme"}, 3, 1)
	})
}

// TestAnHourHasRoomForSoManyTenants: what agents make up cannot fill the store.
func TestAnHourHasRoomForSoManyTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t, 1)
		stop := r.lead(0)
		for i := range 80 {
			names := make([]string, 200)
			for n := range names {
				names[n] = fmt.Sprint("t", i*200+n)
			}
			r.report(fmt.Sprint("n", i), everyone, 0, names...)
			if i == 40 {
				pass(time.Minute)
			}
		}
		stop()
		if _, tenants := r.read(usage.Filter{}); tenants != 10_000 {
			t.Errorf("usage of %d tenants is kept in an hour", tenants)
		}
		if stats := r.all[0].Stats(); stats.Dropped != 6000 {
			t.Errorf("counts: %+v", stats)
		}
	})
}
