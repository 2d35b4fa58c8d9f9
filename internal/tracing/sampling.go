package tracing

import (
	"cmp"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	samplerVariable = "OTEL_TRACES_SAMPLER"
	ratioVariable   = "OTEL_TRACES_SAMPLER_ARG"
)

// readSampling reads the sampler from the environment.
func readSampling() (s tracecontext.Sampling, err error) {
	name := cmp.Or(strings.ToLower(otelenv.Variable(samplerVariable)), "parentbased_always_on")
	kind, based := strings.CutPrefix(name, "parentbased_")
	s.Parent = based
	switch kind {
	case "always_on":
		s.Ratio = 1
	case "always_off":
	case "traceidratio":
		text := cmp.Or(otelenv.Variable(ratioVariable), "1")
		if s.Ratio, err = strconv.ParseFloat(text, 64); err != nil || !(s.Ratio >= 0 && s.Ratio <= 1) {
			return s, script.Errorf(script.Invalid, ratioVariable, "%.80q is no ratio: want a number from 0 to 1, such as 0.01", text)
		}
	default:
		return s, script.Errorf(script.Invalid, samplerVariable, "%.80q is no sampler: want always_on, always_off, traceidratio, "+
			"parentbased_always_on, parentbased_always_off or parentbased_traceidratio", name)
	}
	return s, nil
}

func samplerOf(s tracecontext.Sampling) sdktrace.Sampler {
	if s.Parent {
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.Ratio))
	}
	return sdktrace.TraceIDRatioBased(s.Ratio)
}

// limited is a sampler with a rate limit for new traces. Spans with a local parent follow the parent, so that the process
// records a trace completely or not at all.
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
	sampled := l.next.ShouldSample(p)
	if sampled.Decision == sdktrace.RecordAndSample && !l.admit() {
		return result
	}
	return sampled
}

func (l limited) Description() string { return "Limited{" + l.next.Description() + "}" }
