// Package otlpsink sends decisions as log records of OpenTelemetry. The body is the record's JSON. The trace and span ids
// are those of the call.
package otlpsink

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog/deliver"
	"github.com/scriptorium-dev/scriptorium/proto/decision"
)

// Scope is the instrumentation scope of the records, and EventName the name of the event.
const (
	Scope     = "github.com/scriptorium-dev/scriptorium/decisions"
	EventName = "scriptorium.decision"
)

// Bounds of one export. The default limit of collectors over gRPC is 4 MiB.
const (
	maxBytes   = 1 << 20
	maxRecords = 512
)

// Config of a Sink.
type Config struct {
	// Exporter sends the records. It must not retry. The sink closes it.
	Exporter sdklog.Exporter
	// Resource describes the process.
	Resource *resource.Resource
	// Courier configures retries. New sets its Collector and Log.
	Courier deliver.Config

	Log *slog.Logger // nil means slog.Default()
}

// Sink is a decisionlog.Sink.
type Sink struct {
	exporter sdklog.Exporter
	logger   log.Logger
	batch    batch
	courier  *deliver.Courier
}

var _ decisionlog.Sink = (*Sink)(nil)

// New returns a sink.
func New(cfg Config) *Sink {
	cfg.Courier.Collector, cfg.Courier.Log = "OTLP", cfg.Log
	s := &Sink{exporter: cfg.Exporter, courier: deliver.New(cfg.Courier)}
	options := []sdklog.LoggerProviderOption{sdklog.WithProcessor(&s.batch)}
	if cfg.Resource != nil {
		options = append(options, sdklog.WithResource(cfg.Resource))
	}
	s.logger = sdklog.NewLoggerProvider(options...).Logger(Scope)
	return s
}

// batch is the processor that collects records for the next export.
type batch struct{ records []sdklog.Record }

// OnEmit implements sdklog.Processor.
func (b *batch) OnEmit(_ context.Context, r *sdklog.Record) error {
	b.records = append(b.records, r.Clone())
	return nil
}

// Enabled implements sdklog.Processor.
func (*batch) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// Shutdown implements sdklog.Processor.
func (*batch) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (*batch) ForceFlush(context.Context) error { return nil }

// Write implements decisionlog.Sink.
func (s *Sink) Write(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		s.batch.records = s.batch.records[:0]
		size := 0
		for size < maxBytes && len(s.batch.records) < maxRecords && len(records) > 0 {
			size += len(records[0])
			s.emit(records[0])
			records = records[1:]
		}
		if err := deliver.Send(ctx, s.courier, s.batch.records, s.export); err != nil {
			return err
		}
	}
	clear(s.batch.records) // release their memory
	return s.courier.Rejected()
}

// partial matches the exporters' error of a partial success. The collector's message can have several lines. An error that
// only contains such a text is another: a gateway relays what the next collector says.
var partial = regexp.MustCompile(`(?s)^OTLP partial success: .* \((-?\d+) logs rejected\)`)

// maxReason bounds an error's text, which can contain megabytes of the collector's response.
const maxReason = 1024

// export sends the records in one request. It returns the error for the Courier, with a bounded text.
func (s *Sink) export(ctx context.Context, records []sdklog.Record) error {
	err := s.exporter.Export(ctx, records)
	if err == nil {
		return nil
	}
	text := err.Error()
	reason := errors.New(strings.ToValidUTF8(text[:min(len(text), maxReason)], "\uFFFD"))
	if m := partial.FindStringSubmatch(text); m != nil {
		rejected, parseErr := strconv.Atoi(m[1])
		if parseErr != nil || rejected < 0 || rejected > len(records) {
			rejected = len(records)
		}
		if rejected == 0 {
			s.courier.Warn(reason)
			return nil
		}
		s.courier.Reject(rejected, reason)
		return nil
	}
	if isTemporary(err) {
		return reason
	}
	return deliver.Permanent(reason)
}

// emit adds the record to the batch.
func (s *Sink) emit(record []byte) {
	var head decision.Record
	_ = json.Unmarshal(record, &head) // after an error, send the record without these fields
	var r log.Record
	r.SetTimestamp(head.Timestamp)
	r.SetObservedTimestamp(time.Now())
	r.SetEventName(EventName)
	// Invalid UTF-8 would make the whole request fail.
	r.SetBody(attribute.StringValue(string(bytes.ToValidUTF8(record, []byte("\uFFFD")))))
	severity := log.SeverityInfo
	if head.Outcome != decision.OutcomeOK {
		severity = log.SeverityError
	}
	r.SetSeverity(severity)
	r.SetSeverityText(severity.String())
	for _, a := range []struct{ key, value string }{
		{"scriptorium.decision_id", head.ID},
		{"scriptorium.tenant", head.Tenant},
		{"scriptorium.script", head.Script},
		{"scriptorium.outcome", head.Outcome},
	} {
		if a.value != "" {
			r.AddAttributes(attribute.String(a.key, a.value))
		}
	}
	if head.Version != 0 {
		r.AddAttributes(attribute.Int64("scriptorium.version", int64(head.Version)))
	}
	s.logger.Emit(trace.ContextWithRemoteSpanContext(context.Background(), spanOf(&head)), r)
}

// spanOf returns the span of the call, as far as the record names it.
func spanOf(head *decision.Record) trace.SpanContext {
	var cfg trace.SpanContextConfig
	if len(head.TraceID) == 2*len(cfg.TraceID) {
		_, _ = hex.Decode(cfg.TraceID[:], []byte(head.TraceID)) // an invalid id does no harm
	}
	if len(head.SpanID) == 2*len(cfg.SpanID) {
		_, _ = hex.Decode(cfg.SpanID[:], []byte(head.SpanID))
	}
	return trace.NewSpanContext(cfg)
}

// httpStatus matches the HTTP exporter's error of a response.
var httpStatus = regexp.MustCompile(`^failed to send logs to \S+: (\d{3}) `)

// isTemporary reports whether a retry can succeed. Errors of unknown kinds are permanent: otherwise one of them could
// block all records.
func isTemporary(err error) bool {
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		switch s.GRPCStatus().Code() {
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss, codes.ResourceExhausted,
			codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.NotFound:
			return true
		}
		return false
	}
	if m := httpStatus.FindStringSubmatch(err.Error()); m != nil {
		code, _ := strconv.Atoi(m[1]) // three digits
		return !deliver.Refuses(code)
	}
	_, isURL := errors.AsType[*url.Error](err)
	_, isNet := errors.AsType[net.Error](err)
	return isURL || isNet || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		strings.Contains(err.Error(), "retry-able request failure") // the HTTP exporter has no type for it
}

// Close closes the exporter.
func (s *Sink) Close(ctx context.Context) error {
	if err := s.exporter.Shutdown(ctx); err != nil {
		return fmt.Errorf("close the exporter of decisions: %w", err)
	}
	return nil
}
