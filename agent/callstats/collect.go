package callstats

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Other is the tenant and the script in the metrics of calls without a place.
const Other = "other"

// otherName cannot have a place: its metrics are those of calls without one.
var otherName = script.Name{Tenant: Other, Script: Other}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("scriptorium_script_"+name, help, append([]string{"tenant", "script"}, labels...), nil)
}

var (
	callsDesc        = desc("calls_total", "Calls of the script on this agent by outcome: OK, or the kind of the error.", "outcome")
	secondsDesc      = desc("call_seconds", "Time from call to answer inside the agent, waiting for its turn included.")
	instructionsDesc = desc("instructions_total", "Instructions that the script's calls ran.")
	allocatedDesc    = desc("allocated_bytes_total", "Bytes that the script's calls allocated, estimated.")
	droppedDesc      = desc("log_lines_dropped_total", "Lines that the script logged and that were left out, since it or its tenant logs more than it may.")
	infoDesc         = desc("info", "The versions that calls of the script run on this agent.", "version")
)

// collector makes metrics of Stats.
type collector struct{ stats *Stats }

// Describe implements prometheus.Collector.
func (collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{callsDesc, secondsDesc, instructionsDesc, allocatedDesc, droppedDesc, infoDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	places, others := c.stats.snapshot()
	for _, p := range places {
		r := c.stats.cfg.Table.Get(p.text)
		if r == nil {
			continue // the script was deleted
		}
		var f meter.Figures
		p.cell.Read(&f)
		c.send(metrics, p.name, &f)
		for ; r != nil && !r.Untried(); r = r.Split {
			metrics <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, p.name.Tenant, p.name.Script, strconv.FormatUint(r.Runs.Number, 10))
		}
	}
	if others.Calls+others.Dropped > 0 {
		c.send(metrics, otherName, others)
	}
}

// snapshot returns the places, and the figures of all calls without one.
func (s *Stats) snapshot() (places []*place, others *meter.Figures) {
	s.mu.Lock()
	places, tenants, sum := slices.Collect(maps.Values(s.places)), slices.Collect(maps.Values(s.tenants)), s.past
	s.mu.Unlock()
	for _, t := range tenants { // also one that is removed meanwhile
		t.rest.Read(&sum)
	}
	return places, &sum
}

func (c collector) send(metrics chan<- prometheus.Metric, name script.Name, f *meter.Figures) {
	for outcome, n := range f.Outcomes {
		if n > 0 || outcome == 0 {
			metrics <- prometheus.MustNewConstMetric(callsDesc, prometheus.CounterValue, float64(n), name.Tenant, name.Script, meter.OutcomeName(outcome))
		}
	}
	count := func(d *prometheus.Desc, n uint64) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), name.Tenant, name.Script)
	}
	count(instructionsDesc, f.Instructions)
	count(allocatedDesc, f.Allocated)
	count(droppedDesc, f.Dropped)
	metrics <- latency{name: name, figures: f, classic: c.stats.cfg.Classic}
}

// latency is the histogram of how long calls took.
type latency struct {
	name    script.Name
	figures *meter.Figures
	classic bool
}

// Desc implements prometheus.Metric.
func (latency) Desc() *prometheus.Desc { return secondsDesc }

// Write implements prometheus.Metric.
func (h latency) Write(m *dto.Metric) error {
	m.Label = prometheus.MakeLabelPairs(secondsDesc, []string{h.name.Tenant, h.name.Script})
	m.Histogram = &dto.Histogram{
		SampleCount: new(h.figures.Buckets.Total()), SampleSum: new(h.figures.Took.Seconds()),
		Schema: new(int32(histogram.Schema)), ZeroThreshold: new(histogram.ZeroThreshold), ZeroCount: new(h.figures.Buckets[0]),
	}
	m.Histogram.PositiveSpan, m.Histogram.PositiveDelta = spans(&h.figures.Buckets)
	if h.classic {
		m.Histogram.Bucket = classic(&h.figures.Buckets)
	}
	return nil
}

// smallGap is the number of empty buckets that take less room than another span.
const smallGap = 2

// spans returns the spans and deltas of a native histogram, without the zero bucket.
func spans(buckets *histogram.Buckets) (spans []*dto.BucketSpan, deltas []int64) {
	before, next := int64(0), 0
	add := func(n int64) {
		*spans[len(spans)-1].Length++
		deltas = append(deltas, n-before)
		before = n
	}
	for i := 1; i < histogram.Size; i++ {
		if buckets[i] == 0 {
			continue
		}
		key := histogram.Key(i)
		gap := key - next
		if len(spans) == 0 || gap > smallGap {
			spans = append(spans, &dto.BucketSpan{Offset: new(int32(gap)), Length: new(uint32(0))}) //nolint:gosec // less than Buckets
			gap = 0
		}
		for range gap {
			add(0)
		}
		add(int64(buckets[i])) //nolint:gosec // a number of calls
		next = key + 1
	}
	return spans, deltas
}

// Classic buckets end at every other power of two of a second, from 4 µs to 16 s. They are exact.
const firstClassic, lastClassic = -18, 4

func classic(buckets *histogram.Buckets) (all []*dto.Bucket) {
	total, i := uint64(0), 0
	for power := firstClassic; power <= lastClassic; power += 2 {
		for last := histogram.UpTo(power); i <= last; i++ {
			total += buckets[i]
		}
		all = append(all, &dto.Bucket{CumulativeCount: new(total), UpperBound: new(math.Exp2(float64(power)))})
	}
	return all
}
