package grpcsock_test

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/internal/h2test"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// These tests send what no library of gRPC sends.

func attack(t *testing.T, path string, settings ...http2.Setting) *h2test.Client {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return h2test.New(t, conn, settings...)
}

// echoes makes calls of a benign client, each with an argument of so many bytes.
func echoes(t *testing.T, conn *grpc.ClientConn, calls, size int) {
	t.Helper()
	arg := `"` + strings.Repeat("x", size) + `"`
	for range calls {
		resp, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args(arg)})
		if err != nil || join(resp.GetResults()) != arg {
			t.Fatalf("another client got %.40v, %v", resp, err)
		}
	}
}

// TestPartialMessages: many messages that have not fully arrived hold no more than the budget,
// and the calls of others go on, those of the same user too.
func TestPartialMessages(t *testing.T) {
	const most = 96 << 20 // 10 KiB are goroutines and what else gRPC has of a call
	_, path, conn := serve(t, grpcsock.Options{Executor: gatewaytest.New(), Budget: budget.New(32 << 20)})
	echoes(t, conn, 1, 10)
	before := memtest.InUse()
	for _, method := range []string{agentv1.Executor_Execute_FullMethodName, agentv1.Executor_ExecuteStream_FullMethodName} {
		for range 3 {
			attack(t, path).Fill(method, 1000, 4<<20)
			echoes(t, conn, 10, 100_000)
		}
	}
	held := memtest.InUse() - before
	t.Logf("partial messages hold %d bytes", held)
	if held > most {
		t.Errorf("partial messages hold %d bytes, want at most %d", held, most)
	}
	echoes(t, conn, 100, 100_000)
}

// TestCallersWithoutAGrant: a user without a grant is refused before the request
// arrives, and can ask whether the agent serves.
func TestCallersWithoutAGrant(t *testing.T) {
	access, err := gateway.ParseAccess([]string{"uid:" + strconv.Itoa(os.Getuid()+1) + "=*"})
	if err != nil {
		t.Fatal(err)
	}
	_, path, conn := serve(t, grpcsock.Options{Access: access, RequestTimeout: time.Second})
	c := attack(t, path)
	for _, method := range []string{agentv1.Executor_Execute_FullMethodName, agentv1.Executor_ExecuteStream_FullMethodName, agentv1.Executor_List_FullMethodName} {
		id := c.Call(method)
		c.Push(id, h2test.Prefix(4<<20))
		if got := c.Status(t, id); got != strconv.Itoa(int(codes.PermissionDenied)) {
			t.Errorf("%s: status %q", method, got)
		}
	}
	if _, err := agentv1.NewExecutorClient(conn).List(t.Context(), &agentv1.ListRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("error %v", err)
	}
	resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", resp, err)
	}
	c.AwaitClosed(t)

	_, path, _ = serve(t, grpcsock.Options{Access: access, RequestTimeout: time.Minute}) // so that the time does not end what is held
	before := memtest.InUse()
	attack(t, path).Fill(healthv1.Health_Check_FullMethodName, 1000, 4<<20)
	for start := time.Now(); ; { // a busy machine refuses the last ones late
		held := memtest.InUse() - before
		if held <= 16<<20 {
			break
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("health checks hold %d bytes", held)
		}
	}
}

// TestSlowRequests: a request has to arrive whole in time; a stream may rest between requests.
func TestSlowRequests(t *testing.T) {
	_, path, conn := serve(t, grpcsock.Options{RequestTimeout: 200 * time.Millisecond})
	stream, err := agentv1.NewExecutorClient(conn).ExecuteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		if err := stream.Send(&agentv1.ExecuteStreamRequest{Call: &agentv1.ExecuteRequest{Script: "acme/nothing"}}); err != nil {
			t.Fatal(err)
		}
		if resp, err := stream.Recv(); err != nil || resp.GetError() != nil {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	ask()
	c := attack(t, path)
	timeout := strconv.Itoa(int(codes.DeadlineExceeded))
	for range 3 {
		for name, id := range map[string]uint32{
			"no message":                           c.Call(agentv1.Executor_Execute_FullMethodName),
			"half a message":                       c.Call(agentv1.Executor_Execute_FullMethodName),
			"half a message, to list":              c.Call(agentv1.Executor_List_FullMethodName),
			"half a message, on a stream of calls": c.Call(agentv1.Executor_ExecuteStream_FullMethodName),
		} {
			if strings.HasPrefix(name, "half") {
				c.Push(id, append(h2test.Prefix(1000), make([]byte, 500)...))
			}
			if got := c.Status(t, id); got != timeout {
				t.Errorf("%s: status %q, want %s", name, got, timeout)
			}
		}
	}
	ask()
}

// TestStreamsAtRest: a stream that waits for its next call holds nothing of those before.
func TestStreamsAtRest(t *testing.T) {
	const streams, size, most = 64, 256 << 10, 8 << 20
	_, _, conn := serve(t, grpcsock.Options{Budget: budget.New(16 << 20)})
	echoes(t, conn, 1, size)
	for _, name := range []string{"acme/nothing", "acme/echo"} {
		before := memtest.InUse()
		for range streams {
			stream, err := agentv1.NewExecutorClient(conn).ExecuteStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			call := &agentv1.ExecuteRequest{Script: name, Args: args(`"` + strings.Repeat("x", size) + `"`)}
			if err := stream.Send(&agentv1.ExecuteStreamRequest{Call: call}); err != nil {
				t.Fatal(err)
			}
			if resp, err := stream.Recv(); err != nil || resp.GetError() != nil {
				t.Fatalf("got %.100v, %v", resp, err)
			}
		}
		if held := memtest.InUse() - before; held > most {
			t.Errorf("%d streams hold %d bytes after %s, want at most %d", streams, held, name, most)
		}
	}
}

// TestManySmallArguments: a caller is charged for what its message is decoded into, before it
// is: an argument of two bytes takes fifty.
func TestManySmallArguments(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{Budget: budget.New(16 << 20)})
	api := agentv1.NewExecutorClient(conn)
	call := &agentv1.ExecuteRequest{Script: "acme/echo", Args: make([][]byte, 500_000)}
	if _, err := api.Execute(t.Context(), call); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), budget.ErrOverloaded.Message) {
		t.Errorf("a call got %v", err)
	}
	stream, err := api.ExecuteStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&agentv1.ExecuteStreamRequest{Call: call}); err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream got %v, %v", resp, err)
	}
	call.Args = args(slices.Repeat([]string{"1"}, 1024)...)
	for range 100 { // each gives back what it takes
		if resp, err := api.Execute(t.Context(), call); err != nil || len(resp.GetResults()) != 1024 {
			t.Fatal(err)
		}
	}
}

