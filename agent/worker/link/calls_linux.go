package link

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// FromFigures returns what was counted of the script in the form that travels.
func FromFigures(name string, f *meter.Figures) *workerv1.ScriptCalls {
	m := &workerv1.ScriptCalls{
		Script: name, Outcomes: f.Outcomes[:], TookNanos: int64(f.Took), RanNanos: int64(f.Ran),
		Instructions: f.Instructions, AllocatedBytes: f.Allocated, BytesIn: f.In, BytesOut: f.Out, DroppedLines: f.Dropped,
	}
	first, end := 0, len(f.Buckets)
	for first < end && f.Buckets[first] == 0 {
		first++
	}
	for end > first && f.Buckets[end-1] == 0 {
		end--
	}
	m.FirstBucket, m.Buckets = int32(first), f.Buckets[first:end] //nolint:gosec // less than meter.Buckets
	return m
}

// maxCalls bounds what one message says of one script.
const maxCalls = 1 << 32

// ToFigures is the reverse of FromFigures; ok is false for what cannot have been counted.
func ToFigures(m *workerv1.ScriptCalls) (f meter.Figures, ok bool) {
	first, buckets := int(m.GetFirstBucket()), m.GetBuckets()
	if len(m.GetOutcomes()) > meter.Outcomes || first < 0 || first+len(buckets) > meter.Buckets || m.GetTookNanos() < 0 || m.GetRanNanos() < 0 {
		return f, false
	}
	calls := uint64(0)
	for i, n := range m.GetOutcomes() {
		if n > maxCalls {
			return f, false
		}
		f.Outcomes[i] = n
		f.Calls += n
	}
	for i, n := range buckets {
		if n > maxCalls {
			return f, false
		}
		f.Buckets[first+i] = n
		calls += n
	}
	f.Errors = f.Calls - f.Outcomes[0]
	f.Took, f.Ran = time.Duration(m.GetTookNanos()), time.Duration(m.GetRanNanos())
	f.Instructions, f.Allocated, f.In, f.Out, f.Dropped = m.GetInstructions(), m.GetAllocatedBytes(), m.GetBytesIn(), m.GetBytesOut(), m.GetDroppedLines()
	return f, calls == f.Calls && calls <= maxCalls
}
