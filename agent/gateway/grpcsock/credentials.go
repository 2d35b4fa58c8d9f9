package grpcsock

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
)

// grantOf returns what the caller of a request may use; that was found out when it
// connected.
func grantOf(ctx context.Context) gateway.Grant {
	grant, _ := unixpeer.FromContext[gateway.Grant](ctx)
	return grant
}
