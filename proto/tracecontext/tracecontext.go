// Package tracecontext reads and writes W3C trace contexts, and carries them from part to part: in
// the context of Go, in the metadata of gRPC, and as the text of a traceparent.
//
// A traceparent comes from callers that nobody vouches for. Parse takes what the recommendation
// (https://www.w3.org/TR/trace-context/) allows and nothing else, and reads at most Size bytes.
package tracecontext

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Name of the header, the key of gRPC metadata, and the field of events.
const Name = "traceparent"

// Size of the text of a traceparent.
const Size = 55

// Context is what a traceparent says. The zero Context is none.
type Context struct {
	TraceID trace.TraceID
	SpanID  trace.SpanID
	Flags   trace.TraceFlags
}

// Valid reports whether there is a context.
func (c Context) Valid() bool { return c.TraceID.IsValid() && c.SpanID.IsValid() }

// Sampled reports whether the caller records the trace.
func (c Context) Sampled() bool { return c.Flags.IsSampled() }

// String returns the text of the traceparent; "" of none.
func (c Context) String() string {
	if !c.Valid() {
		return ""
	}
	text := make([]byte, 0, Size)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, c.TraceID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, c.SpanID[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, []byte{byte(c.Flags & trace.FlagsSampled)})
	return string(text)
}

// Where the parts of a traceparent begin.
const traceAt, spanAt, flagsAt = 3, 36, 53

// IDs returns the ids of the trace and the span as the text has them; "" if it is no traceparent.
func IDs(text string) (trace, span string) {
	if _, ok := Parse(text); !ok {
		return "", ""
	}
	return text[traceAt : spanAt-1], text[spanAt : flagsAt-1]
}

// Parse reads the text of a traceparent. ok is false if that is none. It does not allocate.
func Parse(text string) (c Context, ok bool) {
	if len(text) < Size || text[traceAt-1] != '-' || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	if !decode(version[:], text[:2]) || !decode(c.TraceID[:], text[traceAt:spanAt-1]) ||
		!decode(c.SpanID[:], text[spanAt:flagsAt-1]) || !decode(flags[:], text[flagsAt:Size]) {
		return Context{}, false
	}
	// Later versions may add fields behind those of version 0. 255 is none.
	if version[0] == 0xff || len(text) > Size && (version[0] == 0 || text[Size] != '-') {
		return Context{}, false
	}
	c.Flags = trace.TraceFlags(flags[0]) & trace.FlagsSampled
	if !c.Valid() {
		return Context{}, false
	}
	return c, true
}

// Unsampled reports whether the text is a traceparent that says not to record, by its form and its flags
// alone: for those who would have no other use for it.
func Unsampled(text string) bool {
	return len(text) >= Size && text[traceAt-1] == '-' && text[spanAt-1] == '-' && text[flagsAt-1] == '-' && digits[text[Size-1]]&(notDigit|1) == 0
}

// decode fills dst from hexadecimal digits, which are in lower case. It looks at all of them before it
// decides: a call that nobody traces pays for this.
func decode(dst []byte, text string) bool {
	var bad byte
	for i := range dst {
		high, low := digits[text[2*i]], digits[text[2*i+1]]
		bad |= high | low
		dst[i] = high<<4 | low&0xf
	}
	return bad&notDigit == 0
}

// notDigit is the value of what is no digit.
const notDigit = 0xf0

// digits has the values of hexadecimal digits.
var digits = func() (values [256]byte) {
	for i := range values {
		values[i] = notDigit
	}
	for i, digit := range []byte("0123456789abcdef") {
		values[digit] = byte(i)
	}
	return values
}()

// Of returns the context of a span.
func Of(s trace.SpanContext) Context {
	return Context{TraceID: s.TraceID(), SpanID: s.SpanID(), Flags: s.TraceFlags() & trace.FlagsSampled}
}

// From returns the context of the span that ctx carries; the zero Context if it carries none.
func From(ctx context.Context) Context { return Of(trace.SpanContextFromContext(ctx)) }

// Remote returns the context as that of a span of another process.
func (c Context) Remote() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.TraceID, SpanID: c.SpanID, TraceFlags: c.Flags, Remote: true})
}

// With returns a context of Go whose spans are children of c; ctx itself if c is none.
func With(ctx context.Context, c Context) context.Context {
	if !c.Valid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, c.Remote())
}

// maxText is how many bytes of a text Text keeps.
const maxText = 256

// Text returns what a span has of a text that somebody else wrote: not more than 256 bytes, and valid
// UTF-8, without which no span of the batch could be exported.
func Text(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
