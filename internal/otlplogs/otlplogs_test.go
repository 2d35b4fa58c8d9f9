package otlplogs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/codes"

	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs/logcollector"
	"github.com/scriptorium-dev/scriptorium/script"
)

// output is what a process logs, as JSON.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs f as an agent that logs.
func run(t *testing.T, f func(log *slog.Logger)) (*output, *prometheus.Registry) {
	t.Helper()
	out, metrics := &output{}, prometheus.NewRegistry()
	err := otlplogs.Run(t.Context(), otlplogs.Config{
		Service: "scriptorium-agent", Instance: "n1", Line: otlplogs.Line{Message: host.LineMessage, Text: host.LineText},
		Log: slog.New(slog.NewJSONHandler(out, nil)), Metrics: metrics,
	}, func(log *slog.Logger) error {
		f(log.With("agent", "n1"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, metrics
}

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

func bothProtocols(t *testing.T, f func(t *testing.T, c *logcollector.Collector)) {
	t.Helper()
	for _, protocol := range []string{logcollector.GRPC, logcollector.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			c := logcollector.Start(t, protocol)
			t.Setenv("OTEL_LOGS_EXPORTER", "otlp")
			f(t, c)
		})
	}
}

// TestLinesOfScripts are records with the script's text and the caller's trace, and lines of JSON.
func TestLinesOfScripts(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		out, metrics := run(t, func(log *slog.Logger) {
			h, err := host.New(host.Config{Agent: "n1", Tenants: func(string) script.TenantSettings { return script.TenantSettings{} }, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			inv := engine.Invocation{Tenant: "acme", Script: "route", Version: 7, Traceparent: "00-" + trace + "-00f067aa0ba902b7-01"}
			h.Log(&inv, engine.Warn, "stock is low item=42")
			log.Error("a script says so", "trace_id", "none", "bytes", "\xff", "error", errors.New("it \xff broke"), "names", []string{"a", "b"}, "n", 3)
			log.Debug("this is below the level")
			c.Await("2 records", func(r []logcollector.Record) bool { return len(r) == 2 })
		})
		got := c.Records()
		line, own := got[0], got[1]
		if line.Body() != "stock is low item=42" || line.Trace() != trace || line.Scope != otlplogs.ScriptScope || line.Service != "scriptorium-agent" ||
			line.GetSeverityNumber() != logsv1.SeverityNumber_SEVERITY_NUMBER_WARN || line.Attribute("tenant") != "acme" || line.Attribute("script") != "route" ||
			line.Attribute("version") != "7" || line.Attribute("agent") != "n1" || line.Attribute("text") != "" || line.Attribute("trace_id") != "" {
			t.Errorf("got %v", line)
		}
		if own.Body() != "a script says so" || own.Trace() != "" || own.Scope != otlplogs.DaemonScope || own.Attribute("trace_id") != "none" ||
			own.Attribute("bytes") != "\uFFFD" || own.Attribute("error") != "it \uFFFD broke" || own.Attribute("names") != "a,b" || own.Attribute("n") != "3" {
			t.Errorf("got %v", own)
		}
		var json1 struct{ Msg, Tenant, Text, Trace_id string } //nolint:revive // as the line has it
		for text := range strings.Lines(out.String()) {
			if strings.Contains(text, host.LineMessage+`"`) {
				if err := json.Unmarshal([]byte(text), &json1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if json1.Tenant != "acme" || json1.Text != "stock is low item=42" || json1.Trace_id != trace {
			t.Errorf("the agent's own log: %s", out)
		}
		if n, err := testutil.GatherAndCount(metrics); err != nil || n != 3 {
			t.Errorf("%d metrics, %v", n, err)
		}
	})
}

// TestTheLastRecords of a process are exported at its end.
func TestTheLastRecords(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "600000")
		run(t, func(log *slog.Logger) { log.Info("goodbye") })
		if got := c.Records(); len(got) != 1 || got[0].Body() != "goodbye" {
			t.Errorf("got %v", got)
		}
	})
}

// TestACollectorThatHangs holds nobody up: what it does not take is dropped and counted, and it gets records
// again when it answers.
func TestACollectorThatHangs(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "16")
		t.Setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "8")
		t.Setenv("OTEL_BLRP_EXPORT_TIMEOUT", "300")
		c.Always(logcollector.Answer{Hang: true})
		out, metrics := run(t, func(log *slog.Logger) {
			begin := time.Now()
			for i := range 1000 {
				log.Info("a line", "n", i)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("1000 lines took %v", took)
			}
			c.AwaitRequests(2) // the first was given up
			c.Answer()
			again := time.NewTicker(20 * time.Millisecond)
			defer again.Stop()
			for len(c.Records()) == 0 {
				log.Info("again")
				<-again.C
			}
		})
		if text := out.String(); strings.Count(text, "does not take records") != 1 || !strings.Contains(text, "takes records again") {
			t.Errorf("the log: %.2000s", text)
		}
		dropped := dropped(t, metrics)
		if dropped["queue"] < 900 || dropped["export"] == 0 {
			t.Errorf("dropped %v", dropped)
		}
	})
}

func dropped(t *testing.T, metrics *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				by[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return by
}

// TestACollectorThatRefuses is not asked again.
func TestACollectorThatRefuses(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		c.Always(logcollector.Answer{Code: codes.PermissionDenied, Status: 403})
		_, metrics := run(t, func(log *slog.Logger) { log.Info("a line") })
		if dropped := dropped(t, metrics); dropped["export"] != 1 {
			t.Errorf("dropped %v", dropped)
		}
	})
}

func TestWhenNothingIsExported(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing is said":          {},
		"another signal's":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"},
		"none is said":             {"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://127.0.0.1:1"},
		"OpenTelemetry is off":     {"OTEL_LOGS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"},
		"what is said is not read": {"OTEL_LOGS_EXPORTER": ""},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range env {
				t.Setenv(variable, value)
			}
			_, metrics := run(t, func(log *slog.Logger) { log.Info("a line") })
			if n, err := testutil.GatherAndCount(metrics); err != nil || n != 0 {
				t.Errorf("%d metrics, %v", n, err)
			}
		})
	}
}

func TestVariablesThatAreWrong(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_LOGS_EXPORTER": "console", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "collector",
		"OTEL_BLRP_MAX_QUEUE_SIZE": "0", "OTEL_EXPORTER_OTLP_LOGS_HEADERS": "secret", "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE": "none.pem",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("OTEL_LOGS_EXPORTER", "otlp")
			t.Setenv(variable, value)
			err := otlplogs.Run(t.Context(), otlplogs.Config{Log: slog.New(slog.DiscardHandler)}, func(*slog.Logger) error { return errors.New("it ran") })
			if script.KindOf(err) != script.Invalid || !strings.Contains(fmt.Sprint(err), variable) || value == "secret" && strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
