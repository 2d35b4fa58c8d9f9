package respsock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// bystander calls all through a test and fails it if any answer is wrong.
func bystander(t *testing.T, path string) {
	t.Helper()
	c := dial(t, path)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		request := command("FCALL", "acme/echo", "0", `"mine"`)
		want := "$6\r\n\"mine\"\r\n"
		got := make([]byte, len(want))
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := io.WriteString(c, request); err != nil {
				done <- err
				return
			}
			if _, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
				done <- fmt.Errorf("got %q (%w)", got, err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("a bystander noticed: %v", err)
		}
	})
}

func TestBadFramesEndInAnErrorAndAClosedConnection(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	bystander(t, path)
	for _, tt := range []struct{ in, want string }{
		{"*x\r\n", "-ERR Protocol error: invalid multibulk length"},
		{"*1000000\r\n", "-ERR Protocol error: invalid multibulk length"},
		{"*1\r\n!", "-ERR Protocol error: expected '$', got '!'"},
		{"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"*1\r\n$2000000\r\n", "-ERR Protocol error: invalid bulk length: more than 1049600 bytes\r\n"},
		{"*1\r\n$1\r\nxxx", "-ERR Protocol error: a bulk string does not end"},
		{"ECHO \"x\n", "-ERR Protocol error: unbalanced quotes"},
		{strings.Repeat("x", 100<<10), "-ERR Protocol error: too big inline request"},
		{"*5\r\n" + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20)), 4), "-ERR Protocol error: a request may have"},
		{"GET /v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR Protocol error: this socket speaks the Redis protocol; HTTP is on http.sock"},
	} {
		c := dial(t, path)
		go io.WriteString(c, tt.in) // all of it may not be taken
		c.expectLine(tt.want)
		c.expectEnd()
	}
}

// TestAnErrorIsReadByWhoSendsTheWholeRequestFirst: as nearly all clients do. The
// socket's buffers hold far less than these requests.
func TestAnErrorIsReadByWhoSendsTheWholeRequestFirst(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	bystander(t, path)
	for _, size := range []int{2 << 20, 20 << 20} {
		c := dial(t, path)
		c.send(command("PING") + command("FCALL", "acme/echo", "0", strings.Repeat("1", size)))
		c.expect("+PONG\r\n-ERR Protocol error: invalid bulk length: more than 1049600 bytes\r\n")
		c.expectEnd()
	}
}

// TestAfterAProtocolErrorAClientIsNotListenedToForLong: neither one that sends
// for ever nor one that says nothing more keeps the connection.
func TestAfterAProtocolErrorAClientIsNotListenedToForLong(t *testing.T) {
	_, path := serve(t, respsock.Options{Connections: budget.NewConnections(2, 1<<30)})
	silent, endless := dial(t, path), dial(t, path)
	silent.send("*x\r\n")
	silent.expectLine("-ERR Protocol error: invalid multibulk length")
	silent.expectEnd()
	_, err := io.WriteString(endless, "*x\r\n")
	for chunk := strings.Repeat("x", 64<<10); err == nil; {
		_, err = io.WriteString(endless, chunk)
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server did not close the connection: %v", err)
	}
	for { // until both places are free again, though the first did not close its end
		first, second := dial(t, path), dial(t, path)
		_, _ = io.WriteString(first, command("PING"))
		_, _ = io.WriteString(second, command("PING"))
		a, _ := first.r.ReadString('\n')
		b, _ := second.r.ReadString('\n')
		first.Close()
		second.Close()
		if a == "+PONG\r\n" && b == a {
			return
		}
	}
}

// TestShutdownDoesNotWaitForWhoWasRefused: there is nothing in flight.
func TestShutdownDoesNotWaitForWhoWasRefused(t *testing.T) {
	s, path := serve(t, respsock.Options{})
	c := dial(t, path)
	c.send("*x\r\n")
	c.expectLine("-ERR Protocol error: invalid multibulk length")
	c.expectEnd()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestGarbage(t *testing.T) {
	_, path := serve(t, respsock.Options{RequestTimeout: 100 * time.Millisecond})
	bystander(t, path)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		garbage := make([]byte, r.IntN(32<<10))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		c := dial(t, path)
		_, _ = c.Write(garbage)
		_ = c.Conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c.r)
	}
}

func TestTruncatedRequestsAreDropped(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	bystander(t, path)
	whole := command("FCALL", "acme/echo", "0", `{"a":1}`)
	for n := range len(whole) {
		c := dial(t, path)
		c.send(whole[:n])
		_ = c.Conn.(*net.UnixConn).CloseWrite()
		c.expectEnd()
	}
}

