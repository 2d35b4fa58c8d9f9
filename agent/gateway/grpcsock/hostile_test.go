package grpcsock_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
)

// TestAClientThatNeverReads: who asks on many streams and reads no answer is no
// longer served once the windows of its streams are full, holds a bounded amount
// of memory, and others notice nothing.
func TestAClientThatNeverReads(t *testing.T) {
	const (
		streams    = 32
		answerSize = 100_000
		mostCalls  = 8 // of a stream: what the windows and buffers of both ends take
		// For a stream, both ends together: some three answers are under way, and
		// gRPC keeps one over 32 KiB in a buffer of a megabyte.
		mostBytes = 6 << 20
	)
	x := gatewaytest.New()
	var calls atomic.Int64
	begun := make(chan struct{}, streams)
	big := []byte(`"` + strings.Repeat("x", answerSize) + `"`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) {
		if calls.Add(1) <= streams {
			begun <- struct{}{}
		}
		return [][]byte{big}, nil
	})
	_, path, conn := serve(t, grpcsock.Options{Executor: x})
	before := memtest.InUse()

	greedy, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)) // else they grow
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	defer func() {
		cancel()
		senders.Wait()
		greedy.Close()
	}()
	for range streams {
		stream, err := agentv1.NewExecutorClient(greedy).ExecuteStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		senders.Go(func() {
			call := &agentv1.ExecuteRequest{Script: "acme/big", Args: args(`"` + strings.Repeat("y", 1000) + `"`)}
			for id := uint64(1); stream.Send(&agentv1.ExecuteStreamRequest{Id: id, Call: call}) == nil; id++ {
			}
		})
	}
	for range streams {
		<-begun
	}

	api := agentv1.NewExecutorClient(conn)
	for range 1000 {
		resp, err := api.Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")})
		if err != nil || join(resp.GetResults()) != "1" {
			t.Fatalf("another client got %v, %v", resp, err)
		}
	}
	if n := calls.Load(); n > streams*mostCalls {
		t.Errorf("%d calls ran for a client that reads nothing, want at most %d a stream", n, mostCalls)
	}
	held := (memtest.InUse() - before) / streams
	t.Logf("%d calls ran; a stream holds %d bytes", calls.Load(), held)
	if held > mostBytes {
		t.Errorf("a stream whose answers are not read holds %d bytes, want at most %d", held, mostBytes)
	}
}

// TestHeadersAreBounded: a call with larger headers fails, and the error names the bound.
func TestHeadersAreBounded(t *testing.T) {
	_, _, conn := serve(t, grpcsock.Options{Executor: gatewaytest.New()})
	call := &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")}
	for size, want := range map[int]string{8 << 10: "", wire.MaxHeaderBytes: "16384"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-large", strings.Repeat("x", size))
		_, err := agentv1.NewExecutorClient(conn).Execute(ctx, call)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want an error with %q, or none", size, err, want)
		}
	}
}

// TestTruncatedFrames cuts what a client sends for one call after each byte:
// what did not come whole is not run, and the connection is closed.
func TestTruncatedFrames(t *testing.T) {
	x := gatewaytest.New()
	var calls atomic.Int64
	x.Set("acme/count", func(context.Context, *gateway.Call) ([][]byte, error) {
		calls.Add(1)
		return nil, nil
	})
	_, path, conn := serve(t, grpcsock.Options{Executor: x})
	const arg = `"the end of the request"`
	whole := record(t, path, &agentv1.ExecuteRequest{Script: "acme/count", Args: args(arg)})
	complete := bytes.Index(whole, []byte(arg)) + len(arg)
	if complete < len(arg) || calls.Load() != 1 {
		t.Fatalf("the recorded call, which ran %d times, is %q", calls.Load(), whole)
	}
	for n := range complete {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.UnixConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %d of %d bytes: %v", n, len(whole), err)
		}
		c.Close()
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls ran that did not come whole", n-1)
	}
	resp, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/echo", Args: args("1")})
	if err != nil || join(resp.GetResults()) != "1" {
		t.Errorf("another client got %v, %v", resp, err)
	}
}

// record makes a call and returns all bytes that the client sent for it.
func record(t *testing.T, path string, call *agentv1.ExecuteRequest) []byte {
	t.Helper()
	tape := &tape{}
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", path)
			tape.Conn = c
			return tape, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	tape.mu.Lock()
	defer tape.mu.Unlock()
	return bytes.Clone(tape.sent.Bytes())
}

// tape records what is written to a connection.
type tape struct {
	net.Conn
	mu   sync.Mutex
	sent bytes.Buffer
}

func (c *tape) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}
