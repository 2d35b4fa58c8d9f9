package otlpsink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/codes"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/otlpsink"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs/logcollector"
)

func newSink(t *testing.T, timeout time.Duration) (*otlpsink.Sink, *bytes.Buffer) {
	t.Helper()
	exporter, _, err := otlplogs.NewExporter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := otlpsink.New(otlpsink.Config{
		Exporter: exporter, Resource: resource.NewSchemaless(attribute.String("service.name", "scriptorium-agent")),
		Courier: deliver.Config{Timeout: timeout, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond},
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, &log
}

const patience = time.Minute

func write(t *testing.T, s *otlpsink.Sink, records ...[]byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Write(ctx, records)
}

func record(id string) []byte {
	return fmt.Appendf(nil, `{"decision_id":%q,"timestamp":"2026-01-02T03:04:05.000000006Z","tenant":"acme","script":"route","version":7,"outcome":"OK"}`, id)
}

// bothProtocols runs the test with a collector for each.
func bothProtocols(t *testing.T, f func(t *testing.T, c *logcollector.Collector)) {
	t.Helper()
	for _, protocol := range []string{logcollector.GRPC, logcollector.HTTP} {
		t.Run(protocol, func(t *testing.T) { f(t, logcollector.Start(t, protocol)) })
	}
}

func TestRecords(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		s, _ := newSink(t, patience)
		failed := []byte(`{"decision_id":"2","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","outcome":"LIMIT"}`)
		if err := write(t, s, record("1"), failed, []byte("no \xff record")); err != nil {
			t.Fatal(err)
		}
		got := c.Records()
		if len(got) != 3 {
			t.Fatalf("%d records", len(got))
		}
		first, second, third := got[0], got[1], got[2]
		if first.Body() != string(record("1")) || first.GetTimeUnixNano() != uint64(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()) ||
			first.Attribute("scriptorium.tenant") != "acme" || first.Attribute("scriptorium.script") != "route" || first.Attribute("scriptorium.version") != "7" ||
			first.Attribute("scriptorium.outcome") != "OK" || first.Attribute("scriptorium.decision_id") != "1" || first.GetEventName() != otlpsink.EventName ||
			first.GetSeverityNumber() != logsv1.SeverityNumber_SEVERITY_NUMBER_INFO || first.Trace() != "" ||
			first.Service != "scriptorium-agent" || first.Scope != otlpsink.Scope {
			t.Errorf("got %v", first)
		}
		if second.Trace() != "4bf92f3577b34da6a3ce929d0e0e4736" || second.Span() != "00f067aa0ba902b7" || second.GetSeverityNumber() != logsv1.SeverityNumber_SEVERITY_NUMBER_ERROR {
			t.Errorf("got %v", second)
		}
		if third.Body() != "no \uFFFD record" {
			t.Errorf("got %v", third)
		}
	})
}

// TestRequestsAreBounded: a collector takes 4 MiB over gRPC.
func TestRequestsAreBounded(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		s, _ := newSink(t, patience)
		var records [][]byte
		large := strings.Repeat("x", 200<<10)
		for i := range 600 {
			id := fmt.Sprint(i)
			if i%20 == 0 {
				id = large
			}
			records = append(records, record(id))
		}
		if err := write(t, s, records...); err != nil {
			t.Fatal(err)
		}
		if got := c.Records(); len(got) != len(records) {
			t.Errorf("%d records of %d", len(got), len(records))
		}
	})
}

