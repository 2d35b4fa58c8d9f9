package link

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/proto/histogram"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// FromFigures returns what was counted of the script in the form that travels.
func FromFigures(name string, f *meter.Figures) *workerv1.ScriptCalls {
	m := &workerv1.ScriptCalls{
		Script: name, Outcomes: f.Outcomes[:], TookNanos: int64(f.Took), RanNanos: int64(f.Ran),
		Instructions: f.Instructions, AllocatedBytes: f.Allocated, BytesIn: f.In, BytesOut: f.Out, DroppedLines: f.Dropped,
	}
	first, counts := f.Buckets.Sparse()
	m.FirstBucket, m.Buckets = int32(first), counts //nolint:gosec // less than histogram.Size
	return m
}

// maxCalls bounds what one message says of one script.
const maxCalls = 1 << 32

// ToFigures is the reverse of FromFigures; ok is false for what cannot have been counted.
func ToFigures(m *workerv1.ScriptCalls) (f meter.Figures, ok bool) {
	f.Buckets, ok = histogram.FromSparse(int(m.GetFirstBucket()), m.GetBuckets())
	if !ok || len(m.GetOutcomes()) > meter.Outcomes || m.GetTookNanos() < 0 || m.GetRanNanos() < 0 {
		return f, false
	}
	for i, n := range m.GetOutcomes() {
		if n > maxCalls {
			return f, false
		}
		f.Outcomes[i] = n
		f.Calls += n
	}
	for _, n := range m.GetBuckets() {
		if n > maxCalls {
			return f, false
		}
	}
	f.Errors = f.Calls - f.Outcomes[0]
	f.Took, f.Ran = time.Duration(m.GetTookNanos()), time.Duration(m.GetRanNanos())
	f.Instructions, f.Allocated, f.In, f.Out, f.Dropped = m.GetInstructions(), m.GetAllocatedBytes(), m.GetBytesIn(), m.GetBytesOut(), m.GetDroppedLines()
	return f, f.Buckets.Total() == f.Calls && f.Calls <= maxCalls
}
