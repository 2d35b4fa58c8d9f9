// Package scriptbench measures calls of scripts on this machine, in the engine of agents, and compares two versions by
// benchstat's method: medians with their confidence intervals, and the Mann-Whitney U test. The sides take turns, so
// that a change of the machine's speed meets both.
package scriptbench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// MinRounds are the fewest rounds whose median has a confidence interval.
const MinRounds = 6

// confidence of the intervals.
const confidence = 0.95

// Side is a version, and a call of it.
type Side struct {
	Program *offline.Program
	Call    offline.Call
}

// Config says how long to measure.
type Config struct {
	// Rounds are how many samples there are of each side.
	Rounds int
	// Time is about how long the slower side makes calls in a round, twice: to count them, and to time each.
	Time time.Duration
}

// Metric is what is measured.
type Metric int

// The metrics.
const (
	CallsPerSecond Metric = iota // of calls one after the other
	P50Seconds
	P99Seconds // NaN if a round has too few calls to have one
	Instructions
	AllocatedBytes
	metrics
)

// leastForP99 are the fewest calls of a round whose 99th percentile is not just the slowest call.
const leastForP99 = 100

// Summary of a metric of a side over the rounds.
type Summary struct {
	Median    float64
	Low, High float64 // the confidence interval of the median
}

// Comparison of the first side with the second.
type Comparison struct {
	// P is how likely samples that differ as much come from sides that do not differ.
	P float64
	// Significant says that P is below 0.05.
	Significant bool
}

// Result is what came of a measurement.
type Result struct {
	Sides [][]Summary // by side and metric
	// Compared is by metric; nil for one side.
	Compared []Comparison
}

// Measure measures one side, or two. Each call must end as the first of its side does: with results, or with an error of
// the same kind.
func Measure(ctx context.Context, cfg *Config, sides ...Side) (*Result, error) {
	runners := make([]*runner, len(sides))
	for i, side := range sides {
		r := &runner{ctx: ctx, side: side}
		r.side.Call.Once, r.side.Call.Log, r.side.Call.Used = true, nil, &r.used
		if err := r.warmUp(cfg.Time); err != nil {
			return nil, err
		}
		runners[i] = r
	}
	// Batches of a different size would differ in how often other processes interrupt them.
	batch := slices.MinFunc(runners, func(a, b *runner) int { return a.calls - b.calls }).calls
	if batch >= leastForP99/5 { // the machine was busy, or a little more time does it
		batch = max(batch, leastForP99)
	}
	for _, r := range runners {
		r.calls, r.times = batch, make([]float64, batch)
	}
	for round := range cfg.Rounds {
		for i := range runners {
			if round%2 == 1 { // each side is the first as often
				i = len(runners) - 1 - i
			}
			if err := runners[i].round(); err != nil {
				return nil, err
			}
		}
	}
	return summary(runners), nil
}

func summary(runners []*runner) *Result {
	res := &Result{}
	samples := make([][]*benchmath.Sample, len(runners))
	for i, r := range runners {
		var all []Summary
		for m := range metrics {
			sample := benchmath.NewSample(r.samples[m], &benchmath.DefaultThresholds)
			s := benchmath.AssumeNothing.Summary(sample, confidence)
			samples[i], all = append(samples[i], sample), append(all, Summary{Median: s.Center, Low: s.Lo, High: s.Hi})
		}
		res.Sides = append(res.Sides, all)
	}
	if len(runners) < 2 {
		return res
	}
	for m := range metrics {
		if math.IsNaN(res.Sides[0][m].Median) || math.IsNaN(res.Sides[1][m].Median) {
			res.Compared = append(res.Compared, Comparison{P: 1})
			continue
		}
		c := benchmath.AssumeNothing.Compare(samples[0][m], samples[1][m])
		res.Compared = append(res.Compared, Comparison{P: c.P, Significant: c.P < c.Alpha})
	}
	return res
}

// runner makes the calls of a side.
type runner struct {
	ctx      context.Context
	side     Side
	returned engine.Result
	used     engine.Used
	ends     script.Kind // how each call ends; "" with results
	calls    int         // of a batch
	times    []float64   // of the calls of a batch
	samples  [metrics][]float64
}

// warmUp makes calls for twice that long, and counts how many the time is for.
func (r *runner) warmUp(d time.Duration) error {
	err := r.side.Program.Run(r.ctx, &r.side.Call, &r.returned)
	r.ends = endOf(err)
	if r.ends == script.Timeout {
		return fmt.Errorf("a call that exceeds its timeout cannot be measured: %w", err)
	}
	for range 2 { // the first calls are slow
		calls := 0
		for began := time.Now(); time.Since(began) < d || calls == 0; calls++ {
			if err := r.call(); err != nil {
				return err
			}
		}
		r.calls = max(r.calls, calls)
	}
	return nil
}

func endOf(err error) script.Kind {
	if err == nil {
		return ""
	}
	return script.KindOf(err)
}

func (r *runner) call() error {
	err := r.side.Program.Run(r.ctx, &r.side.Call, &r.returned)
	switch {
	case r.ctx.Err() != nil:
		return fmt.Errorf("the measurement was interrupted: %w", context.Cause(r.ctx))
	case endOf(err) == r.ends:
		return nil
	case err == nil:
		return fmt.Errorf("a call returned results, and the first one failed with %s", r.ends)
	}
	return fmt.Errorf("a call failed, and the first one did not fail so: %w", err)
}

// round takes a sample of each metric. The calls that it counts are not those that it times, since a clock that is read
// for each call takes time, too.
func (r *runner) round() error {
	began := time.Now()
	for range r.calls {
		if err := r.call(); err != nil {
			return err
		}
	}
	r.sample(CallsPerSecond, float64(r.calls)/time.Since(began).Seconds())
	last := time.Now()
	for i := range r.calls {
		if err := r.call(); err != nil {
			return err
		}
		now := time.Now()
		r.times[i], last = now.Sub(last).Seconds(), now
	}
	slices.Sort(r.times)
	r.sample(P50Seconds, r.percentile(0.5))
	p99 := math.NaN()
	if r.calls >= leastForP99 {
		p99 = r.percentile(0.99)
	}
	r.sample(P99Seconds, p99)
	r.sample(Instructions, float64(r.used.Instructions))
	r.sample(AllocatedBytes, float64(r.used.Allocated))
	return nil
}

func (r *runner) sample(m Metric, value float64) { r.samples[m] = append(r.samples[m], value) }

// percentile returns the time that so many of the calls took at most.
func (r *runner) percentile(q float64) float64 {
	return r.times[int(math.Ceil(q*float64(len(r.times))))-1]
}