// TestAHalfClosedConnectionIsAnsweredAndClosed: nc sends what it has, says that
// it is done, and waits for us to close.
func TestAHalfClosedConnectionIsAnsweredAndClosed(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	for range 100 {
		c := dial(t, path)
		c.send("PING\r\nFCALL acme/echo 0 1\r\n")
		_ = c.Conn.(*net.UnixConn).CloseWrite()
		c.expect("+PONG\r\n$1\r\n1\r\n")
		c.expectEnd()
	}
}

func TestACommandInPieces(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	c := dial(t, path)
	for _, b := range command("FCALL", "acme/echo", "0", `{"a":1}`) + command("PING") {
		c.send(string(b))
	}
	c.expect("$7\r\n{\"a\":1}\r\n+PONG\r\n")
}

func TestArgumentsOfAllSizes(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	c := dial(t, path)
	for _, size := range []int{0, 1, 100, 16<<10 - 50, 16 << 10, 16<<10 + 1, 100_000, 1 << 20, 3} {
		arg := strings.Repeat("x", size)
		c.send(command("FCALL", "acme/echo", "0", arg) + command("PING"))
		c.expect(fmt.Sprintf("$%d\r\n%s\r\n+PONG\r\n", size, arg))
	}
	many := make([]string, 1024)
	for i := range many {
		many[i] = "1"
	}
	c.send(command(append([]string{"FCALL", "acme/echo", "0"}, many...)...))
	c.expect("*1024\r\n" + strings.Repeat("$1\r\n1\r\n", 1024))
	c.send(command(append([]string{"FCALL", "acme/echo", "0", "1"}, many...)...))
	c.expectLine("-INVALID args: there are 1025 arguments; a call may have 1024")
}

func TestSlowRequestsAreClosedAndIdleConnectionsAreNot(t *testing.T) {
	_, path := serve(t, respsock.Options{RequestTimeout: 50 * time.Millisecond})
	bystander(t, path)
	idle := dial(t, path)
	for _, half := range []string{"*", "*2\r\n$4\r\nECHO\r\n", "PIN", command("PING") + "*1\r\n$1000000\r\nxx"} {
		c := dial(t, path)
		c.send(half)
		if strings.Contains(half, "PING") {
			c.expect("+PONG\r\n")
		}
		c.expectEnd()
	}
	idle.send(command("PING"))
	idle.expect("+PONG\r\n")
}

func TestIdleTimeout(t *testing.T) {
	_, path := serve(t, respsock.Options{IdleTimeout: 50 * time.Millisecond})
	dial(t, path).expectEnd()
	for { // until it was not idle for too long before the request
		c := dial(t, path)
		_, _ = io.WriteString(c, command("PING"))
		if line, err := c.r.ReadString('\n'); err == nil && line == "+PONG\r\n" {
			c.expectEnd()
			return
		}
	}
}

func TestALongPipelineThatIsReadAtItsEnd(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	bystander(t, path)
	c := dial(t, path)
	const calls = 3000
	arg := strings.Repeat("x", 1000)
	one := command("FCALL", "acme/echo", "0", arg)
	c.send(strings.Repeat(one, calls)) // more than the socket's buffers hold, either way
	want := fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	for range calls {
		c.expect(want)
	}
	c.send(one)
	c.expect(want)
}

func TestAClientThatNeverReadsIsClosed(t *testing.T) {
	_, path := serve(t, respsock.Options{WriteTimeout: 100 * time.Millisecond})
	bystander(t, path)
	arg := strings.Repeat("x", 100_000)
	var greedy sync.WaitGroup
	for range 8 {
		c := dial(t, path)
		greedy.Go(func() {
			one := command("FCALL", "acme/echo", "0", arg)
			for {
				if _, err := io.WriteString(c, one); err != nil {
					if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
						return
					}
					t.Errorf("the server did not close the connection: %v", err)
					return
				}
			}
		})
	}
	greedy.Wait()
}

