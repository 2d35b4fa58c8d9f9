package etcdstore

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// WithDialer returns the configuration of a store that connects by dial.
func (c Config) WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Config {
	c.options = append(c.options, grpc.WithContextDialer(dial))
	return c
}

// LeaseOfRequests returns the lease of requests.
func (s *Store) LeaseOfRequests(ctx context.Context) (clientv3.LeaseID, error) {
	return s.leaseOfRequests(ctx)
}

// AgeLease makes the lease so old that a renewal is due.
func (s *Store) AgeLease() {
	id, _ := s.requests.last()
	s.requests.set(id, time.Now().Add(-renewLeaseAfter))
}
