package tracing

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// environment is the configuration in the environment variables.
type environment struct {
	otelenv.Target

	sampling  tracecontext.Sampling
	continues bool
}

var signal = otelenv.Signal{
	Name: "TRACES", Exporters: []string{otelenv.Console}, Shared: true,
	Positive: []string{
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
		"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	},
}

func readEnvironment() (e environment, err error) {
	if e.Target, err = signal.Read(); err != nil {
		return e, err
	}
	if e.continues, err = readContinues(); err != nil {
		return e, err
	}
	e.sampling, err = readSampling()
	return e, err
}

// readContinues reports whether the process continues the traces of callers. It accepts baggage, but does not
// propagate it.
func readContinues() (continues bool, err error) {
	const name = "OTEL_PROPAGATORS"
	for value := range strings.SplitSeq(cmp.Or(otelenv.Variable(name), "tracecontext"), ",") {
		switch value = strings.TrimSpace(value); value {
		case "tracecontext":
			continues = true
		case "baggage", otelenv.None:
		default:
			return false, script.Errorf(script.Invalid, name, "%.80q is no propagator that is known here: want tracecontext, baggage or none", value)
		}
	}
	return continues, nil
}

// open returns the exporter. It does not wait for the collector.
func (e environment) open(ctx context.Context) (exporter sdktrace.SpanExporter, err error) {
	switch {
	case e.Exporter == otelenv.Console:
		exporter, err = stdouttrace.New()
	case e.Protocol == otelenv.GRPC:
		options := []otlptracegrpc.Option{otlptracegrpc.WithDialOption(otelenv.Reconnecting())}
		if e.Default {
			options = append(options, otlptracegrpc.WithEndpointURL(e.Endpoint))
		}
		exporter, err = otlptracegrpc.New(ctx, options...)
	default:
		var options []otlptracehttp.Option
		if e.Default {
			options = append(options, otlptracehttp.WithEndpointURL(e.Endpoint+"/v1/traces"))
		}
		exporter, err = otlptracehttp.New(ctx, options...)
	}
	if err != nil {
		return nil, otelenv.Misconfigured(err)
	}
	return exporter, nil
}
