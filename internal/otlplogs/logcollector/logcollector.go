// Package logcollector is a collector of logs for tests: it speaks OTLP over gRPC and HTTP, and can hang,
// refuse, reject a part, and go away.
package logcollector

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The protocols, as OTEL_EXPORTER_OTLP_PROTOCOL has them.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Record is one that the collector got.
type Record struct {
	*logsv1.LogRecord

	Service, Scope string
}

// Body is the text of the record.
func (r Record) Body() string { return r.GetBody().GetStringValue() }

// Trace and Span are the ids as hexadecimal digits; "" for none.
func (r Record) Trace() string { return hex.EncodeToString(r.GetTraceId()) }

// Span is that of the record.
func (r Record) Span() string { return hex.EncodeToString(r.GetSpanId()) }

// Attribute returns an attribute as text; "" without it.
func (r Record) Attribute(key string) string { return textOf(r.GetAttributes(), key) }

func textOf(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() != key {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			return v.StringValue
		case *commonv1.AnyValue_IntValue:
			return strconv.FormatInt(v.IntValue, 10)
		default:
			return a.GetValue().String()
		}
	}
	return ""
}

// Answer is how the collector answers a request.
type Answer struct {
	Code     codes.Code // over gRPC; 0 accepts
	Status   int        // over HTTP, if Code is not 0
	Rejected int64      // records of those that it accepts
	Warning  string     // the message of a partial success, or of an error
	Hang     bool       // until the client gives up, or the collector ends
}

// Collector is one that a test has started.
type Collector struct {
	collectorv1.UnimplementedLogsServiceServer

	t        *testing.T
	protocol string
	address  string
	stop     func()
	ended    chan struct{}

	mu       sync.Mutex
	answers  []Answer // to the next requests; then it accepts
	always   *Answer
	requests int
	records  []Record
	changed  chan struct{}
}

// Start starts a collector, and has the environment name it. The test must not be parallel.
func Start(t *testing.T, protocol string) *Collector {
	t.Helper()
	c := &Collector{t: t, protocol: protocol, address: "127.0.0.1:0", ended: make(chan struct{}), changed: make(chan struct{})}
	c.Listen()
	t.Cleanup(func() {
		close(c.ended)
		c.Stop()
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+c.address)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
	return c
}

// Listen has it listen again where it was before.
func (c *Collector) Listen() {
	c.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.address = l.Addr().String()
	if c.protocol == GRPC {
		server := grpc.NewServer()
		collectorv1.RegisterLogsServiceServer(server, c)
		go func() { _ = server.Serve(l) }()
		c.stop = server.Stop
		return
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(c.serve)}}
	server.Start()
	c.stop = func() {
		server.CloseClientConnections()
		server.Close()
	}
}

// Stop ends it.
func (c *Collector) Stop() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// Answer says how the next requests are answered; those after them are accepted.
func (c *Collector) Answer(answers ...Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers, c.always = answers, nil
}

// Always says how all requests are answered from now on.
func (c *Collector) Always(answer Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers, c.always = nil, &answer
}

func (c *Collector) next() (a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.signal()
	switch {
	case c.always != nil:
		return *c.always
	case len(c.answers) > 0:
		a, c.answers = c.answers[0], c.answers[1:]
	}
	return a
}

// signal wakes those who wait. The lock is held.
func (c *Collector) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Export implements the service.
func (c *Collector) Export(ctx context.Context, req *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	resp, a := c.answer(ctx, req)
	if a.Code != codes.OK {
		return nil, status.Error(a.Code, cmp.Or(a.Warning, "the collector says so"))
	}
	return resp, nil
}

func (c *Collector) answer(ctx context.Context, req *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, Answer) {
	a := c.next()
	if a.Hang {
		select {
		case <-ctx.Done():
		case <-c.ended:
		}
		a.Code, a.Status = codes.Unavailable, http.StatusServiceUnavailable
	}
	if a.Code != codes.OK {
		return nil, a
	}
	resp := &collectorv1.ExportLogsServiceResponse{}
	if a.Rejected != 0 || a.Warning != "" {
		resp.PartialSuccess = &collectorv1.ExportLogsPartialSuccess{RejectedLogRecords: a.Rejected, ErrorMessage: cmp.Or(a.Warning, "too old")}
	}
	c.add(req)
	return resp, a
}

func (c *Collector) add(req *collectorv1.ExportLogsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceLogs() {
		service := textOf(r.GetResource().GetAttributes(), "service.name")
		for _, scope := range r.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				c.records = append(c.records, Record{LogRecord: record, Service: service, Scope: scope.GetScope().GetName()})
			}
		}
	}
	c.signal()
}

// serve is OTLP over HTTP.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	req := &collectorv1.ExportLogsServiceRequest{}
	if err != nil || r.URL.Path != "/v1/logs" || proto.Unmarshal(body, req) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	resp, a := c.answer(r.Context(), req)
	if a.Code != codes.OK {
		http.Error(w, cmp.Or(a.Warning, "the collector says so"), a.Status)
		return
	}
	answer, err := proto.Marshal(resp)
	if err != nil {
		c.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

func read(r *http.Request) ([]byte, error) {
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = z
	}
	return io.ReadAll(in)
}

// Records are all that came.
func (c *Collector) Records() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// Await waits until the records that came are enough, and returns them.
func (c *Collector) Await(what string, enough func([]Record) bool) []Record {
	c.t.Helper()
	return c.await(what, func() bool { return enough(c.records) })
}

// AwaitRequests waits until so many requests came.
func (c *Collector) AwaitRequests(n int) {
	c.t.Helper()
	c.await(fmt.Sprintf("%d requests", n), func() bool { return c.requests >= n })
}

// await waits until it is so, which is looked at with the lock held.
func (c *Collector) await(what string, so func() bool) []Record {
	c.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		enough, records, changed := so(), slices.Clone(c.records), c.changed
		c.mu.Unlock()
		if enough {
			return records
		}
		select {
		case <-changed:
		case <-timeout.C:
			c.t.Fatalf("within %v there are no %s, but %d records: %v", patience, what, len(records), records)
		}
	}
}
