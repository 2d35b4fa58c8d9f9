package otlplogs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
)

// The instrumentation scopes of what the process says, and of what scripts say: nobody takes one for the
// other, whatever a script writes.
const (
	DaemonScope = "github.com/scriptorium-dev/scriptorium"
	ScriptScope = "github.com/scriptorium-dev/scriptorium/script"
)

// The attributes that become the ids of a record.
const (
	traceKey = "trace_id"
	spanKey  = "span_id"
)

// handler hands records to the process's own output, and to one of two exporters.
type handler struct {
	own, daemon, scripts slog.Handler
	line                 Line
}

var _ slog.Handler = (*handler)(nil)

// Enabled is slog.Handler's: what the process does not log is not exported.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.own.Enabled(ctx, level)
}

// Handle is slog.Handler's.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	ctx, to, exported := h.exported(ctx, r)
	return errors.Join(h.own.Handle(ctx, r), to.Handle(ctx, exported))
}

// exported returns the record as it is exported, the context that has its trace, and where it goes.
func (h *handler) exported(ctx context.Context, r slog.Record) (context.Context, slog.Handler, slog.Record) {
	to, body, ofScript := h.daemon, r.Message, h.line.Message != "" && r.Message == h.line.Message
	if ofScript {
		to = h.scripts
	}
	var span trace.SpanContextConfig
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == traceKey && decode(span.TraceID[:], a.Value):
		case a.Key == spanKey && decode(span.SpanID[:], a.Value):
		case ofScript && a.Key == h.line.Text:
			body = a.Value.String()
		default:
			attrs = append(attrs, slog.Attr{Key: a.Key, Value: valid(a.Value)})
		}
		return true
	})
	if span.TraceID.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(span))
	}
	out := slog.NewRecord(r.Time, r.Level, utf8Of(body), r.PC)
	out.AddAttrs(attrs...)
	return ctx, to, out
}

func decode(id []byte, v slog.Value) bool {
	text := v.String()
	if len(text) != 2*len(id) {
		return false
	}
	_, err := hex.Decode(id, []byte(text))
	return err == nil
}

// valid returns the value as one that can be exported: text that is not UTF-8 would make a whole request
// void, and the exporter would show the insides of values that it does not know.
func valid(v slog.Value) slog.Value {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.StringValue(utf8Of(v.String()))
	case slog.KindAny:
		switch of := v.Any().(type) {
		case error:
			return slog.StringValue(utf8Of(of.Error()))
		case []string:
			return slog.StringValue(utf8Of(strings.Join(of, ",")))
		default:
			return slog.StringValue(utf8Of(fmt.Sprint(of)))
		}
	}
	return v
}

func utf8Of(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// WithAttrs is slog.Handler's.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	exported := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		exported[i] = slog.Attr{Key: a.Key, Value: valid(a.Value)}
	}
	return &handler{own: h.own.WithAttrs(attrs), daemon: h.daemon.WithAttrs(exported), scripts: h.scripts.WithAttrs(exported), line: h.line}
}

// WithGroup is slog.Handler's.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{own: h.own.WithGroup(name), daemon: h.daemon.WithGroup(name), scripts: h.scripts.WithGroup(name), line: h.line}
}
