package main

import (
	"context"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fleetAgent is one agent: the follower of a real one, over connections of its own, with a
// disk in memory.
type fleetAgent struct {
	disk     *agentDisk
	follower *follow.Follower
	nats     *follow.NATS
	conn     *grpc.ClientConn
}

func newFleetAgent(name string, number int, in *FleetJoin, keyring *seal.Keyring, disk *agentDisk) (a *fleetAgent, err error) {
	quiet := slog.New(slog.DiscardHandler)
	a = &fleetAgent{disk: disk}
	dialer := dialFrom(agentHost(number))
	// As an agent dials.
	a.conn, err = grpc.NewClient(in.Registries[number%len(in.Registries)],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return nil, err
	}
	everything := script.Selector{}
	a.nats = &follow.NATS{
		URLs: []string{in.NATS}, Subjects: wire.Subjects{Prefix: wire.DefaultPrefix}, Group: everything.Group(), Agent: name,
		Dialer: dialer, Log: quiet,
	}
	a.follower, err = follow.New(follow.Config{
		Agent: name, Software: version.String(), Trusted: keyring,
		Labels: map[string]string{"zone": "eu-central-1" + string("abc"[number%3]), "pool": "edge", "kernel": "6.12.9"},
		State:  disk, Registry: follow.NewRPC(a.conn), Feed: a.nats, Reporter: a.nats, Log: quiet,
	})
	return a, err
}

// agentHost returns the address that an agent dials from: each hundred agents have one.
func agentHost(number int) net.IP {
	number /= 100
	return net.IPv4(127, 0, 1+byte(number/200), 1+byte(number%200))
}

// run follows until ctx is done.
func (a *fleetAgent) run(ctx context.Context) error {
	defer func() { _ = a.conn.Close() }() // the process goes on without it
	defer a.nats.Close()
	return a.follower.Run(ctx)
}
