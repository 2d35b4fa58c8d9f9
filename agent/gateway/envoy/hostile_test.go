package envoy_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/internal/h2test"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

func attack(t *testing.T, path string) *h2test.Client {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return h2test.New(t, conn)
}

// checks makes checks of a benign Envoy.
func checks(t *testing.T, conn *grpc.ClientConn, n int) {
	t.Helper()
	for range n {
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), message(t, "check_get.json", &authv3.CheckRequest{}))
		if err != nil || resp.GetOkResponse() == nil {
			t.Fatalf("another gateway got %v, %v", resp, err)
		}
	}
}

// TestPartialMessages: many messages that have not fully arrived hold no more than the budget,
// and the checks of others go on.
func TestPartialMessages(t *testing.T) {
	const most = 96 << 20
	path, conn := serve(t, grpcsock.Options{Executor: newDecider(), Budget: budget.New(32 << 20)})
	checks(t, conn, 1)
	before := memtest.InUse()
	for _, method := range []string{authv3.Authorization_Check_FullMethodName, procv3.ExternalProcessor_Process_FullMethodName} {
		attack(t, path).Fill(method, 1000, 4<<20)
		checks(t, conn, 10)
	}
	held := memtest.InUse() - before
	t.Logf("partial messages hold %d bytes", held)
	if held > most {
		t.Errorf("partial messages hold %d bytes, want at most %d", held, most)
	}
	checks(t, conn, 100)
}

// TestLargeRequests: an Envoy gets answers for requests with large bodies and headers, and one
// that has no room in the budget is denied.
func TestLargeRequests(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(4 << 20)})
	api := authv3.NewAuthorizationClient(conn)
	for name, grow := range map[string]func(*authv3.AttributeContext_HttpRequest, int){
		"body":   func(r *authv3.AttributeContext_HttpRequest, n int) { r.RawBody = []byte(strings.Repeat("\x00", n)) },
		"header": func(r *authv3.AttributeContext_HttpRequest, n int) { r.Headers["x-large"] = strings.Repeat("x", n) },
		"path":   func(r *authv3.AttributeContext_HttpRequest, n int) { r.Path = "/" + strings.Repeat("/../%61", n/8) },
	} {
		for size, allowed := range map[int]bool{100 << 10: true, 3 << 20: false} {
			req := message(t, "check_get.json", &authv3.CheckRequest{})
			grow(req.GetAttributes().GetRequest().GetHttp(), size)
			resp, err := api.Check(t.Context(), req)
			if allowed && (err != nil || resp.GetOkResponse() == nil) {
				t.Errorf("%s of %d bytes: %v, %v", name, size, resp, err)
			}
			if !allowed && resp.GetOkResponse() != nil {
				t.Errorf("%s of %d bytes is allowed", name, size)
			}
		}
	}
	req := message(t, "check_get.json", &authv3.CheckRequest{})
	req.GetAttributes().GetRequest().GetHttp().RawBody = make([]byte, 5<<20)
	if _, err := api.Check(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message of 5 MiB: %v", err)
	}
	checks(t, conn, 10)
}

// TestLyingSettings: settings of a hostile caller cost little, and name no script of others.
func TestLyingSettings(t *testing.T) {
	x := newDecider()
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(16 << 20)})
	for name, settings := range map[string]map[string]string{
		"a long script":  {"script": "acme/" + strings.Repeat("d", 1<<20)},
		"a path":         {"script": "acme/../shop/d"},
		"a line":         {"script": "acme/d\r\nx: y"},
		"a long setting": {"script": "acme/d", strings.Repeat("x", 1<<20): "1"},
		"two scripts":    {"script": "acme/d", "Script": "shop/d"},
		"a long timeout": {"script": "acme/d", "timeout": strings.Repeat("9", 1<<20) + "h"},
	} {
		req := message(t, "check_get.json", &authv3.CheckRequest{})
		req.Attributes.ContextExtensions = settings
		resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req)
		if err != nil || resp.GetDeniedResponse().GetStatus().GetCode() != 503 || len(resp.GetStatus().GetMessage()) > 1000 {
			t.Errorf("%s: %.300v, %v", name, resp, err)
		}
	}
	if calls, _ := x.asked(); calls != 0 {
		t.Errorf("the script ran %d times", calls)
	}
	many := map[string]string{"script": "acme/d"}
	for i := range 1000 {
		many["param."+strings.Repeat("p", i+1)] = "v"
	}
	req := message(t, "check_get.json", &authv3.CheckRequest{})
	req.Attributes.ContextExtensions = many
	if resp, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), req); err != nil || resp.GetOkResponse() == nil {
		t.Errorf("many parameters: %v, %v", resp, err)
	}
}

