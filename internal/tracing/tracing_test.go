package tracing_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/tracing/tracetest"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

func open(t *testing.T, options tracing.Options) (*tracing.Tracing, *prometheus.Registry) {
	t.Helper()
	tr, err := tracing.Open(t.Context(), tracing.Config{Options: options, Service: "test", Instance: "one", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	metrics := prometheus.NewRegistry()
	if err := tr.Register(metrics); err != nil {
		t.Fatal(err)
	}
	return tr, metrics
}

// count returns the value of a counter, of the label's value if it is not "".
func count(t *testing.T, metrics *prometheus.Registry, name, reason string) (n float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (reason == "" || m.GetLabel()[0].GetValue() == reason) {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

const (
	exported = "scriptorium_trace_spans_exported_total"
	dropped  = "scriptorium_trace_spans_dropped_total"
)

func TestProtocols(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			c := tracetest.Start(t, protocol)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			tr, metrics := open(t, tracing.Options{})
			ctx, above := tr.Tracer().Start(t.Context(), "above")
			_, below := tr.Tracer().Start(ctx, "below", trace.WithAttributes(attribute.String("long", strings.Repeat("x", 5000))))
			below.End()
			above.End()
			got := c.AwaitSpan(t, "below", nil)
			parent := c.AwaitSpan(t, "above", nil)
			if got.Parent() != parent.ID() || got.Trace() != parent.Trace() || got.Service != "test" || got.Instance != "one" {
				t.Errorf("%v is not below %v", got, parent)
			}
			if n := len(got.Attribute("long")); n > 1024 {
				t.Errorf("an attribute of %d bytes", n)
			}
			tr.Close()
			if n, lost := count(t, metrics, exported, ""), count(t, metrics, dropped, ""); n != 2 || lost != 0 {
				t.Errorf("%v spans are exported and %v dropped", n, lost)
			}
		})
	}
}

func TestOff(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing is set":    {},
		"disabled":          {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"no exporter":       {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
		"empty is not set":  {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": " "},
		"metrics elsewhere": {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range env {
				t.Setenv(variable, value)
			}
			tr, _ := open(t, tracing.Options{})
			if tr.On() || tr.Calls() != nil {
				t.Error("spans are recorded")
			}
			// A context of a caller is handed on all the same.
			caller, _ := tracecontext.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
			ctx, span := tr.Tracer().Start(tracecontext.With(t.Context(), caller), "x")
			if got := tracecontext.From(ctx); got != caller || span.IsRecording() {
				t.Errorf("the context is %v", got)
			}
		})
	}
	var none *tracing.Tracing
	if none.On() || none.Calls() != nil || none.Shutdown(t.Context()) != nil || none.Tracer() == nil {
		t.Error("a nil Tracing is not off")
	}
}

// TestVariables: what cannot be read is an error that names the variable, and never a secret.
func TestVariables(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, tt := range []struct{ variable, value string }{
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_TRACES_EXPORTER", "otlp,console"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "tcp"},
		{endpoint, "collector:4317"},
		{endpoint, "http://"},
		{endpoint, "http://%zz"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "tcp://collector"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization secret"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret%zz"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "two words=secret"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "maybe"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.crt"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "tracing_test.go"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/nowhere/tls.crt"},
		{"OTEL_TRACES_SAMPLER", "often"},
		{"OTEL_SDK_DISABLED", "yes"},
		{"OTEL_PROPAGATORS", "b3"},
		{"OTEL_RESOURCE_ATTRIBUTES", "team"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-1"},
		{"OTEL_BSP_SCHEDULE_DELAY", "soon"},
		{"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "0"},
	} {
		t.Run(tt.variable+"="+tt.value, func(t *testing.T) {
			t.Setenv(endpoint, "http://127.0.0.1:1")
			t.Setenv(tt.variable, tt.value)
			checkRefused(t, tt.variable)
		})
	}
	for _, ratio := range []string{"1.5", "-1", "NaN", "half"} {
		t.Run("ratio "+ratio, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
			checkRefused(t, "OTEL_TRACES_SAMPLER_ARG")
		})
	}
	if _, err := tracing.Open(t.Context(), tracing.Config{Options: tracing.Options{TracesPerSecond: -1}}); err == nil || !strings.Contains(err.Error(), "--traces-per-second") {
		t.Errorf("a negative rate: %v", err)
	}
}

func checkRefused(t *testing.T, variable string) {
	t.Helper()
	_, err := tracing.Open(t.Context(), tracing.Config{Service: "test", Log: slog.New(slog.DiscardHandler)})
	if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), variable) {
		t.Errorf("error %v does not name %s", err, variable)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v has a secret", err)
	}
}

// TestSampling: calls are sampled as the SDK samples other spans.
func TestSampling(t *testing.T) {
	sampled, _ := tracecontext.Parse("00-00000000000000000000000000000001-00f067aa0ba902b7-01")
	not := sampled
	not.Flags = 0
	high := sampled // its trace is not among the first half
	high.TraceID[8] = 0xff
	for _, tt := range []struct {
		sampler, ratio              string
		root, sampled, not, highest bool
	}{
		{"", "", true, true, false, true},
		{"always_on", "", true, true, true, true},
		{"always_off", "", false, false, false, false},
		{"traceidratio", "0.5", false, true, true, false},
		{"traceidratio", "0", false, false, false, false},
		{"traceidratio", "1", true, true, true, true},
		{"parentbased_always_on", "", true, true, false, true},
		{"parentbased_always_off", "", false, true, false, true},
		{"parentbased_traceidratio", "0", false, true, false, true},
		{"PARENTBASED_TRACEIDRATIO", "1", true, true, false, true},
	} {
		t.Run(tt.sampler+tt.ratio, func(t *testing.T) {
			tracetest.Start(t, "grpc")
			t.Setenv("OTEL_TRACES_SAMPLER", tt.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", tt.ratio)
			tr, _ := open(t, tracing.Options{})
			calls := tr.Calls()
			for _, c := range []struct {
				name   string
				caller tracecontext.Context
				want   bool
			}{{"a root", tracecontext.Context{}, tt.root}, {"sampled", sampled, tt.sampled}, {"not sampled", not, tt.not}, {"a high id", high, tt.highest}} {
				if tt.ratio == "0.5" && !c.caller.Valid() {
					continue // by chance
				}
				_, span := tr.Tracer().Start(tracecontext.With(t.Context(), c.caller), "x")
				if got := calls.Sampling.Sampled(c.caller); got != c.want || span.IsRecording() != c.want {
					t.Errorf("%s: the call is sampled: %t, and a span: %t; want %t", c.name, got, span.IsRecording(), c.want)
				}
				span.End()
			}
		})
	}
}

// TestRate: a flood of traces is bounded, and counted. What was begun is recorded to the end.
func TestRate(t *testing.T) {
	tracetest.Start(t, "grpc")
	tr, metrics := open(t, tracing.Options{TracesPerSecond: 3})
	recorded := 0
	caller, _ := tracecontext.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for range 1000 {
		ctx, span := tr.Tracer().Start(tracecontext.With(t.Context(), caller), "above")
		_, below := tr.Tracer().Start(ctx, "below")
		if span.IsRecording() != below.IsRecording() {
			t.Fatal("a trace is recorded in part")
		}
		if span.IsRecording() {
			recorded++
		}
		below.End()
		span.End()
	}
	// The machine may have taken seconds for it.
	if lost := count(t, metrics, dropped, "rate"); recorded < 3 || recorded > 500 || int(lost)+recorded != 1000 {
		t.Errorf("%d are recorded and %v dropped, of 1000", recorded, lost)
	}
}

// TestCollectorHangs: spans that a collector does not take are dropped and counted, and nobody waits for
// it. When it is back it gets what comes then.
func TestCollectorHangs(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, *tracetest.Collector) (back func()){
		"hangs": func(_ *testing.T, c *tracetest.Collector) func() {
			c.Hang()
			return c.Take
		},
		"refuses": func(_ *testing.T, c *tracetest.Collector) func() {
			c.Refuse()
			return c.Take
		},
		"is gone": func(t *testing.T, c *tracetest.Collector) func() {
			t.Helper()
			c.Stop()
			return func() { c.Listen(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := tracetest.Start(t, "grpc")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "50")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
			tr, metrics := open(t, tracing.Options{TracesPerSecond: 1_000_000})
			back := fault(t, c)
			made := 0
			end := func() {
				_, span := tr.Tracer().Start(t.Context(), "x")
				span.End()
				made++
			}
			for range 10_000 { // which the collector cannot take as fast, hanging or not
				end()
			}
			if name == "hangs" {
				c.AwaitHanging(t)
			}
			if n := count(t, metrics, dropped, "queue"); n == 0 {
				t.Error("more than the queue holds waits for the collector")
			}
			back()
			c.Await(t, "span after the collector is back", func(spans []tracetest.Span) bool {
				end()
				return len(spans) > 0
			})
			tr.Close()
			if n, lost := count(t, metrics, exported, ""), count(t, metrics, dropped, ""); int(n+lost) != made {
				t.Errorf("%d spans were made, %v exported and %v dropped", made, n, lost)
			}
		})
	}
}

// lines are what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestALongRefusal: what a collector answers is logged in part.
func TestALongRefusal(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, strings.Repeat("no ", 1<<14))
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	log := make(lines, 16)
	tr, err := tracing.Open(t.Context(), tracing.Config{Service: "test", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	_, span := tr.Tracer().Start(t.Context(), "x")
	span.End()
	text := <-log
	for !strings.Contains(text, "does not take spans") {
		text = <-log
	}
	if len(text) > 4096 || !strings.Contains(text, "400 Bad Request") {
		t.Errorf("%d bytes are logged: %.2000s", len(text), text)
	}
}
