package rpc

import (
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/recentlogs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// linesTogether are sent in one response.
const linesTogether = 200

func (s *registryService) RecentLogs(m *registryv1.RecentLogsRequest, stream grpc.ServerStreamingServer[registryv1.RecentLogsResponse]) error {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayReadLogs(stream.Context(), of); err != nil {
		return err
	}
	if s.asker == nil {
		return script.Errorf(script.Unavailable, "", "this registry has no NATS, over which agents answer: ask another replica")
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	found, err := recentlogs.Collect(ctx, s.asker, recentlogs.Request{
		Caller: access.FromContext(ctx).Subject, Of: of, Agents: m.GetAgents(), Version: m.GetVersion(), Level: engine.Level(m.GetLevel()),
		Grep: m.GetGrep(), Since: m.GetSince().AsDuration(), Limit: int(m.GetLimit()),
	})
	if err != nil && stream.Context().Err() == nil && ctx.Err() != nil {
		return errStopping()
	}
	if err != nil {
		return err
	}
	for lines := range slices.Chunk(found.Lines, linesTogether) {
		resp := &registryv1.RecentLogsResponse{Lines: make([]*registryv1.RecentLogLine, len(lines))}
		for i := range lines {
			resp.Lines[i] = &registryv1.RecentLogLine{Agent: lines[i].Agent, Line: fromLogLine(&lines[i].LogLine)}
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	return stream.Send(&registryv1.RecentLogsResponse{Truncated: found.Truncated, Evicted: found.Evicted, Result: fromQueryResult(&found.Result)})
}

func fromLogLine(l *fleet.LogLine) *eventv1.LogLine {
	return &eventv1.LogLine{
		Time:    timestamppb.New(l.Time),
		Tenant:  l.Script.Tenant,
		Name:    l.Script.Script,
		Version: l.Version,
		Level:   string(l.Level),
		Message: l.Message,
		TraceId: l.TraceID,
	}
}

// maxNamed agents of each kind are named in a result.
const maxNamed = 100

func fromQueryResult(r *query.Result) *registryv1.QueryResult {
	m := &registryv1.QueryResult{
		Answered: count(r.Answered), Silent: count(r.Silent), Older: count(r.Older), Failed: count(r.Failed),
		SilentAgents: r.Silent[:min(len(r.Silent), maxNamed)], OlderAgents: r.Older[:min(len(r.Older), maxNamed)],
	}
	for _, f := range r.Failed[:min(len(r.Failed), maxNamed)] {
		m.Failures = append(m.Failures, &registryv1.QueryFailure{Agent: f.Agent, Error: wire.FromError(f.Err)})
	}
	return m
}

func count[T any](all []T) int32 { return int32(len(all)) } //nolint:gosec // agents of a fleet
