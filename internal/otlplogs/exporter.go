package otlplogs

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

// signal is that of logs. The endpoint that all signals share does not turn it on: many a collector of
// traces takes no logs.
var signal = otelenv.Signal{
	Name: "LOGS",
	Positive: []string{
		"OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_EXPORT_TIMEOUT", "OTEL_BLRP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
	},
}

// NewExporter returns an exporter to the endpoint that the environment names, for one who tries again
// what fails: the exporter does not. It does not wait for the collector. An error is Invalid and names
// the variable.
func NewExporter(ctx context.Context) (exporter sdklog.Exporter, endpoint string, err error) {
	target, err := signal.OTLP()
	if err != nil {
		return nil, "", err
	}
	exporter, err = open(ctx, target, false)
	return exporter, target.Endpoint, err
}

func open(ctx context.Context, target otelenv.Target, retry bool) (exporter sdklog.Exporter, err error) {
	if target.Protocol == otelenv.GRPC {
		options := []otlploggrpc.Option{otlploggrpc.WithDialOption(otelenv.Reconnecting())}
		if !retry {
			options = append(options, otlploggrpc.WithRetry(otlploggrpc.RetryConfig{}))
		}
		if target.Default {
			options = append(options, otlploggrpc.WithEndpointURL(target.Endpoint))
		}
		exporter, err = otlploggrpc.New(ctx, options...)
	} else {
		var options []otlploghttp.Option
		if !retry {
			options = append(options, otlploghttp.WithRetry(otlploghttp.RetryConfig{}))
		}
		if target.Default {
			options = append(options, otlploghttp.WithEndpointURL(target.Endpoint+"/v1/logs"))
		}
		exporter, err = otlploghttp.New(ctx, options...)
	}
	if err != nil {
		return nil, otelenv.Misconfigured(err)
	}
	return exporter, nil
}