// listing is an executor whose lists a test can stop.
type listing struct {
	*gatewaytest.Executor
	lists func()
}

func (l listing) List() []gateway.Script {
	l.lists()
	return l.Executor.List()
}

// TestListsOfOneCaller: one is made at a time, and does not hold up those of others.
func TestListsOfOneCaller(t *testing.T) {
	var held atomic.Bool
	begun, goOn := make(chan struct{}), make(chan struct{})
	s, _, conn := serve(t, grpcsock.Options{Executor: listing{gatewaytest.New(), func() {
		if held.CompareAndSwap(true, false) {
			close(begun)
			<-goOn
		}
	}}})
	l, err := net.Listen("tcp", "127.0.0.1:0") // its callers are others
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	other, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	list := func(ctx context.Context, conn *grpc.ClientConn) error {
		resp, err := agentv1.NewExecutorClient(conn).List(ctx, &agentv1.ListRequest{})
		if err == nil && len(resp.GetScripts()) == 0 {
			t.Error("an empty list")
		}
		return err
	}
	held.Store(true)
	lists := make(chan error)
	for range 3 {
		go func() { lists <- list(t.Context(), conn) }()
	}
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := list(ctx, other); err != nil {
		t.Errorf("another caller got %v", err)
	}
	close(goOn)
	for range 3 {
		if err := <-lists; err != nil {
			t.Error(err)
		}
	}
}

// TestRapidReset: a client that resets calls all the time loses its connection.
func TestRapidReset(t *testing.T) {
	_, path, conn := serve(t, grpcsock.Options{})
	c := attack(t, path)
	for range 100_000 {
		if c.Closed() {
			break
		}
		c.Reset(c.Call(agentv1.Executor_Execute_FullMethodName))
	}
	c.AwaitClosed(t)
	echoes(t, conn, 100, 10)

	// Other connections of the same user may give up a few calls all the same.
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := agentv1.NewExecutorClient(conn).ExecuteStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		_, _ = stream.Recv()
	}
	echoes(t, conn, 100, 10)
}

// TestRepliesThatNobodyReads: replies to a client whose windows are full hold no more than the
// budget, and the agent closes the connection.
func TestRepliesThatNobodyReads(t *testing.T) {
	const most = 48 << 20
	t.Run("held", func(t *testing.T) {
		before := memtest.InUse()
		conn, c := unread(t, 5*time.Minute) // longer than the test takes on a busy machine
		held := memtest.InUse() - before
		for held > most && !c.Closed() { // handlers that have refused their calls may still hold the reply
			echoes(t, conn, 1, 10)
			held = min(held, memtest.InUse()-before)
		}
		t.Logf("replies hold %d bytes", held)
		if held > most {
			t.Errorf("replies hold %d bytes, want at most %d", held, most)
		}
		echoes(t, conn, 10, 10)
	})
	t.Run("closed", func(t *testing.T) {
		before := memtest.InUse()
		conn, c := unread(t, 3*time.Second)
		c.AwaitClosed(t)
		for memtest.InUse()-before > most/4 && t.Context().Err() == nil { // until the last handler is done
			echoes(t, conn, 1, 10)
		}
		echoes(t, conn, 10, 100_000)
	})
}

// unread makes 500 calls with replies of 1 MiB, which the client does not read, on a server with a budget of 32 MiB.
// It returns a connection of another client, and the one of the calls.
func unread(t *testing.T, patience time.Duration) (*grpc.ClientConn, *h2test.Client) {
	t.Helper()
	const calls = 500
	x := gatewaytest.New()
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big}, nil })
	_, path, conn := serve(t, grpcsock.Options{Executor: x, Budget: budget.New(32 << 20), WriteTimeout: patience})
	body, err := proto.Marshal(&agentv1.ExecuteRequest{Script: "acme/big"})
	if err != nil {
		t.Fatal(err)
	}
	c := attack(t, path, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var last uint32
	for range calls {
		last = c.Call(agentv1.Executor_Execute_FullMethodName)
		c.Send(last, append(h2test.Prefix(len(body)), body...))
	}
	if got := c.Status(t, last); got != strconv.Itoa(int(codes.Unavailable)) && got != "" {
		t.Errorf("a call beyond the budget: status %q", got)
	}
	// Each reply is in memory before it is charged, so wait for those that have no room.
	c.AwaitStatuses(t, calls-16)
	return conn, c
}
