package tracing

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Exporters and protocols that the environment can name.
const (
	exporterNone    = "none"
	exporterOTLP    = "otlp"
	exporterConsole = "console"

	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// environment is what the variables say. The exporters and the SDK read most of them themselves, and
// go on without those that they cannot read: so all are looked at here before.
type environment struct {
	exporter  string
	protocol  string
	sampling  tracecontext.Sampling
	continues bool
}

// variable returns the value of a variable. An empty one counts as absent, as the specification says.
func variable(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// number returns that of a variable that was checked, or the default.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(variable(name)); err == nil {
		return n
	}
	return otherwise
}

func readEnvironment() (e environment, err error) {
	if err := checkVariables(); err != nil {
		return e, err
	}
	if e.continues, err = readContinues(); err != nil {
		return e, err
	}
	if e.sampling, err = readSampling(); err != nil {
		return e, err
	}
	e.exporter, err = readExporter()
	if err != nil || e.exporter != exporterOTLP {
		return e, err
	}
	e.protocol = protocolHTTP
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		switch value := variable(name); value {
		case "":
		case protocolGRPC, protocolHTTP:
			e.protocol = value
		default:
			return e, script.Errorf(script.Invalid, name, "%.80q is no protocol that is spoken here: want %s or %s", value, protocolGRPC, protocolHTTP)
		}
	}
	return e, nil
}

// readExporter returns the exporter. Without an endpoint in the environment nobody waits for traces, so
// the default is none then, and not that of OpenTelemetry.
func readExporter() (string, error) {
	const name = "OTEL_TRACES_EXPORTER"
	if strings.EqualFold(variable("OTEL_SDK_DISABLED"), "true") {
		return exporterNone, nil
	}
	switch value := variable(name); value {
	case exporterNone, exporterOTLP, exporterConsole:
		return value, nil
	case "":
		if variable("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
			return exporterOTLP, nil
		}
		return exporterNone, nil
	default:
		return "", script.Errorf(script.Invalid, name, "%.80q is no exporter that is known here: want %s, %s or %s", value, exporterOTLP, exporterConsole, exporterNone)
	}
}

// readContinues reports whether the traces of others are continued. Nothing here reads or writes
// baggage.
func readContinues() (continues bool, err error) {
	const name = "OTEL_PROPAGATORS"
	for value := range strings.SplitSeq(cmp.Or(variable(name), "tracecontext"), ",") {
		switch value = strings.TrimSpace(value); value {
		case "tracecontext":
			continues = true
		case "baggage", exporterNone:
		default:
			return false, script.Errorf(script.Invalid, name, "%.80q is no propagator that is known here: want tracecontext, baggage or none", value)
		}
	}
	return continues, nil
}

// checkVariables returns an error that names the first variable whose value cannot be read.
func checkVariables() error {
	const otlp, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	type check func(string) error
	checks := []struct {
		check check
		names []string
	}{
		{isBool, []string{"OTEL_SDK_DISABLED", otlp + "INSECURE", traces + "INSECURE"}},
		{isURL, []string{otlp + "ENDPOINT", traces + "ENDPOINT"}},
		{isHeaders, []string{otlp + "HEADERS", traces + "HEADERS"}},
		{isCompression, []string{otlp + "COMPRESSION", traces + "COMPRESSION"}},
		{isCertificates, []string{otlp + "CERTIFICATE", traces + "CERTIFICATE"}},
		{isPairs, []string{"OTEL_RESOURCE_ATTRIBUTES"}},
		{isPositive, []string{
			otlp + "TIMEOUT", traces + "TIMEOUT", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
			"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
			"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
		}},
	}
	for _, c := range checks {
		for _, name := range c.names {
			if value := variable(name); value != "" {
				if err := c.check(value); err != nil {
					return script.Errorf(script.Invalid, name, "%w", err)
				}
			}
		}
	}
	for _, prefix := range []string{otlp, traces} {
		if err := isKeyPair(prefix+"CLIENT_CERTIFICATE", prefix+"CLIENT_KEY"); err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return script.Errorf(script.Invalid, "", format, args...)
}

func isBool(value string) error {
	if !slices.Contains([]string{"true", "false"}, strings.ToLower(value)) {
		return invalid("%.80q is neither true nor false", value)
	}
	return nil
}

func isURL(value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return invalid("is no address of a collector: want http://HOST:PORT, or https://HOST:PORT for TLS") // which may hold a secret
	}
	return nil
}

// isHeaders repeats no value: it may be a secret.
func isHeaders(value string) error {
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(name) == "" || strings.ContainsAny(strings.TrimSpace(name), " \t\r\n\"(),/:;<=>?@[\\]{}") {
			return invalid("is no list of headers: want NAME=VALUE,…, the values with %% escapes")
		}
	}
	return nil
}

func isPairs(value string) error {
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(name) == "" {
			return invalid("%.80q is no attribute: want NAME=VALUE,…, the values with %% escapes", pair)
		}
	}
	return nil
}

func isCompression(value string) error {
	if value != "gzip" && value != "none" {
		return invalid("%.80q is no compression that is known here: want gzip or none", value)
	}
	return nil
}

func isPositive(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n <= 0 {
		return invalid("%.80q is no number above 0", value)
	}
	return nil
}

func isCertificates(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return invalid("cannot be read: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return invalid("%.200s has no certificates in PEM", path)
	}
	return nil
}

func isKeyPair(certVariable, keyVariable string) error {
	cert, key := variable(certVariable), variable(keyVariable)
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return script.Errorf(script.Invalid, certVariable, "and %s belong together: set both, or none", keyVariable)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return script.Errorf(script.Invalid, certVariable, "cannot be used with %s: %w", keyVariable, err)
	}
	return nil
}

// reconnectWithin is how long a collector is back before spans go to it at the latest.
const reconnectWithin = 5 * time.Second

// open returns the exporter. It does not wait for the collector.
func (e environment) open(ctx context.Context) (exporter sdktrace.SpanExporter, err error) {
	switch {
	case e.exporter == exporterConsole:
		exporter, err = stdouttrace.New()
	case e.protocol == protocolGRPC:
		exporter, err = otlptracegrpc.New(ctx, otlptracegrpc.WithDialOption(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectWithin},
			MinConnectTimeout: reconnectWithin,
		})))
	default:
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, script.Errorf(script.Invalid, "OTEL_EXPORTER_OTLP_ENDPOINT", "%w", err)
	}
	return exporter, nil
}
