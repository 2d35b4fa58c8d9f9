package grpcsock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func serve(t *testing.T, opts grpcsock.Options) (*grpcsock.Server, string, *grpc.ClientConn) {
	t.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "grpc.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpcsock.New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, grpcsock.ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s, path, conn
}

func args(values ...string) [][]byte {
	var args [][]byte
	for _, v := range values {
		args = append(args, []byte(v))
	}
	return args
}

func TestExecute(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/key", gatewaytest.Key)
	_, _, conn := serve(t, grpcsock.Options{Executor: x})
	api := agentv1.NewExecutorClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-ab")
	for _, tt := range []struct {
		script string
		args   [][]byte
		want   string
	}{
		{"acme/echo", args(`{"a":1}`, `[]`), `{"a":1} []`},
		{"acme/nothing", nil, ""},
		{"acme/trace", nil, `"00-ab"`},
		{"acme/key", nil, `{"allow":false,"body":"ann, no request"}`},
	} {
		resp, err := api.Execute(ctx, &agentv1.ExecuteRequest{Script: tt.script, Args: tt.args, Key: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if got := join(resp.GetResults()); got != tt.want {
			t.Errorf("%s returned %s, want %s", tt.script, got, tt.want)
		}
		name, _ := script.ParseName(tt.script)
		digest, _ := wire.ToDigest(resp.GetDigest())
		if resp.GetVersion() != 7 || digest != gatewaytest.DigestOf(name) || resp.GetStaleness().AsDuration() != gatewaytest.Staleness {
			t.Errorf("%s says %v", tt.script, resp)
		}
	}
}

func join(values [][]byte) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return strings.Join(texts, " ")
}

func TestErrors(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{})
	api := agentv1.NewExecutorClient(conn)
	for _, tt := range []struct {
		script string
		args   [][]byte
		code   codes.Code
		kind   script.Kind
		line   int
	}{
		{"acme/kind", args(`"NOTFOUND"`), codes.NotFound, script.NotFound, 0},
		{"acme/kind", args(`"DISABLED"`), codes.FailedPrecondition, script.Disabled, 0},
		{"acme/kind", args(`"LIMIT"`), codes.ResourceExhausted, script.Limit, 0},
		{"acme/kind", args(`"OVERLOADED"`), codes.Unavailable, script.Overloaded, 0},
		{"acme/kind", args(`"INTERNAL"`), codes.Internal, script.Internal, 0},
		{"acme/fail", nil, codes.Aborted, script.Script, 3},
		{"acme/panic", nil, codes.Internal, script.Internal, 0},
		{"nonsense", nil, codes.InvalidArgument, script.Invalid, 0},
		{"acme/echo", make([][]byte, 1025), codes.InvalidArgument, script.Invalid, 0},
	} {
		_, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: tt.script, Args: tt.args})
		e := script.AsError(wire.FromStatus(err))
		if status.Code(err) != tt.code || e.Kind != tt.kind || e.Line != tt.line {
			t.Errorf("%s %.40q: %v; kind %s, line %d", tt.script, tt.args, err, e.Kind, e.Line)
		}
	}
}

func TestDeadline(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := agentv1.NewExecutorClient(conn).Execute(ctx, &agentv1.ExecuteRequest{Script: "acme/wait"})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
}

