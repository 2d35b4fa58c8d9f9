package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
)

// traceparent is the trace of one change, as a caller gives it.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// spans is a collector of traces. The registry and the agents export to it.
type spans struct {
	server *http.Server

	mu    sync.Mutex
	trace map[string]int // spans of the one trace, by name
}

// collectSpans starts a collector, and has the environment of this process and its children name it.
func collectSpans(ctx context.Context) (*spans, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &spans{trace: map[string]int{}}
	s.server = &http.Server{Handler: http.HandlerFunc(s.take), ReadHeaderTimeout: startPatience}
	go func() { _ = s.server.Serve(l) }() // until it is closed
	return s, errors.Join(
		os.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+l.Addr().String()+"/v1/traces"),
		os.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
		os.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off"), // the other changes are timed
		os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50"),
	)
}

func (s *spans) close() { _ = s.server.Close() }

// take is OTLP over HTTP.
func (s *spans) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := &collectorv1.ExportTraceServiceRequest{}
	if err != nil || proto.Unmarshal(body, req) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				if strings.Contains(traceparent, hex.EncodeToString(span.GetTraceId())) {
					s.trace[span.GetName()]++
				}
			}
		}
	}
}

// wait waits until the trace has so many spans of each name.
func (s *spans) wait(ctx context.Context, want map[string]int) error {
	return poll(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !maps.Equal(s.trace, want) {
			return fmt.Errorf("the trace has the spans %v, want %v", s.trace, want)
		}
		return nil
	})
}

// traceChange publishes a version in the trace of a caller. The first call of the version on each agent
// joins the trace.
func (d *demo) traceChange(ctx context.Context) (string, error) {
	caller, _ := tracecontext.Parse(traceparent)
	if _, err := d.publish(tracecontext.With(ctx, caller), d.edition+1); err != nil {
		return "", err
	}
	err := d.spans.wait(ctx, map[string]int{
		"scriptorium.registry.v1.Registry/Publish": 1, "etcd transaction": 1, "publish event": 1, "activate": len(d.agents), "call " + name.String(): len(d.agents),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("one trace: publish → etcd → event → %d agents → first calls", len(d.agents)), nil
}

// countCalls calls the script on each agent, and has the fleet count meanwhile.
func (d *demo) countCalls(ctx context.Context) (string, error) {
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for _, a := range d.agents {
		callers.Go(func() {
			for calling.Err() == nil {
				_, _ = a.node.resp(calling, name.String(), argument) // the fleet counts errors
			}
		})
	}
	top, err := d.registry.Top(ctx, registryclient.TopFilter{Of: name, Period: 500 * time.Millisecond})
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(top.Scripts, func(r registryclient.ScriptRates) bool { return r.Script == name })
	if at < 0 || top.Scripts[at].Calls == 0 || top.Scripts[at].Errors > 0 || top.Scripts[at].Agents != len(d.agents) {
		return "", fmt.Errorf("it counts %+v, want calls without errors on %d agents", top, len(d.agents))
	}
	r := top.Scripts[at]
	return fmt.Sprintf("%s: %.0f calls/s, p50 %s, p99 %s", name, r.Calls, r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond)), nil
}
