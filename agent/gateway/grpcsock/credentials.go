package grpcsock

import (
	"context"

	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
	"github.com/scriptorium-dev/scriptorium/script"
)

// grantOf returns what the caller of a request may use; that was found out when it
// connected.
func grantOf(ctx context.Context) gateway.Grant {
	grant, _ := unixpeer.FromContext[gateway.Grant](ctx)
	return grant
}

// known reports whether the peer of a connection may use any tenant.
func known(info credentials.AuthInfo) bool {
	grant, ok := unixpeer.FromAuthInfo[gateway.Grant](info)
	return ok && !grant.None()
}

// admit refuses callers without a grant before the agent reads their requests.
// Everybody may ask whether the agent serves.
func admit(ctx context.Context, method string) (context.Context, string, error) {
	grant := grantOf(ctx)
	switch {
	case !grant.None():
		return ctx, grant.Caller(), nil
	case method == healthv1.Health_Check_FullMethodName:
		return ctx, budget.Stranger, nil
	default:
		return ctx, budget.Stranger, script.Errorf(script.Denied, "", "%s has no grant: no rule of agentd --allow names it", grant)
	}
}
