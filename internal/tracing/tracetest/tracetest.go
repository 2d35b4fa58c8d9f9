// Package tracetest is a collector of traces for tests. It serves OTLP over gRPC and HTTP, and can hang, refuse and stop.
package tracetest

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Span is a span that the collector received.
type Span struct {
	*tracev1.Span

	Service, Instance string
}

// Trace is the id of the trace, as hexadecimal digits.
func (s Span) Trace() string { return hex.EncodeToString(s.GetTraceId()) }

// ID is the id of the span.
func (s Span) ID() string { return hex.EncodeToString(s.GetSpanId()) }

// Parent is the id of the parent span; "" for a root span.
func (s Span) Parent() string { return hex.EncodeToString(s.GetParentSpanId()) }

// Links returns the ids of the linked spans.
func (s Span) Links() (ids []string) {
	for _, link := range s.GetLinks() {
		ids = append(ids, hex.EncodeToString(link.GetSpanId()))
	}
	return ids
}

// Attribute returns an attribute as text; "" if there is none.
func (s Span) Attribute(key string) string { return textOf(s.GetAttributes(), key) }

func textOf(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() != key {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			return v.StringValue
		case *commonv1.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonv1.AnyValue_BoolValue:
			return fmt.Sprint(v.BoolValue)
		case *commonv1.AnyValue_ArrayValue:
			var texts []string
			for _, value := range v.ArrayValue.GetValues() {
				texts = append(texts, value.GetStringValue())
			}
			return strings.Join(texts, ",")
		}
	}
	return ""
}

func (s Span) String() string {
	return fmt.Sprintf("%s %q %s<-%s (%s)", s.Trace(), s.GetName(), s.ID(), s.Parent(), s.Service)
}

// Collector is a collector of traces.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	address string
	server  *grpc.Server
	web     *httptest.Server

	mu      sync.Mutex
	spans   []Span
	changed chan struct{}
	mode    mode
	release chan struct{} // closed to end requests that hang
	hanging int
}

type mode int

const (
	takes mode = iota
	refuses
	hangs
)

// Start starts a collector, and sets the environment so that spans go to it over the protocol with a short delay. The
// test must not be parallel.
func Start(t *testing.T, protocol string) *Collector {
	t.Helper()
	c := &Collector{changed: make(chan struct{}), release: make(chan struct{})}
	var endpoint string
	if protocol == "grpc" {
		c.Listen(t)
		endpoint = "http://" + c.address
	} else {
		c.web = httptest.NewServer(http.HandlerFunc(c.serve))
		endpoint = c.web.URL
	}
	t.Cleanup(func() {
		c.Take()
		c.Stop()
		if c.web != nil {
			c.web.Close()
		}
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	return c
}

// Listen starts the gRPC server, at the address that it had before.
func (c *Collector) Listen(t *testing.T) {
	t.Helper()
	address := c.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.address = ln.Addr().String()
	c.server = grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(c.server, c)
	go func(s *grpc.Server) { _ = s.Serve(ln) }(c.server)
}

// Stop stops the gRPC server.
func (c *Collector) Stop() {
	if c.server != nil {
		c.server.Stop()
		c.server = nil
	}
}

// Refuse makes the collector answer with an error.
func (c *Collector) Refuse() { c.set(refuses) }

// Hang makes the collector not answer.
func (c *Collector) Hang() { c.set(hangs) }

// Take makes the collector accept spans again.
func (c *Collector) Take() { c.set(takes) }

func (c *Collector) set(m mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = m
	if m != hangs {
		close(c.release)
		c.release = make(chan struct{})
	}
}

// Export implements collectorv1.TraceServiceServer.
func (c *Collector) Export(ctx context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	now, release := c.mode, c.release
	c.mu.Unlock()
	switch now {
	case refuses:
		return nil, status.Error(codes.PermissionDenied, "this collector refuses")
	case hangs:
		c.noteHanging(1)
		defer c.noteHanging(-1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, status.Error(codes.Unavailable, "this collector hung")
	default:
	}
	c.add(req)
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (c *Collector) noteHanging(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hanging += n
	c.signal()
}

// signal wakes Await. c.mu is held.
func (c *Collector) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Collector) add(req *collectorv1.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		attributes := r.GetResource().GetAttributes()
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{Span: s, Service: textOf(attributes, "service.name"), Instance: textOf(attributes, "service.instance.id")})
			}
		}
	}
	c.signal()
}

// serve handles OTLP over HTTP.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := &collectorv1.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, req) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	if _, err := c.Export(r.Context(), req); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans returns all received spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// patience is the timeout of Await.
const patience = 60 * time.Second

// Await waits until enough returns true, and returns the spans. enough may also check other state of the test.
func (c *Collector) Await(t *testing.T, what string, enough func([]Span) bool) []Span {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	again := time.NewTicker(50 * time.Millisecond) // for other state that enough checks
	defer again.Stop()
	for {
		c.mu.Lock()
		spans, changed := slices.Clone(c.spans), c.changed
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-again.C:
		case <-timeout.C:
			for _, s := range spans {
				t.Log(s)
			}
			t.Fatalf("within %v there is no %s among %d spans", patience, what, len(spans))
		}
	}
}

// AwaitSpan waits for a span with this name for which fits returns true, and returns the first one. A nil fits accepts
// all.
func (c *Collector) AwaitSpan(t *testing.T, name string, fits func(Span) bool) (found Span) {
	t.Helper()
	c.Await(t, fmt.Sprintf("span %q that fits", name), func(spans []Span) bool {
		i := slices.IndexFunc(spans, func(s Span) bool { return s.GetName() == name && (fits == nil || fits(s)) })
		if i >= 0 {
			found = spans[i]
		}
		return i >= 0
	})
	return found
}

// AwaitHanging waits until a request hangs.
func (c *Collector) AwaitHanging(t *testing.T) {
	t.Helper()
	c.Await(t, "request that hangs", func([]Span) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.hanging > 0
	})
}
