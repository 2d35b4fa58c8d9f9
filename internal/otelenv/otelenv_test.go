package otelenv_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/otelenv"
)

func TestTargets(t *testing.T) {
	shared, own := otelenv.Signal{Name: "TRACES", Exporters: []string{otelenv.Console}, Shared: true}, otelenv.Signal{Name: "LOGS"}
	for name, tt := range map[string]struct {
		env          map[string]string
		traces, logs otelenv.Target
	}{
		"nothing": {nil, otelenv.Target{Exporter: "none"}, otelenv.Target{Exporter: "none"}},
		"an endpoint for all": {
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector:4318"},
			otelenv.Target{Exporter: "otlp", Protocol: "http/protobuf", Endpoint: "https://collector:4318"},
			otelenv.Target{Exporter: "none"},
		},
		"an endpoint for logs": {
			map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://collector:4318/v1/logs", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc"},
			otelenv.Target{Exporter: "none"},
			otelenv.Target{Exporter: "otlp", Protocol: "grpc", Endpoint: "https://collector:4318/v1/logs"},
		},
		"exporters alone": {
			map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc"},
			otelenv.Target{Exporter: "otlp", Protocol: "http/protobuf", Endpoint: "http://localhost:4318", Default: true},
			otelenv.Target{Exporter: "otlp", Protocol: "grpc", Endpoint: "http://localhost:4317", Default: true},
		},
		"off": {
			map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"},
			otelenv.Target{Exporter: "none"},
			otelenv.Target{Exporter: "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			for signal, want := range map[string]otelenv.Target{"traces": tt.traces, "logs": tt.logs} {
				read := map[string]otelenv.Signal{"traces": shared, "logs": own}[signal].Read
				if got, err := read(); err != nil || got != want {
					t.Errorf("%s: %+v, %v, want %+v", signal, got, err, want)
				}
			}
		})
	}
}
