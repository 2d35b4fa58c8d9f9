package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/recentcalls"
	"github.com/scriptorium-dev/scriptorium/script"
)

// RecentCalls is for those that may read the script's logs: its masks hold here, too.
func (s *registryService) RecentCalls(ctx context.Context, m *registryv1.RecentCallsRequest) (*registryv1.RecentCallsResponse, error) {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayReadLogs(ctx, of); err != nil {
		return nil, err
	}
	who := access.FromContext(ctx)
	if _, err := s.registry.Get(ctx, who, of); err != nil {
		return nil, err
	}
	if s.asker == nil {
		return nil, script.Errorf(script.Unavailable, "", "this registry has no NATS, over which agents answer: ask another replica")
	}
	waits, cancel := s.untilDraining(ctx)
	defer cancel()
	found, err := recentcalls.Collect(waits, s.asker, recentcalls.Request{Caller: who.Subject, Of: of, Agents: m.GetAgents(), Limit: int(m.GetLimit())})
	if err != nil && ctx.Err() == nil && waits.Err() != nil {
		return nil, errStopping()
	}
	if err != nil {
		return nil, err
	}
	resp := &registryv1.RecentCallsResponse{Result: fromQueryResult(&found.Result)}
	for i := range found.Calls {
		call := &found.Calls[i]
		resp.Calls = append(resp.Calls, &registryv1.RecentCall{Agent: call.Agent, Time: timestamppb.New(call.Time), Version: call.Version, Record: call.Record})
	}
	return resp, nil
}
