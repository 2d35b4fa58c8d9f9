package tracing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Sampling is what OTEL_TRACES_SAMPLER says: which traces are recorded.
type Sampling struct {
	// Parent: a trace that somebody else began is recorded if they record it.
	Parent bool
	// Ratio of the other traces is recorded.
	Ratio float64
}

const (
	samplerVariable = "OTEL_TRACES_SAMPLER"
	ratioVariable   = "OTEL_TRACES_SAMPLER_ARG"
)

func readSampling() (s Sampling, err error) {
	name := cmp.Or(strings.ToLower(variable(samplerVariable)), "parentbased_always_on")
	kind, based := strings.CutPrefix(name, "parentbased_")
	s.Parent = based
	switch kind {
	case "always_on":
		s.Ratio = 1
	case "always_off":
	case "traceidratio":
		text := cmp.Or(variable(ratioVariable), "1")
		if s.Ratio, err = strconv.ParseFloat(text, 64); err != nil || !(s.Ratio >= 0 && s.Ratio <= 1) {
			return s, script.Errorf(script.Invalid, ratioVariable, "%.80q is no ratio: want a number from 0 to 1, such as 0.01", text)
		}
	default:
		return s, script.Errorf(script.Invalid, samplerVariable, "%.80q is no sampler: want always_on, always_off, traceidratio, "+
			"parentbased_always_on, parentbased_always_off or parentbased_traceidratio", name)
	}
	return s, nil
}

func (s Sampling) String() string {
	if s.Parent {
		return fmt.Sprintf("as the caller says, else %g", s.Ratio)
	}
	return fmt.Sprintf("%g", s.Ratio)
}

func (s Sampling) sampler() sdktrace.Sampler {
	if s.Parent {
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.Ratio))
	}
	return sdktrace.TraceIDRatioBased(s.Ratio)
}

// Sampled reports whether a span with the parent is recorded; the zero Context is none. It does not
// allocate.
func (s Sampling) Sampled(parent tracecontext.Context) bool {
	switch {
	case !parent.Valid():
		return s.Ratio >= 1 || s.Ratio > 0 && rand.Float64() < s.Ratio //nolint:gosec // nobody gains by guessing which
	case s.Parent:
		return parent.Sampled()
	}
	// As sdktrace.TraceIDRatioBased decides, so that all processes of a trace decide alike.
	const bits = 63
	return s.Ratio >= 1 || binary.BigEndian.Uint64(parent.TraceID[8:])>>(64-bits) < uint64(s.Ratio*(1<<bits))
}

// limited bounds how many traces the next sampler lets in. What a process has begun to record it
// records to the end.
type limited struct {
	next  sdktrace.Sampler
	admit func() bool
}

func (l limited) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: parent.TraceState()}
	if parent.IsValid() && !parent.IsRemote() {
		if parent.IsSampled() {
			result.Decision = sdktrace.RecordAndSample
		}
		return result
	}
	asked := l.next.ShouldSample(p)
	if asked.Decision == sdktrace.RecordAndSample && !l.admit() {
		return result
	}
	return asked
}

func (l limited) Description() string { return "Limited{" + l.next.Description() + "}" }
