package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	schedules = flag.Int("sim.schedules", 0, "how many schedules to run; 0: as many as fit into sim.time")
	firstSeed = flag.Uint64("sim.seed", 0, "the seed of the first schedule; 0: a random one")
	onlySteps = flag.String("sim.steps", "", "the numbers of the steps to run, with commas between them; empty: all")
	runFor    = flag.Duration("sim.time", 6*time.Second, "how long to run schedules, if not a number of them")
)

// TestSchedules runs schedules of random faults. One that breaks a promise is cut down
// and shown.
func TestSchedules(t *testing.T) {
	seed := *firstSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	t.Logf("seeds from %d", seed)
	report := explore(t, search{seed: seed, count: *schedules, time: *runFor})
	t.Logf("%d schedules, %d steps, in %v; after the faults the slowest agent took: median %v, p99 %v, most %v",
		report.runs, report.steps, report.took.Round(time.Millisecond),
		report.healed(0.5), report.healed(0.99), report.healed(1))
	if report.failed != nil {
		show(t, *report.failed, report.outcome)
	}
}

// report is what came of many runs.
type report struct {
	runs, steps int
	took        time.Duration
	times       []time.Duration
	failed      *shape
	outcome     result // of what failed
}

func (r *report) healed(quantile float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	slices.Sort(r.times)
	return r.times[int(quantile*float64(len(r.times)-1))].Round(time.Millisecond)
}

// search says which schedules to run.
type search struct {
	seed       uint64        // of the first
	count      int           // how many; 0: for a time
	time       time.Duration // how long, if not a number of them
	favourites []kind        // of steps
	bugs       bugs
}

// explore runs schedules on all cores until one fails.
func explore(t *testing.T, what search) report {
	t.Helper()
	began := time.Now()
	var next atomic.Uint64
	var mu sync.Mutex
	var r report
	more := func() (shape, bool) {
		n := next.Add(1) - 1
		mu.Lock()
		defer mu.Unlock()
		if r.failed != nil || what.count > 0 && n >= uint64(what.count) || what.count == 0 && time.Since(began) > what.time {
			return shape{}, false
		}
		return cut(t, generate(what.seed+n, what.favourites...)), true
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s, ok := more(); ok; s, ok = more() {
				outcome := run(t, s, what.bugs)
				mu.Lock()
				r.runs++
				r.steps += len(s.steps)
				r.times = append(r.times, outcome.healed)
				if len(outcome.violations) > 0 && r.failed == nil {
					r.failed, r.outcome = &s, outcome
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	r.took = time.Since(began)
	return r
}

// cut leaves the steps of sim.steps.
func cut(t *testing.T, s shape) shape {
	t.Helper()
	if *onlySteps == "" {
		return s
	}
	wanted := map[int]bool{}
	for text := range strings.SplitSeq(*onlySteps, ",") {
		n, err := strconv.Atoi(text)
		if err != nil && text != "none" {
			t.Fatalf("-sim.steps: %v", err)
		}
		wanted[n] = err == nil
	}
	s.steps = slices.DeleteFunc(s.steps, func(st step) bool { return !wanted[st.number] })
	return s
}

// Bounds of shrinking.
const (
	shrinkFor = 30 * time.Second
	// tries are how often a schedule is run before it counts as one that does not fail:
	// Go's scheduler has a say in what happens at one moment.
	tries = 3
)

// show fails the test with the fewest steps that it takes.
func show(t *testing.T, s shape, first result) {
	t.Helper()
	least, outcome := reduce(t, s, first, bugs{}, shrinkFor)
	t.Errorf("seed %d, %d of %d steps:\n%s", s.seed, len(least.steps), len(s.steps), least.story(outcome))
}

// reduce returns the fewest steps that fail, as far as it finds out in the time, and what
// came of them.
func reduce(t *testing.T, s shape, first result, b bugs, in time.Duration) (shape, result) {
	t.Helper()
	last := first
	fails := func(s shape) bool {
		for range tries {
			if r := run(t, s, b); len(r.violations) > 0 {
				last = r
				return true
			}
		}
		return false
	}
	least := shrink(s, time.Now().Add(in), fails)
	return least, last
}

// story tells what happened, and how to see it again.
func (s shape) story(r result) string {
	return fmt.Sprintf("%d replicas, agents that follow %q\n%s\nviolations:\n  %s\nrun it again (if it hangs on what happens at one moment, with -count 100):\n  %s",
		s.replicas, s.agents, strings.Join(r.history, "\n"), strings.Join(r.violations, "\n  "), s.command())
}