func TestWhatACollectorAnswers(t *testing.T) {
	unreadable := logcollector.Answer{Code: codes.InvalidArgument, Status: http.StatusBadRequest}
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		for name, tt := range map[string]struct {
			answers []logcollector.Answer
			refused int
		}{
			"is busy":         {[]logcollector.Answer{{Code: codes.Unavailable, Status: http.StatusServiceUnavailable}, {Code: codes.ResourceExhausted, Status: http.StatusTooManyRequests}}, 0},
			"is wrong itself": {[]logcollector.Answer{{Code: codes.DataLoss, Status: http.StatusBadGateway}}, 0},
			"does not know":   {[]logcollector.Answer{{Code: codes.Unauthenticated, Status: http.StatusUnauthorized}}, 0},
			"forbids":         {[]logcollector.Answer{{Code: codes.PermissionDenied, Status: http.StatusForbidden}}, 0},
			"cannot read one": {[]logcollector.Answer{unreadable, unreadable}, 1},
			"cannot read any": {[]logcollector.Answer{unreadable, unreadable, unreadable}, 2},
			"has no logs":     {[]logcollector.Answer{{Code: codes.Unimplemented, Status: http.StatusNotFound}}, 0},
			"rejects one":     {[]logcollector.Answer{{Rejected: 1}}, 1},
			"only warns":      {[]logcollector.Answer{{Warning: "slow down"}}, 0},
			"lists errors":    {[]logcollector.Answer{{Rejected: 1, Warning: "too old\nof an unknown tenant"}}, 1},
			"rejects both":    {[]logcollector.Answer{{Rejected: 2}}, 2},
			"rejects many":    {[]logcollector.Answer{{Rejected: math.MaxInt64}}, 2},
			"counts wrongly":  {[]logcollector.Answer{{Rejected: -1, Warning: "(0 logs rejected)"}}, 2},
			"relays a warning": {[]logcollector.Answer{{
				Code: codes.Unavailable, Status: http.StatusServiceUnavailable, Warning: "OTLP partial success: slow down (0 logs rejected)",
			}}, 0},
			"is hostile": {[]logcollector.Answer{{Rejected: 1, Warning: "\x1b[31m\x00\u2028 (0 logs rejected)\nOTLP partial success: (2 logs rejected) "}}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				s, log := newSink(t, patience)
				c.Answer(tt.answers...)
				before := len(c.Records())
				err := write(t, s, record("1"), record("2"))
				refused, _ := errors.AsType[*decisionlog.Rejected](err)
				switch {
				case tt.refused == 0 && (err != nil || len(c.Records()) != before+2):
					t.Errorf("%v, with %d records", err, len(c.Records())-before)
				case tt.refused > 0 && (refused == nil || refused.Records != tt.refused):
					t.Errorf("got %v, want %d records refused", err, tt.refused)
				}
				if log.Len() == 0 {
					t.Error("the log says nothing")
				}
				if err := write(t, s, record("3")); err != nil {
					t.Errorf("the next one: %v", err)
				}
			})
		}
	})
}

// TestACollectorThatHangs is given up at each attempt, and gets the records when it answers again.
func TestACollectorThatHangs(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		s, log := newSink(t, 200*time.Millisecond)
		c.Answer(logcollector.Answer{Hang: true}, logcollector.Answer{Hang: true})
		if err := write(t, s, record("1")); err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "does not take records") != 1 || !strings.Contains(text, "takes records again") {
			t.Errorf("the log: %s", text)
		}
	})
}

// TestACollectorThatIsGone: a write ends with its context, and the next one gets through when the
// collector is back.
func TestACollectorThatIsGone(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		s, _ := newSink(t, patience)
		if err := write(t, s, record("1")); err != nil {
			t.Fatal(err)
		}
		c.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.Write(ctx, [][]byte{record("2")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no collector: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- write(t, s, record("3")) }()
		c.Listen()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := c.Records(); len(got) != 2 || got[1].Attribute("scriptorium.decision_id") != "3" {
			t.Errorf("got %v", got)
		}
	})
}

// TestACollectorThatSaysMuch does not fill the log of the agent.
func TestACollectorThatSaysMuch(t *testing.T) {
	for name, a := range map[string]logcollector.Answer{
		"warns":   {},
		"rejects": {Rejected: 1},
		"is busy": {Code: codes.Unavailable, Status: http.StatusServiceUnavailable},
		"refuses": {Code: codes.InvalidArgument, Status: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
				t.Helper()
				s, log := newSink(t, patience)
				a.Warning = strings.Repeat("much ", 100<<10)
				c.Answer(a)
				err := write(t, s, record("1"))
				if log.Len() == 0 || log.Len() > 10<<10 {
					t.Errorf("the log has %d bytes", log.Len())
				}
				if err != nil && len(err.Error()) > 10<<10 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// TestWarningsHideNoRefusal: the log names both, each once a minute.
func TestWarningsHideNoRefusal(t *testing.T) {
	bothProtocols(t, func(t *testing.T, c *logcollector.Collector) {
		t.Helper()
		s, log := newSink(t, patience)
		for range 2 {
			c.Answer(logcollector.Answer{Warning: "slow down"}, logcollector.Answer{Rejected: 1})
			for range 2 {
				_ = write(t, s, record("1"))
			}
		}
		for _, says := range []string{"with a warning", "refuses records"} {
			if n := strings.Count(log.String(), says); n != 1 {
				t.Errorf("the log has %q %d times", says, n)
			}
		}
	})
}
