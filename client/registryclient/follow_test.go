package registryclient_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// aging starts a registry that ends connections at the ages at which registryd does, and returns a client of it.
func aging(t *testing.T) (c *registryclient.Client, stop func()) {
	t.Helper()
	ln := make(pipes)
	server := grpc.NewServer(
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 10 * time.Minute, MaxConnectionAgeGrace: 30 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
	)
	registryv1.RegisterRegistryServer(server, quietRegistry{})
	go server.Serve(ln)
	gone := make(chan struct{})
	c, err := registryclient.Dial("unix:any", registryclient.WithTransportCredentials(insecure.NewCredentials()), registryclient.WithDialOptions(
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case <-gone:
				return nil, net.ErrClosed
			default:
			}
			select {
			case ln <- theirs:
				return ours, nil
			case <-gone:
				return nil, net.ErrClosed
			}
		}),
	))
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { close(gone); server.Stop() }
}

// TestOldConnections: a registry ends old connections. A watch ends with them and says so; who follows sees nothing of it.
func TestOldConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := aging(t)
		defer stop()
		defer c.Close()
		var last error
		for _, err := range c.WatchStatus(t.Context(), script.Name{}) {
			last = err
		}
		if script.KindOf(last) != script.Unavailable || !strings.Contains(last.Error(), "ended the connection, as it does with old ones") {
			t.Errorf("a watch ended in %v", last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		seen, start := 0, time.Now()
		for change, err := range c.FollowChanges(ctx, script.Name{}, func(err error) { t.Errorf("interrupted: %v", err) }) {
			if last = err; err == nil {
				seen++
			}
			if err == nil && !change.Full {
				t.Error("it goes on with a change that is not of all scripts")
			}
		}
		if script.KindOf(last) != script.Timeout || time.Since(start) != 24*time.Hour || seen < 24 || seen > 100 {
			t.Errorf("%d times all scripts, then %v after %v; want some in a day, until its end", seen, last, time.Since(start))
		}
	})
}

// TestFollowAgain checks that who follows a registry that is away waits for it, if it answered the client before.
func TestFollowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := aging(t)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range c.FollowChanges(ctx, script.Name{}, func(error) {}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		stop()
		attempts := 0
		for _, err := range c.FollowChanges(ctx, script.Name{}, func(error) {
			if attempts++; attempts == 3 {
				cancel()
			}
		}) {
			if script.KindOf(err) != script.Timeout {
				t.Errorf("after %d attempts: %v", attempts, err)
			}
		}
		if attempts != 3 {
			t.Errorf("it gave up after %d attempts", attempts)
		}
	})
}

// TestFollowWithoutRegistry: who follows learns that none answers, once a second at most.
func TestFollowWithoutRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := aging(t)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		times := []time.Time{}
		for _, err := range c.FollowStatus(ctx, script.Name{}, func(err error) {
			if script.KindOf(err) != script.Unavailable {
				t.Errorf("interrupted by %v", err)
			}
			if times = append(times, time.Now()); len(times) == 5 {
				cancel()
			}
		}) {
			if last = err; err == nil {
				stop()
			}
		}
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) < time.Second {
				t.Errorf("attempts at %v", times)
			}
		}
		if len(times) != 5 || script.KindOf(last) != script.Timeout {
			t.Errorf("%d attempts in vain, then %v", len(times), last)
		}
	})
}
