package local_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/internal/tracing/tracetest"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

// callerOf returns a trace context of a caller, of which each test has others.
func callerOf(n int, sampled bool) tracecontext.Context {
	flags := "00"
	if sampled {
		flags = "01"
	}
	c, _ := tracecontext.Parse(fmt.Sprintf("00-%032x-%016x-%s", n, n, flags))
	return c
}

// TestATraceOfAChange: one trace has the request, the transaction, the event, each agent's activation, and
// the first call on each agent.
func TestATraceOfAChange(t *testing.T) {
	collector := tracetest.Start(t, "grpc")
	s := start(t)
	// Its caller does not trace the first version, which is a trace of its own. Each agent runs it, and so gets the
	// second version by an event: one that connects later catches up, and what it catches up with has no trace.
	s.converge(s.publish(1).Release.Revision)
	caller := callerOf(0xabc, true)
	p, err := s.registry.Publish(tracecontext.With(t.Context(), caller), registryclient.PublishRequest{Name: name, Source: edition(2), Write: registryclient.Write{Author: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	s.converge(p.Release.Revision)
	s.answers(answer(2))

	ours := func(span tracetest.Span) bool { return span.Trace() == caller.TraceID.String() }
	request := collector.AwaitSpan(t, "scriptorium.registry.v1.Registry/Publish", ours)
	write := collector.AwaitSpan(t, "etcd transaction", ours)
	event := collector.AwaitSpan(t, "publish event", ours)
	if request.Parent() != caller.SpanID.String() || write.Parent() != request.ID() || event.Parent() != write.ID() {
		t.Errorf("%v, %v and %v do not follow one another", request, write, event)
	}
	if request.Service != "scriptorium-registry" || request.Attribute("scriptorium.tenant") != "acme" || request.Attribute("scriptorium.script") != "route" {
		t.Errorf("the request is of %s and about %s/%s", request.Service, request.Attribute("scriptorium.tenant"), request.Attribute("scriptorium.script"))
	}
	if got, want := write.Attribute("scriptorium.revision"), fmt.Sprint(p.Release.Revision); got != want {
		t.Errorf("the transaction has the revision %s, want %s", got, want)
	}
	for i := range agents {
		instance := fmt.Sprintf("agent-%d", i+1)
		of := func(span tracetest.Span) bool { return ours(span) && span.Instance == instance }
		activation := collector.AwaitSpan(t, "activate", of)
		if activation.Parent() != write.ID() || activation.Service != "scriptorium-agent" || activation.Attribute("scriptorium.agent") != instance ||
			activation.Attribute("scriptorium.keys") != "releases/acme/route" || activation.Attribute("scriptorium.revision") != fmt.Sprint(p.Release.Revision) {
			t.Errorf("%v does not follow %v, or is about %s", activation, write, activation.Attribute("scriptorium.keys"))
		}
		call := collector.AwaitSpan(t, "call acme/route", of)
		if call.Parent() != activation.ID() || call.Attribute("scriptorium.version") != "2" || call.Attribute("scriptorium.protocol") != "grpc" {
			t.Errorf("%v is not the first call after %v", call, activation)
		}
	}
}

// traced is a script that each protocol can call.
const traced = `
function handle(request) return {allow = true} end
function on_response(response) return {} end`

func (s *stack) publishTraced(t *testing.T, as script.Name, source string) {
	t.Helper()
	p, err := s.registry.Publish(t.Context(), registryclient.PublishRequest{
		Name: as, Source: []byte(source), Write: registryclient.Write{Author: "test"},
		Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.convergeOf(as, p.Release.Revision)
}

// TestCallsContinueTraces: over each protocol the span of a call is a child of the caller's, if that is
// recorded.
func TestCallsContinueTraces(t *testing.T) {
	collector := tracetest.Start(t, "http/protobuf")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	s := start(t, local.WithAgents(func(cfg *agentd.Config) { cfg.Allow = []string{"*"} }))
	s.publishTraced(t, name, traced)
	dir := s.AgentDir(1)
	protocols := callsOver(t, dir)
	n := 0x1000
	for _, protocol := range protocols {
		n++
		kept, skipped := callerOf(n, true), callerOf(n|0x10000, false)
		protocol.call(kept.String())
		protocol.call(skipped.String())
		protocol.call("garbage")
		protocol.call("")
		for i, want := range protocol.spans {
			span := collector.AwaitSpan(t, "call acme/route", func(span tracetest.Span) bool {
				return span.Trace() == kept.TraceID.String() && (span.Attribute("scriptorium.on_response") == "true") == (i > 0)
			})
			if span.Parent() != kept.SpanID.String() || span.Attribute("scriptorium.protocol") != want || span.Attribute("scriptorium.outcome") != "OK" || span.Attribute("scriptorium.instructions") == "0" {
				t.Errorf("%s: %v is not below %v, or of the protocol %s with %s", want, span, kept, span.Attribute("scriptorium.protocol"), span.Attribute("scriptorium.outcome"))
			}
		}
	}
	// What nobody records has no span.
	want := len(protocols) + 1 // of on_response
	if got := slices.DeleteFunc(collector.Spans(), func(span tracetest.Span) bool { return !strings.HasPrefix(span.GetName(), "call") }); len(got) != want {
		t.Errorf("there are %d spans of calls, want %d: %v", len(got), want, got)
	}
}

// overProtocol calls the script with a traceparent, and says of which protocol its spans are.
type overProtocol struct {
	spans []string
	call  func(traceparent string)
}

func callsOver(t *testing.T, dir string) []overProtocol {
	t.Helper()
	socket := func(protocol string) string { return filepath.Join(dir, protocol+".sock") }
	resp := redis.NewClient(&redis.Options{Network: "unix", Addr: socket("resp"), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = resp.Close() })
	client, err := agentclient.New("unix:" + socket("grpc"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	conn, err := grpc.NewClient("unix:"+socket("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket("http"))
	}}}
	t.Cleanup(web.CloseIdleConnections)
	check := func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	return []overProtocol{
		{[]string{"resp"}, func(traceparent string) {
			check("RESP", resp.Do(t.Context(), "SCRIPTORIUM.CALL", "acme/route", 0, "TRACEPARENT", traceparent).Err())
		}},
		{[]string{"grpc"}, func(traceparent string) {
			_, err := client.Call(agentclient.ContextWithTraceparent(t.Context(), traceparent), "acme/route")
			check("gRPC", err)
		}},
		{[]string{"http"}, func(traceparent string) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent/v1/execute/acme/route", nil)
			req.Header.Set("Traceparent", traceparent)
			answer, err := web.Do(req)
			check("HTTP", err)
			if err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("HTTP: %s", answer.Status)
				}
			}
		}},
		{[]string{"ext_authz"}, func(traceparent string) {
			answer, err := authv3.NewAuthorizationClient(conn).Check(metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), &authv3.CheckRequest{
				Attributes: &authv3.AttributeContext{
					ContextExtensions: map[string]string{"script": "acme/route"},
					Request:           &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Host: "shop"}},
				},
			})
			check("ext_authz", err)
			if answer.GetStatus().GetCode() != 0 {
				t.Errorf("ext_authz: %v", answer)
			}
		}},
		{[]string{"ext_proc", "ext_proc"}, func(traceparent string) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent, "scriptorium-script", "acme/route", "scriptorium-response", "headers")
			check("ext_proc", overExtProc(ctx, conn))
		}},
		{[]string{"spop"}, func(traceparent string) { check("SPOP", overSPOP(t.Context(), socket("spop"), traceparent)) }},
	}
}

