package rpc

import (
	"google.golang.org/grpc"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// RegisterFeed adds the service of followers alone to a server that is not a Server:
// such as one that is not reached over a network. The identity of each call must be
// in its context.
func RegisterFeed(to grpc.ServiceRegistrar, cfg Config) {
	registryv1.RegisterFeedServer(to, newFeedService(cfg))
}