// TestTheBudgetBoundsWhatAllHold: the oldest commands that are not complete make room, and large
// commands of others are served meanwhile.
func TestTheBudgetBoundsWhatAllHold(t *testing.T) {
	const size = 1_000_000
	shared := budget.New(6 << 20) // half of it for one user
	_, path := serve(t, respsock.Options{Budget: shared})
	bystander(t, path)
	half := fmt.Sprintf("*4\r\n$5\r\nFCALL\r\n$9\r\nacme/echo\r\n$1\r\n0\r\n$%d\r\n", size)
	rest := strings.Repeat("1", size) + "\r\n"
	holders := make([]*client, 6)
	for i := range holders {
		holders[i] = dial(t, path)
		holders[i].send(half)
		c := dial(t, path)
		c.send(command("FCALL", "acme/echo", "0", strings.Repeat("2", 40_000)))
		c.expectLine("$40000")
	}
	closed, refused := 0, 0
	for _, c := range holders {
		_, _ = io.WriteString(c, rest)
		line, err := c.r.ReadString('\n')
		switch {
		case err == nil && line == fmt.Sprintf("$%d\r\n", size):
			c.expect(rest)
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			closed++ // it made room
		case err == nil && strings.HasPrefix(line, "-OVERLOADED"):
			refused++ // those that made room are still about to end
		default:
			t.Fatalf("got %.100q (%v)", line, err)
		}
	}
	if closed == 0 || closed+refused > 4 {
		t.Errorf("%d of 6 were closed and %d refused, although 3 fit", closed, refused)
	}
	for _, c := range holders {
		_ = c.Close()
	}
	for due := time.Now().Add(20 * time.Second); shared.Held() != 0; runtime.Gosched() { // what was held is given back
		if time.Now().After(due) {
			t.Fatalf("%d bytes of the budget stay taken", shared.Held())
		}
	}
	c := dial(t, path)
	c.send(half + rest)
	c.expectLine(fmt.Sprintf("$%d", size))
}

// TestConnectionsThatWait: what a connection has called, and read the replies of, takes no
// memory while it waits for the rest of its next command.
func TestConnectionsThatWait(t *testing.T) {
	const conns, most = 100, 48 << 10 // both ends
	x := gatewaytest.New()
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big}, nil })
	var names strings.Builder
	for i := range 256 {
		names.WriteString(command("FCALL", fmt.Sprintf("acme/%s-%03d", strings.Repeat("x", 59), i), "0"))
	}
	for name, one := range map[string]string{
		"a large result": command("FCALL", "acme/big", "0"),
		"documentation":  command(append([]string{"COMMAND", "DOCS"}, slices.Repeat([]string{"auth"}, 1200)...)...),
		"many words":     "ECHO " + strings.Repeat("x ", 2050) + "\r\n",
		"many names":     names.String(),
		"many arguments": "*2064\r\n" + strings.Repeat("$1\r\nx\r\n", 2064),
	} {
		_, path := serve(t, respsock.Options{Executor: x})
		before := memtest.InUse()
		for range conns {
			c := dial(t, path)
			go func() { _, _ = io.WriteString(c, one+command("PING")+"*2064\r\n"+strings.Repeat("$1\r\nx\r\n", 2000)) }()
			for pong := ""; pong != "+PONG\r\n"; {
				line, err := c.r.ReadSlice('\n')
				if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
					t.Fatal(name, err)
				}
				pong = string(line)
			}
		}
		if held := (memtest.InUse() - before) / conns; held > most {
			t.Errorf("%s: a connection holds %d bytes, want at most %d", name, held, most)
		}
	}
}

// TestUnreadRepliesOfMany: the replies that many connections do not read hold no more than the
// budget, and the connections with the rest are closed.
func TestUnreadRepliesOfMany(t *testing.T) {
	const most = 24 << 20
	x := gatewaytest.New()
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big}, nil })
	_, path := serve(t, respsock.Options{Executor: x, Budget: budget.New(16 << 20), WriteTimeout: time.Minute})
	bystander(t, path)
	before := memtest.InUse()
	for range 200 {
		c := dial(t, path)
		c.send(command("FCALL", "acme/big", "0"))
		if _, err := c.r.Peek(1); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
	held := memtest.InUse() - before
	t.Logf("unread replies hold %d bytes", held)
	if held > most {
		t.Errorf("unread replies hold %d bytes, want at most %d", held, most)
	}
}

// TestRepliesThatWait: a reply that has to wait behind others counts, too, and a connection ends
// whose replies the budget has no room for.
func TestRepliesThatWait(t *testing.T) {
	const conns, most = 100, 32 << 20
	x := gatewaytest.New()
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	release := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(conns)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) {
		begun.Done()
		<-release
		return [][]byte{big}, nil
	})
	_, path := serve(t, respsock.Options{Executor: x, Budget: budget.New(16 << 20), WriteTimeout: time.Minute})
	before := memtest.InUse()
	all := make([]*client, conns)
	for i := range all { // a little more than the socket takes, and then the large one
		all[i] = dial(t, path)
		all[i].send(strings.Repeat(command("ECHO", strings.Repeat("x", 3000)), 75) + command("FCALL", "acme/big", "0"))
	}
	begun.Wait()
	close(release)
	other, open := dial(t, path), conns
	for tries := 0; tries < 1000 && open > conns/8; tries++ {
		other.send(command("FCALL", "acme/echo", "0", "1"))
		other.expect("$1\r\n1\r\n")
		open = 0
		for _, c := range all {
			if _, err := io.WriteString(c, "\n"); err == nil {
				open++
			}
		}
	}
	held := memtest.InUse() - before
	t.Logf("%d connections are open, and hold %d bytes", open, held)
	if open > conns/8 || held > most {
		t.Errorf("%d connections hold %d bytes, want at most %d connections, and %d bytes", open, held, conns/8, most)
	}
}