// overExtProc asks about a request, and about the response to it, as Envoy's ext_proc does.
func overExtProc(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := procv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return err
	}
	headers := func(pairs ...string) *procv3.HttpHeaders {
		h := &procv3.HttpHeaders{Headers: &corev3.HeaderMap{}, EndOfStream: true}
		for i := 0; i < len(pairs); i += 2 {
			h.Headers.Headers = append(h.Headers.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
		}
		return h
	}
	for _, in := range []*procv3.ProcessingRequest{
		{Request: &procv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers(":method", "GET", ":path", "/", ":authority", "shop", ":scheme", "http")}},
		{Request: &procv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers(":status", "200")}},
	} {
		if err := stream.Send(in); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	return stream.CloseSend()
}

// overSPOP asks a question as HAProxy does.
func overSPOP(ctx context.Context, socket, traceparent string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	// All lengths are below 240, which is one byte.
	text := func(s string) string { return string(rune(len(s))) + s }
	pair := func(name, value string) string { return text(name) + "\x08" + text(value) }
	exchange := func(kind byte, ids, payload string) error {
		frame := string(kind) + "\x00\x00\x00\x01" + ids + payload
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return err
		}
		var length [4]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return err
		}
		answer := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(conn, answer); err != nil {
			return err
		}
		if answer[0] != 100+kind {
			return fmt.Errorf("a frame of type %d for one of type %d: %q", answer[0], kind, answer)
		}
		if kind == 3 && !strings.Contains(string(answer), "allow\x11") {
			return fmt.Errorf("the request is denied: %q", answer)
		}
		return nil
	}
	if err := exchange(1, "\x00\x00", pair("supported-versions", "2.0")+text("max-frame-size")+"\x03\xf0\x89\x3b"+pair("capabilities", "")); err != nil {
		return err
	}
	args := []string{pair("script", "acme/route"), pair("method", "GET"), pair("path", "/"), pair("traceparent", traceparent)}
	return exchange(3, "\x01\x01", text("scriptorium")+string(rune(len(args)))+strings.Join(args, ""))
}

// TestScriptctlIsPartOfATrace: what scriptctl does belongs to the trace in its environment.
func TestScriptctlIsPartOfATrace(t *testing.T) {
	collector := tracetest.Start(t, "grpc")
	s := start(t)
	caller := callerOf(0x5c, true)
	t.Setenv("TRACEPARENT", caller.String())
	t.Setenv("SCRIPTORIUM_REGISTRY", s.RegistryTarget())
	manifest := filepath.Join(t.TempDir(), "route.yaml")
	text := "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\nspec:\n  tenantId: acme\n  limits: {timeout: 10s}\n  source: function handle() return 1 end\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want string, args ...string) {
		var out, errs strings.Builder
		if code := scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, args); code != 0 || !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("scriptctl %s exits with %d and says %s%s, want %q", args, code, &out, &errs, want)
		}
	}
	run("acme/route", "publish", manifest, "--wait")
	run("1", "call", "acme/route", "--timeout", "30s")
	for _, name := range []string{"scriptorium.registry.v1.Registry/Publish", "call acme/route"} {
		span := collector.AwaitSpan(t, name, nil)
		if span.Trace() != caller.TraceID.String() || span.Parent() != caller.SpanID.String() {
			t.Errorf("%v is not below %v", span, caller)
		}
	}
	t.Setenv("TRACEPARENT", "not-a-trace")
	run("warning: TRACEPARENT is ignored", "status")
}
