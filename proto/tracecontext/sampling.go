package tracecontext

import (
	"encoding/binary"
	"math/rand/v2"
)

// Sampling says which traces are recorded, as the standard samplers of OpenTelemetry do.
type Sampling struct {
	// Parent: a trace that somebody else began is recorded if they record it.
	Parent bool
	// Ratio of the other traces is recorded.
	Ratio float64
}

// Sampled reports whether a span with the parent is recorded; the zero Context is none. It does not
// allocate.
func (s Sampling) Sampled(parent Context) bool {
	switch {
	case !parent.Valid():
		return s.Ratio >= 1 || s.Ratio > 0 && rand.Float64() < s.Ratio //nolint:gosec // nobody gains by guessing which
	case s.Parent:
		return parent.Sampled()
	}
	// As the SDK decides, so that all processes of a trace decide alike.
	const bits = 63
	return s.Ratio >= 1 || binary.BigEndian.Uint64(parent.TraceID[8:])>>(64-bits) < uint64(s.Ratio*(1<<bits))
}