func TestMaxConnections(t *testing.T) {
	_, path := serve(t, respsock.Options{Connections: budget.NewConnections(2, 1<<30)})
	first, second := dial(t, path), dial(t, path)
	for _, c := range []*client{first, second} {
		c.send(command("PING"))
		c.expect("+PONG\r\n")
	}
	third := dial(t, path)
	third.expect("-ERR max number of clients reached\r\n")
	third.expectEnd()
	first.send(command("QUIT"))
	first.expect("+OK\r\n")
	first.expectEnd()
	second.send(command("PING"))
	second.expect("+PONG\r\n")
	for { // the place is free a moment after the end is seen
		c := dial(t, path)
		_, _ = io.WriteString(c, command("PING")) // which fails if it is refused
		if line, err := c.r.ReadString('\n'); err == nil && line == "+PONG\r\n" {
			return
		}
	}
}

func TestTenThousandIdleConnections(t *testing.T) {
	_, path := serve(t, respsock.Options{Connections: budget.NewConnections(20_000, 1<<30)})
	bystander(t, path)
	held := gatewaytest.HoldIdle(t, path, command("PING"), "+PONG\r\n")
	const most = 24 << 10
	if held > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", held, most)
	}
}

func TestShutdownFinishesCallsInFlight(t *testing.T) {
	x := gatewaytest.New()
	begun, finish := make(chan struct{}), make(chan struct{})
	x.Set("acme/slow", func(context.Context, *gateway.Call) ([][]byte, error) {
		close(begun)
		<-finish
		return [][]byte{[]byte("1")}, nil
	})
	s, path := serve(t, respsock.Options{Executor: x})
	idle, busy := dial(t, path), dial(t, path)
	idle.send(command("PING"))
	idle.expect("+PONG\r\n")
	busy.send(command("FCALL", "acme/slow", "0"))
	<-begun
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	idle.expectEnd()
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("a new connection was accepted")
	}
	close(finish)
	busy.expect("$1\r\n1\r\n")
	busy.expectEnd()
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
	s, path := serve(t, respsock.Options{Executor: x})
	c := dial(t, path)
	c.send(command("FCALL", "acme/slow", "0"))
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
	c.expectEnd()
}

// TestCallsMakeNoGarbage counts what the whole process allocates, both ends of
// the connection included.
func TestCallsMakeNoGarbage(t *testing.T) {
	_, path := serve(t, respsock.Options{Executor: quiet{gatewaytest.New()}})
	c := dial(t, path)
	request := []byte(command("FCALL", "acme/route", "0", `{"path":"/"}`))
	want := make([]byte, len("$2\r\n{}\r\n"))
	call := func() {
		if _, err := c.Write(request); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c.r, want); err != nil {
			t.Error(err)
		}
	}
	call()
	// The race detector makes sync.Pool forget at random.
	if got := testing.AllocsPerRun(1000, call); got > 3 {
		t.Errorf("a call allocates %v times", got)
	}
}

// quiet is an Executor that allocates nothing.
type quiet struct{ *gatewaytest.Executor }

func (quiet) Execute(_ context.Context, _ *gateway.Call, reply *gateway.Reply) error {
	return reply.Append(func(dst []byte) ([]byte, error) { return append(dst, "{}"...), nil })
}

func BenchmarkCall(b *testing.B) {
	path := b.TempDir() + "/resp.sock"
	l, err := gateway.Listen(path)
	if err != nil {
		b.Fatal(err)
	}
	s := respsock.New(respsock.Options{Executor: quiet{gatewaytest.New()}})
	go s.Serve(l)
	defer s.Shutdown(context.Background())
	for _, pipeline := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", pipeline), func(b *testing.B) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			request := []byte(strings.Repeat(command("FCALL", "acme/route", "0", `{"path":"/"}`), pipeline))
			reply := make([]byte, pipeline*len("$2\r\n{}\r\n"))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, reply); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/call")
		})
	}
}