// TestWaitingStreams: streams that wait for a body or a response hold no more than the budget,
// and others are served.
func TestWaitingStreams(t *testing.T) {
	const streams, most = 900, 64 << 20
	x := newDecider()
	x.returns(`{"response_headers":{"set":{"x-large":"` + strings.Repeat("x", 15<<10) + `"}}}`)
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(32 << 20)})
	before := memtest.InUse()
	waits := 0
	for i := range streams {
		name, settings := "process_request.json", map[string]string{"script": "acme/d"}
		if i%2 == 0 {
			name, settings = "process_post.json", map[string]string{"script": "acme/d", "body": "buffered"}
		}
		in := message(t, name, &procv3.ProcessingRequest{})
		headers := in.GetRequestHeaders().GetHeaders()
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: "x-large", RawValue: make([]byte, 64<<10)})
		stream := process(t, conn, settings)
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err == nil && out.GetRequestHeaders() != nil {
			waits++
		}
	}
	held := memtest.InUse() - before
	t.Logf("%d of %d streams wait, and hold %d bytes", waits, streams, held)
	if held > most || waits == 0 {
		t.Errorf("%d streams hold %d bytes, want at most %d", waits, held, most)
	}
	x.returns("")
	checks(t, conn, 10)
}

// TestWaitingResponses: streams that wait for a response or its body, which on_response is to see, hold
// no more than the budget, and others are served. Those that end give back what they held.
func TestWaitingResponses(t *testing.T) {
	const streams, most, room = 900, 64 << 20, 32 << 20
	x := newResponder()
	x.returns(`{"response_headers":{"set":{"x-large":"` + strings.Repeat("x", 8<<10) + `"}}}`)
	b := budget.New(room)
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: b})
	large := &corev3.HeaderValue{Key: "x-large", RawValue: []byte(strings.Repeat("x", 48<<10))}
	before := memtest.InUse()
	ctx, cancel := context.WithCancel(t.Context())
	waits := map[string]int{}
	for i := range streams {
		in := buffering(t)
		in.GetRequestHeaders().GetHeaders().Headers = append(in.GetRequestHeaders().GetHeaders().Headers, large)
		stream, err := procv3.NewExternalProcessorClient(conn).Process(metadata.AppendToOutgoingContext(ctx, "scriptorium-script", "acme/d", "scriptorium-response", "body"))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err != nil || out.GetRequestHeaders() == nil {
			continue
		}
		if waits["response"]++; i%2 == 0 {
			continue
		}
		in = message(t, "process_response.json", &procv3.ProcessingRequest{})
		in.GetResponseHeaders().GetHeaders().Headers = append(in.GetResponseHeaders().GetHeaders().Headers, large)
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		if out, err := stream.Recv(); err == nil && out.GetResponseHeaders() != nil {
			waits["body"]++
		}
	}
	held := memtest.InUse() - before
	t.Logf("%v of %d streams wait, and hold %d bytes", waits, streams, held)
	if held > most || waits["response"] == 0 || waits["response"] == streams || waits["body"] == 0 {
		t.Errorf("%v streams hold %d bytes, want at most %d", waits, held, most)
	}
	if n := len(x.responded()); n != 0 {
		t.Errorf("on_response ran %d times", n)
	}
	x.returns("")
	checks(t, conn, 10)
	cancel()
	x.responds("")
	eventually(t, func() bool { // there is room again for all that one stream can take
		stream := process(t, conn, map[string]string{"script": "acme/d", "response": "body"})
		var out *procv3.ProcessingResponse
		for _, in := range []*procv3.ProcessingRequest{buffering(t), message(t, "process_response.json", &procv3.ProcessingRequest{}), bodyOf(strings.Repeat("x", 2<<20))} {
			_ = stream.Send(in) // the answer says why
			var err error
			if out, err = stream.Recv(); err != nil {
				return false
			}
		}
		return out.GetResponseBody() != nil
	})
}

// TestLargeResponses: on_response gets large bodies, and a response that has no room in the budget does
// not go on without it, whatever the script's onError says.
func TestLargeResponses(t *testing.T) {
	x := newResponder()
	x.SetOnError("acme/d", script.OnError{Policy: script.PolicyOpen})
	x.returns("")
	_, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(4 << 20)})
	begin := func() procv3.ExternalProcessor_ProcessClient {
		x.responds("")
		stream := process(t, conn, map[string]string{"script": "acme/d", "response": "body"})
		exchange(t, stream, buffering(t))
		exchange(t, stream, message(t, "process_response.json", &procv3.ProcessingRequest{}))
		return stream
	}
	for size, runs := range map[int]int{100 << 10: 1, 700 << 10: 0, 3 << 20: 0} {
		stream := begin()
		if err := stream.Send(bodyOf(strings.Repeat("\x00", size))); err != nil { // six bytes each, as JSON
			t.Fatal(err)
		}
		out, err := stream.Recv()
		if goes := err == nil && out.GetResponseBody() != nil; goes != (runs == 1) || len(x.responded()) != runs {
			t.Errorf("%d bytes: %.300v, %v, after %d calls", size, out, err, len(x.responded()))
		}
	}
	stream := begin()
	if err := stream.Send(bodyOf(strings.Repeat("x", 5<<20))); err != nil {
		t.Fatal(err)
	}
	if out, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a body of 5 MiB: %.300v, %v", out, err)
	}
	checks(t, conn, 10)
}

// eventually waits until what the server does when streams end has been done.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}
