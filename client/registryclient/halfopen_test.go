package registryclient_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// quietRegistry sends one status, and none after it.
type quietRegistry struct {
	registryv1.UnimplementedRegistryServer
}

func (quietRegistry) WatchStatus(_ *registryv1.WatchStatusRequest, stream grpc.ServerStreamingServer[registryv1.WatchStatusResponse]) error {
	if err := stream.Send(&registryv1.WatchStatusResponse{Status: &registryv1.FleetStatus{Fleet: "F1"}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// cable is a connection that can be cut so that neither end gets an error.
type cable struct {
	net.Conn
	cut *atomic.Bool
}

func (c cable) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestHalfOpen: a watch ends although the registry vanished without a word.
func TestHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln, cut := make(pipes), new(atomic.Bool)
		server := grpc.NewServer()
		registryv1.RegisterRegistryServer(server, quietRegistry{})
		go server.Serve(ln)
		defer server.Stop()
		c, err := registryclient.Dial("unix:any", registryclient.WithTransportCredentials(insecure.NewCredentials()), registryclient.WithDialOptions(
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				ln <- theirs
				return cable{ours, cut}, nil
			}),
		))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start, seen := time.Now(), 0
		var last error
		for _, err := range c.WatchStatus(t.Context(), script.Name{}) {
			if last = err; err == nil {
				seen++
				cut.Store(true)
			}
		}
		if seen != 1 || script.KindOf(last) != script.Unavailable || time.Since(start) > time.Minute {
			t.Errorf("%d statuses, then %v after %v; want one, then Unavailable within a minute", seen, last, time.Since(start))
		}
	})
}