func TestExecuteStream(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{})
	stream, err := agentv1.NewExecutorClient(conn).ExecuteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	requests := []*agentv1.ExecuteStreamRequest{
		{Id: 1, Call: &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1", "2")}},
		{Id: 2, Call: &agentv1.ExecuteRequest{Script: "acme/fail"}},
		{Id: 3, Call: &agentv1.ExecuteRequest{Script: "acme/wait"}, Timeout: durationpb.New(time.Millisecond)},
		{Id: 4, Call: &agentv1.ExecuteRequest{Script: "acme/trace"}, Traceparent: "00-ab"},
		{Id: 5},
		{Id: 6, Call: &agentv1.ExecuteRequest{Script: "acme/echo"}, Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		{Id: 7, Call: &agentv1.ExecuteRequest{Script: "acme/panic"}},
		{Id: 8, Call: &agentv1.ExecuteRequest{Script: "acme/nothing"}},
	}
	for _, req := range requests {
		if err := stream.Send(req); err != nil {
			t.Fatal(err)
		}
	}
	_ = stream.CloseSend()
	want := []string{"1 2", "SCRIPT", "TIMEOUT", `"00-ab"`, "INVALID", "INVALID", "INTERNAL", ""}
	for i, req := range requests {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got := join(resp.GetResponse().GetResults())
		if resp.GetError() != nil {
			got = resp.GetError().GetKind()
		}
		if resp.GetId() != req.GetId() || got != want[i] {
			t.Errorf("answer %d to %v is %s, want %s", resp.GetId(), req, got, want[i])
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestListAndAccess(t *testing.T) {
	x := gatewaytest.New()
	x.Set("shop/cart", func(context.Context, *gateway.Call) ([][]byte, error) { return nil, nil })
	access, err := gateway.ParseAccess([]string{fmt.Sprintf("uid:%d=shop", os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	_, _, conn := serve(t, grpcsock.Options{Executor: x, Access: access})
	api := agentv1.NewExecutorClient(conn)
	list, err := api.List(t.Context(), &agentv1.ListRequest{})
	if err != nil || len(list.GetScripts()) != 1 || list.GetScripts()[0].GetName() != "cart" || list.GetRevision() != 42 {
		t.Errorf("got %v, %v", list, err)
	}
	if list, err := api.List(t.Context(), &agentv1.ListRequest{Event: "other"}); err != nil || len(list.GetScripts()) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if _, err := api.List(t.Context(), &agentv1.ListRequest{Tenant: "acme"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("error %v", err)
	}
	if _, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("error %v", err)
	}
	if _, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "shop/cart"}); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestHealthAndReflection(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{})
	for _, service := range []string{"", "scriptorium.agent.v1.Executor"} {
		resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%q: got %v, %v", service, resp, err)
		}
	}
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if info, err := stream.Recv(); err != nil || !strings.Contains(info.String(), "scriptorium.agent.v1.Executor") {
		t.Errorf("got %v, %v", info, err)
	}
	_ = stream.CloseSend()
}

func TestHealthWhileDraining(t *testing.T) {
	s, _, conn := serve(t, grpcsock.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watches []grpc.ServerStreamingClient[healthv1.HealthCheckResponse]
	expect := func(watch grpc.ServerStreamingClient[healthv1.HealthCheckResponse], want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if resp, err := watch.Recv(); err != nil || resp.GetStatus() != want {
			t.Errorf("got %v, %v, want %v", resp, err, want)
		}
	}
	for _, service := range []string{"", "scriptorium.agent.v1.Executor"} {
		watch, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		expect(watch, healthv1.HealthCheckResponse_SERVING)
		watches = append(watches, watch)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	for _, watch := range watches {
		expect(watch, healthv1.HealthCheckResponse_NOT_SERVING)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestBadFrames: whatever a stranger writes ends in a closed connection, and
// others notice nothing.
func TestBadFrames(t *testing.T) {
	_, path, conn := serve(t, grpcsock.Options{HandshakeTimeout: 100 * time.Millisecond})
	echo := func() error {
		resp, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")}, grpc.WaitForReady(true))
		if err == nil && join(resp.GetResults()) != "1" {
			err = fmt.Errorf("got %v", resp)
		}
		return err
	}
	// The other client shakes hands before: a busy machine may need longer than the timeout.
	for status.Code(echo()) == codes.Unavailable {
		continue // and connects anew
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	garbage := make([]byte, 10_000)
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	for name, in := range map[string]string{
		"nothing":            "",
		"half a preface":     preface[:10],
		"no settings":        preface,
		"garbage":            string(garbage),
		"garbage after":      preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + string(garbage),
		"an oversized frame": preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"HTTP/1.1":           "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"RESP":               "*1\r\n$4\r\nPING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(c, in)
			if strings.HasPrefix(name, "garbage after") {
				_ = c.(*net.UnixConn).CloseWrite() // part of it may be a frame that never ends
			}
			_, err = io.Copy(io.Discard, c)
			if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
				t.Error("the connection was not closed")
			}
			if err := echo(); err != nil {
				t.Errorf("another client: %v", err)
			}
		})
	}
}

func TestOversizedMessages(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{})
	api := agentv1.NewExecutorClient(conn)
	_, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args(strings.Repeat("1", 5<<20))})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error %v", err)
	}
	if _, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")}); err != nil {
		t.Error(err)
	}
}

func TestTenThousandIdleConnections(t *testing.T) {
	_, path, conn := serve(t, grpcsock.Options{Connections: budget.NewConnections(20_000, 1<<30)})
	// What a client begins with, and the server's settings in answer.
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	held := gatewaytest.HoldIdle(t, path, preface, "\x00\x00")
	const most = 96 << 10
	if held > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", held, most)
	}
	resp, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")})
	if err != nil || join(resp.GetResults()) != "1" {
		t.Errorf("another client got %v, %v", resp, err)
	}
}

func TestMaxConnections(t *testing.T) {
	_, path, conn := serve(t, grpcsock.Options{Connections: budget.NewConnections(1, 1<<30)})
	api := agentv1.NewExecutorClient(conn)
	if _, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/nothing"}); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if all, err := io.ReadAll(second); err != nil || len(all) > 0 {
		t.Errorf("got %q, %v", all, err)
	}
}

func TestShutdownFinishesCallsInFlight(t *testing.T) {
	x := gatewaytest.New()
	begun, finish := make(chan struct{}, 2), make(chan struct{})
	x.Set("acme/slow", func(context.Context, *gateway.Call) ([][]byte, error) {
		begun <- struct{}{}
		<-finish
		return args("1"), nil
	})
	s, _, conn := serve(t, grpcsock.Options{Executor: x})
	api := agentv1.NewExecutorClient(conn)
	idle, err := api.ExecuteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	busy, err := api.ExecuteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call := &agentv1.ExecuteRequest{Script: "acme/slow"}
	if err := busy.Send(&agentv1.ExecuteStreamRequest{Id: 1, Call: call}); err != nil {
		t.Fatal(err)
	}
	unary := make(chan error, 1)
	go func() {
		_, err := api.Execute(t.Context(), call)
		unary <- err
	}()
	<-begun
	<-begun
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	_, err = idle.Recv()
	if e := script.AsError(wire.FromStatus(err)); e.Kind != script.Unavailable || e.Message != "the agent is shutting down" {
		t.Errorf("the idle stream ended with %v", err)
	}
	close(finish)
	if resp, err := busy.Recv(); err != nil || join(resp.GetResponse().GetResults()) != "1" {
		t.Errorf("got %v, %v", resp, err)
	}
	if err := <-unary; err != nil {
		t.Error(err)
	}
	if _, err := busy.Recv(); script.KindOf(wire.FromStatus(err)) != script.Unavailable {
		t.Errorf("the busy stream ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownGivesUp(t *testing.T) {
	x := gatewaytest.New()
	begun := make(chan struct{})
	x.Set("acme/slow", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s, _, conn := serve(t, grpcsock.Options{Executor: x})
	go agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/slow"})
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
}
