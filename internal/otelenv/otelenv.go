// Package otelenv reads the standard variables OTEL_* that the signals of OpenTelemetry share: where a signal goes, and
// the resource attributes of the process.
//
// The exporters and the SDK read most variables themselves, but ignore invalid values. So this package checks all of them
// first.
package otelenv

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Exporters and protocols in the environment.
const (
	None    = "none"
	OTLP    = "otlp"
	Console = "console"

	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Variable returns the value of a variable. An empty one counts as absent, as the specification says.
func Variable(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// Number returns the number in a checked variable, or the default.
func Number(name string, otherwise int) int {
	if n, err := strconv.Atoi(Variable(name)); err == nil {
		return n
	}
	return otherwise
}

// Signal is a signal of OpenTelemetry.
type Signal struct {
	Name string // as in variables: "TRACES"
	// Exporters are allowed in addition to None and OTLP.
	Exporters []string
	// Shared is set if the endpoint of all signals turns this signal on. Otherwise only the signal's own endpoint or
	// exporter variable does.
	Shared bool
	// Positive are variables of this signal whose value must be a number above 0.
	Positive []string
}

// Target is where a signal goes.
type Target struct {
	Exporter string
	Protocol string // of OTLP
	// Endpoint is a URL of OTLP. The exporters read it from the environment.
	Endpoint string
	// Default is set if the environment has no endpoint. Endpoint is then the default of the specification, and must be
	// passed to the exporter, whose own default has TLS.
	Default bool
}

// otlpPrefix is the prefix of the variables for OTLP.
const otlpPrefix = "OTEL_EXPORTER_OTLP_"

func (s Signal) prefix() string { return otlpPrefix + s.Name + "_" }

// Read returns where the signal goes. An error is Invalid and names the variable.
func (s Signal) Read() (t Target, err error) {
	if err := s.check(); err != nil {
		return t, err
	}
	if t.Exporter, err = s.exporter(); err != nil || t.Exporter != OTLP {
		return t, err
	}
	return s.otlp()
}

// exporter returns the name of the exporter. OpenTelemetry's default is OTLP. But without an endpoint in the environment
// there is probably no collector, so the default is then None.
func (s Signal) exporter() (string, error) {
	name := "OTEL_" + s.Name + "_EXPORTER"
	if strings.EqualFold(Variable("OTEL_SDK_DISABLED"), "true") {
		return None, nil
	}
	known := append([]string{OTLP}, append(s.Exporters, None)...)
	value := Variable(name)
	if value == "" {
		if Variable(s.prefix()+"ENDPOINT") != "" || s.Shared && Variable(otlpPrefix+"ENDPOINT") != "" {
			return OTLP, nil
		}
		return None, nil
	}
	for _, exporter := range known {
		if value == exporter {
			return value, nil
		}
	}
	return "", script.Errorf(script.Invalid, name, "%.80q is no exporter that is known here: want %s or %s", value, strings.Join(known[:len(known)-1], ", "), None)
}

// OTLP returns the target of a signal that a flag turns on. It ignores the exporter variable. An error is Invalid and
// names the variable.
func (s Signal) OTLP() (t Target, err error) {
	if err := s.check(); err != nil {
		return t, err
	}
	return s.otlp()
}

func (s Signal) otlp() (t Target, err error) {
	t.Exporter = OTLP
	t.Protocol, err = s.protocol()
	t.Endpoint = cmp.Or(Variable(s.prefix()+"ENDPOINT"), Variable(otlpPrefix+"ENDPOINT"))
	if t.Default = t.Endpoint == ""; t.Default {
		t.Endpoint = "http://localhost:4318"
		if t.Protocol == GRPC {
			t.Endpoint = "http://localhost:4317"
		}
	}
	return t, err
}

func (s Signal) protocol() (string, error) {
	protocol := HTTP
	for _, name := range []string{otlpPrefix + "PROTOCOL", s.prefix() + "PROTOCOL"} {
		switch value := Variable(name); value {
		case "":
		case GRPC, HTTP:
			protocol = value
		default:
			return "", script.Errorf(script.Invalid, name, "%.80q is no protocol that is spoken here: want %s or %s", value, GRPC, HTTP)
		}
	}
	return protocol, nil
}

// check returns an error that names the first variable with an invalid value.
func (s Signal) check() error {
	all, own := otlpPrefix, s.prefix()
	type check func(string) error
	checks := []struct {
		check check
		names []string
	}{
		{isBool, []string{"OTEL_SDK_DISABLED", all + "INSECURE", own + "INSECURE"}},
		{isURL, []string{all + "ENDPOINT", own + "ENDPOINT"}},
		{isHeaders, []string{all + "HEADERS", own + "HEADERS"}},
		{isCompression, []string{all + "COMPRESSION", own + "COMPRESSION"}},
		{isCertificates, []string{all + "CERTIFICATE", own + "CERTIFICATE"}},
		{isPairs, []string{"OTEL_RESOURCE_ATTRIBUTES"}},
		{isPositive, append([]string{all + "TIMEOUT", own + "TIMEOUT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT"}, s.Positive...)},
	}
	for _, c := range checks {
		for _, name := range c.names {
			if value := Variable(name); value != "" {
				if err := c.check(value); err != nil {
					return script.Errorf(script.Invalid, name, "%w", err)
				}
			}
		}
	}
	for _, prefix := range []string{all, own} {
		if err := isKeyPair(prefix+"CLIENT_CERTIFICATE", prefix+"CLIENT_KEY"); err != nil {
			return err
		}
	}
	return nil
}

// Misconfigured wraps the error of an exporter that rejects the configuration.
func Misconfigured(err error) error {
	return script.Errorf(script.Invalid, otlpPrefix+"ENDPOINT", "%w", err)
}

// reconnectWithin bounds the time until the exporter reconnects to a collector that is back.
const reconnectWithin = 5 * time.Second

// Reconnecting returns the backoff of a gRPC connection, with pauses of at most reconnectWithin.
func Reconnecting() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectWithin},
		MinConnectTimeout: reconnectWithin,
	})
}

// Resource returns the resource attributes of the process. The environment can override the service. The instance
// identifies the process among those of the service; the name of the host if empty.
func Resource(ctx context.Context, service, instance string) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{semconv.ServiceName(service), semconv.ServiceVersion(version.String())}
	if instance == "" {
		instance, _ = os.Hostname() // "" without one
	}
	if instance != "" {
		attributes = append(attributes, semconv.ServiceInstanceID(instance))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) { // such as a host without a name
		return nil, script.Errorf(script.Invalid, "OTEL_RESOURCE_ATTRIBUTES", "%w", err)
	}
	return res, nil
}

// handled is the state of the error handler. The SDK has one handler per process.
var handled struct {
	once sync.Once
	log  atomic.Pointer[slog.Logger]
	at   atomic.Int64
}

// HandleErrors logs errors of the SDK, at most one per minute.
func HandleErrors(log *slog.Logger) {
	handled.log.Store(log)
	handled.once.Do(func() {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			if Seldom(&handled.at) {
				handled.log.Load().Warn("OpenTelemetry reports an error; others are logged once a minute", "error", Reason(err))
			}
		}))
	})
}

// maxReason bounds the text of a logged error, in bytes.
const maxReason = 1024

// Reason returns the bounded text of an exporter's error, which can contain megabytes of the collector's response.
func Reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "\uFFFD")
}

// Seldom reports whether a minute has passed since it last returned true for this variable.
func Seldom(last *atomic.Int64) bool {
	now, before := time.Now().UnixNano(), last.Load()
	return now-before >= int64(time.Minute) && last.CompareAndSwap(before, now)
}
