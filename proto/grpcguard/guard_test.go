package grpcguard_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/internal/h2test"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	"github.com/scriptorium-dev/scriptorium/script"
)

// serve serves health checks to callers who give a name, and to nobody else. It returns the
// address.
func serve(t *testing.T, cfg grpcguard.Config) string {
	t.Helper()
	cfg.Admit = func(ctx context.Context, _ string) (context.Context, string, error) {
		if names := metadata.ValueFromIncomingContext(ctx, "caller"); len(names) > 0 {
			return ctx, names[0], nil
		}
		return ctx, budget.Stranger, script.Errorf(script.Denied, "caller", "is missing")
	}
	if cfg.Budget == nil {
		cfg.Budget = budget.New(16 << 20)
	}
	server := grpcguard.NewServer(cfg)
	healthv1.RegisterHealthServer(server, health.NewServer())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	return ln.Addr().String()
}

func dial(t *testing.T, address string) *h2test.Client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return h2test.New(t, conn)
}

func client(t *testing.T, address string) healthv1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthv1.NewHealthClient(conn)
}

func as(t *testing.T, name string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "caller", name)
}

func TestRefusedCalls(t *testing.T) {
	c := client(t, serve(t, grpcguard.Config{}))
	if _, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a unary call: %v", err)
	}
	watch, err := c.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a stream: %v", err)
	}
	if _, err := c.Check(as(t, "a"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a known caller: %v", err)
	}
}

// TestConnectionsOfStrangers: connections without a known caller are few and do not last, and
// known callers keep theirs.
func TestConnectionsOfStrangers(t *testing.T) {
	address := serve(t, grpcguard.Config{Connections: budget.NewConnections(20, 1), MaxStrangers: 4, RequestTimeout: time.Second})
	known := client(t, address)
	if _, err := known.Check(as(t, "a"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	watch, err := known.Watch(as(t, "a"), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	var strangers []*h2test.Client
	for range 4 {
		c := dial(t, address)
		c.Sync(t)
		strangers = append(strangers, c)
	}
	fifth := dial(t, address)
	fifth.AwaitClosed(t)
	for _, c := range strangers {
		c.AwaitClosed(t)
	}
	if _, err := client(t, address).Check(as(t, "b"), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("another known caller: %v", err)
	}
	if _, err := known.Check(as(t, "a"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	if err := watch.CloseSend(); err != nil {
		t.Error(err)
	}
}

// TestConnections: connections of known callers have a bound, too, and come back.
func TestConnections(t *testing.T) {
	address := serve(t, grpcguard.Config{Connections: budget.NewConnections(2, 1), MaxStrangers: 2, Known: func(credentials.AuthInfo) bool { return true }})
	first, second := dial(t, address), dial(t, address)
	first.Sync(t)
	second.Sync(t)
	dial(t, address).AwaitClosed(t)
	first.Close()
	if _, err := client(t, address).Check(as(t, "a"), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

// TestConnectionsOfOneCaller leave room for others, and for more of its own once one has ended.
func TestConnectionsOfOneCaller(t *testing.T) {
	conns := budget.NewConnections(9, 1)
	address := serve(t, grpcguard.Config{Connections: conns, MaxStrangers: 9})
	check := func(c *h2test.Client) { c.Call("/grpc.health.v1.Health/Check", h2test.Field("caller", "a")) }
	var open []*h2test.Client
	for range 6 {
		c := dial(t, address)
		check(c)
		c.Sync(t)
		open = append(open, c)
	}
	seventh := dial(t, address)
	check(seventh)
	seventh.AwaitClosed(t)
	if conns.Open() != 6 || conns.Refused.Load() != 1 {
		t.Errorf("%d are open, and %d were refused", conns.Open(), conns.Refused.Load())
	}
	if _, err := client(t, address).Check(as(t, "b"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("another caller: %v", err)
	}
	open[0].Close()
	if _, err := client(t, address).Check(as(t, "a"), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
}

// TestWhatDoesNotSpeakHTTP2 does not use up the connections.
func TestWhatDoesNotSpeakHTTP2(t *testing.T) {
	address := serve(t, grpcguard.Config{Connections: budget.NewConnections(8, 1), MaxStrangers: 4})
	for _, in := range []string{"", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", strings.Repeat("\xff", 100)} {
		for range 4 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte(in))
			conn.Close()
		}
		if _, err := client(t, address).Check(as(t, "a"), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatalf("after %q: %v", in, err)
		}
	}
}

// TestResets: every way to have calls end early counts.
func TestResets(t *testing.T) {
	for name, attack := range map[string]func(c *h2test.Client){
		"resets":               func(c *h2test.Client) { c.Reset(c.Call("/grpc.health.v1.Health/Check", h2test.Field("caller", "a"))) },
		"refused calls":        func(c *h2test.Client) { c.Call("/grpc.health.v1.Health/Check") },
		"refused calls, ended": func(c *h2test.Client) { c.Send(c.Call("/grpc.health.v1.Health/Check"), []byte{0, 0, 0, 0, 0}) },
		"deadlines": func(c *h2test.Client) {
			c.Call("/grpc.health.v1.Health/Check", h2test.Field("caller", "a"), h2test.Field("grpc-timeout", "1u"))
		},
		"malformed calls": func(c *h2test.Client) { c.Call("/grpc.health.v1.Health/Check", h2test.Field("connection", "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, grpcguard.Config{})
			c := dial(t, address)
			for n := 0; !c.Closed(); n++ {
				if n > 200_000 {
					t.Fatal("the connection is still open")
				}
				attack(c)
			}
			if _, err := client(t, address).Check(as(t, "b"), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAStandstillIsOneConnections: a connection that waits until memory comes back keeps no
// other one waiting.
func TestAStandstillIsOneConnections(t *testing.T) {
	collecting, end := make(chan struct{}), make(chan struct{})
	collect := sync.OnceFunc(func() {
		close(collecting)
		<-end
	})
	var pushing sync.WaitGroup
	defer pushing.Wait()
	defer close(end)
	address := serve(t, grpcguard.Config{Budget: budget.NewCapped(1<<20, collect), RequestTimeout: time.Second, ReplyTimeout: time.Second})
	hostile := dial(t, address)
	push := func() uint32 {
		id := hostile.Call("/grpc.health.v1.Health/Check", h2test.Field("caller", "hostile"))
		hostile.Push(id, append(h2test.Prefix(64<<10), make([]byte, 40<<10)...))
		return id
	}
	pushing.Go(func() {
		var open []uint32
		for {
			select {
			case <-collecting:
				for range 8 {
					push()
				}
				return
			default:
			}
			if open = append(open, push()); len(open) > 11 { // the calls before make room, and leave garbage
				hostile.Status(t, open[0]) // unless the connection stands still by now
				open = open[1:]
			}
		}
	})
	<-collecting
	for range 100 { // the guard looks at all connections meanwhile
		ctx, cancel := context.WithTimeout(as(t, "benign"), 10*time.Second)
		if _, err := client(t, address).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}
