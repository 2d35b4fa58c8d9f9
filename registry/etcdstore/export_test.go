package etcdstore

import (
	"context"
	"net"

	"google.golang.org/grpc"
)

// WithDialer returns the configuration of a store that connects by dial.
func (c Config) WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Config {
	c.options = append(c.options, grpc.WithContextDialer(dial))
	return c
}
