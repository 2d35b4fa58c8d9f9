package compare_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/rollout/compare"
	"github.com/scriptorium-dev/scriptorium/script"
)

var rollouts = flag.Int("compare.rollouts", 300, "simulated rollouts of each kind")

// alpha is what the tests of one rollout share.
const alpha = 0.01

// simulation of rollouts. The candidate and the active version are called in turn, share calls of
// the active version to each of the candidate's, and the tests are looked at after each batch.
type simulation struct {
	batches, batch, share int
	increase              float64
	candidate, active     func(random *rand.Rand, batch int) float64 // error rate, or latency in seconds
	slower                bool                                       // the test of latencies
}

// run returns after how many calls of the candidate the test said that it is worse; 0 if it never
// did.
func (s *simulation) run(random *rand.Rand) int {
	var calls [2]compare.Sample
	var latencies [2]compare.Latencies
	for batch := range s.batches {
		for i, version := range []func(*rand.Rand, int) float64{s.candidate, s.active} {
			n := s.batch
			if i == 1 {
				n *= s.share
			}
			for range n {
				if s.slower {
					latencies[i][script.LatencyBucket(time.Duration(version(random, batch)*float64(time.Second)))]++
					continue
				}
				calls[i].N++
				if random.Float64() < version(random, batch) {
					calls[i].Hits++
				}
			}
		}
		if s.slower && compare.Slower(&latencies[0], &latencies[1], 99, s.increase, alpha) ||
			!s.slower && compare.MoreOften(calls[0], calls[1], s.increase, alpha) {
			return (batch + 1) * s.batch
		}
	}
	return 0
}

func rate(of float64) func(*rand.Rand, int) float64 {
	return func(*rand.Rand, int) float64 { return of }
}

// latency is log-normal, with the median and a 99th percentile of ten times that.
func latency(median float64) func(*rand.Rand, int) float64 {
	return func(random *rand.Rand, _ int) float64 {
		return median * math.Exp(random.NormFloat64()*math.Log(10)/2.326)
	}
}

// incident is the rate of both versions while what they call is down.
func incident(of float64) func(*rand.Rand, int) float64 {
	return func(_ *rand.Rand, batch int) float64 {
		if batch >= 40 && batch < 60 {
			return 0.5
		}
		return of
	}
}

// TestFalseAlarmsAndMisses simulates rollouts of candidates that are no worse, which the tests must
// nearly never give up, and of worse ones, which they must find.
func TestFalseAlarmsAndMisses(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, tt := range map[string]struct {
		simulation
		worse bool
	}{
		"errors: none":                          {simulation{100, 50, 9, 0, rate(0), rate(0), false}, false},
		"errors: 0.1 %, as before":              {simulation{100, 50, 9, 0, rate(.001), rate(.001), false}, false},
		"errors: 5 %, as before":                {simulation{100, 50, 9, 0, rate(.05), rate(.05), false}, false},
		"errors: 5 %, most agents run it":       {simulation{100, 500, 1, 0, rate(.05), rate(.05), false}, false},
		"errors: 1.5 % for 1 %, as is allowed":  {simulation{100, 50, 9, .005, rate(.015), rate(.01), false}, false},
		"errors: 1 % and an incident of both":   {simulation{100, 50, 9, 0, incident(.01), incident(.01), false}, false},
		"errors: 100 % for 1 %":                 {simulation{100, 5, 9, .005, rate(1), rate(.01), false}, true},
		"errors: 10 % for 1 %":                  {simulation{100, 50, 9, .005, rate(.1), rate(.01), false}, true},
		"errors: 2 % for 0.1 %":                 {simulation{100, 50, 9, .005, rate(.02), rate(.001), false}, true},
		"p99: as before":                        {simulation{50, 500, 9, .2, latency(1e-3), latency(1e-3), true}, false},
		"p99: as before, of short calls":        {simulation{50, 500, 9, .2, latency(1e-6), latency(1e-6), true}, false},
		"p99: a fifth more, as is allowed":      {simulation{50, 500, 9, .2, latency(1.2e-3), latency(1e-3), true}, false},
		"p99: five times as long":               {simulation{50, 500, 9, .2, latency(5e-3), latency(1e-3), true}, true},
		"p99: twice as long":                    {simulation{50, 500, 9, .2, latency(2e-3), latency(1e-3), true}, true},
		"p99: twice as long, most agents":       {simulation{50, 500, 1, .2, latency(2e-3), latency(1e-3), true}, true},
		"p99: five times as long, of one in 50": {simulation{50, 500, 9, .2, slowTail(.02), latency(1e-3), true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(len(name))))
			n := *rollouts
			if tt.slower {
				n /= 10
			}
			found, calls := 0, 0
			for range n {
				if after := tt.run(random); after > 0 {
					found++
					calls += after
				}
			}
			t.Logf("%d of %d rollouts are given up, after %d calls of the candidate on average", found, n, calls/max(1, found))
			// Three standard deviations of what the tests promise.
			most := alpha*float64(n) + 3*math.Sqrt(alpha*float64(n))
			if !tt.worse && float64(found) > most {
				t.Errorf("%d of %d candidates that are no worse are given up, want at most %d", found, n, int(most))
			}
			if tt.worse && found < n {
				t.Errorf("%d of %d candidates that are worse are found", found, n)
			}
		})
	}
}

// slowTail is latency, but for the part of the calls that takes five times the 99th percentile.
func slowTail(part float64) func(*rand.Rand, int) float64 {
	fast := latency(1e-3)
	return func(random *rand.Rand, batch int) float64 {
		if random.Float64() < part {
			return 50e-3
		}
		return fast(random, batch)
	}
}

// TestFewCalls: nothing follows from none, nor from the first that fails.
func TestFewCalls(t *testing.T) {
	for _, s := range [][2]compare.Sample{{{}, {}}, {{N: 1, Hits: 1}, {}}, {{}, {N: 1, Hits: 1}}, {{N: 2, Hits: 2}, {N: 2}}, {{N: 1 << 40}, {N: 1 << 40}}} {
		if compare.MoreOften(s[0], s[1], 0, alpha) {
			t.Errorf("%+v is worse than %+v", s[0], s[1])
		}
	}
	var none, one, many compare.Latencies
	one[script.LatencyBuckets-1], many[0] = 1, 1<<40
	for _, l := range [][2]*compare.Latencies{{&none, &none}, {&one, &none}, {&none, &one}, {&one, &one}, {&many, &one}} {
		if compare.Slower(l[0], l[1], 99, 0.2, alpha) {
			t.Error("few calls are slower than few others")
		}
	}
	if !compare.MoreOften(compare.Sample{N: 1 << 40, Hits: 1 << 40}, compare.Sample{N: 1 << 40}, 0.99, alpha) {
		t.Error("what always fails is no worse than what never does")
	}
}

func BenchmarkSlower(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var fast, slow compare.Latencies
	for range 100_000 {
		fast[script.LatencyBucket(time.Duration(latency(1e-3)(random, 0)*float64(time.Second)))]++
		slow[script.LatencyBucket(time.Duration(latency(3e-3)(random, 0)*float64(time.Second)))]++
	}
	for b.Loop() {
		if !compare.Slower(&slow, &fast, 99, 0.2, alpha) {
			b.Fatal("not slower")
		}
	}
}
