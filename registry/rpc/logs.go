package rpc

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Logs is where what scripts log comes from.
type Logs interface {
	// Watch yields what the script logs from now on, or all scripts of the tenant if the
	// name has no Script, until ctx is done or the caller breaks off; an error is the
	// last.
	Watch(ctx context.Context, of script.Name) iter.Seq2[fleet.Logs, error]
}

func (s *registryService) WatchLogs(m *registryv1.WatchLogsRequest, stream grpc.ServerStreamingServer[registryv1.WatchLogsResponse]) error {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayReadLogs(stream.Context(), of); err != nil {
		return err
	}
	filter, err := toLogFilter(m)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	for logs, err := range s.logs.Watch(ctx, of) {
		if err != nil {
			return err
		}
		logs, some := filter.apply(logs)
		if !some {
			continue
		}
		if err := stream.Send(fromLogs(&logs)); err != nil {
			return err
		}
	}
	return errStopping()
}

// mayReadLogs also refuses a script that is not there: who misspelt its name would
// wait for ever.
func (s *registryService) mayReadLogs(ctx context.Context, of script.Name) error {
	who := access.FromContext(ctx)
	if err := script.ValidateLabel("tenant", of.Tenant); err != nil {
		return err
	}
	if err := who.Check(access.Read, of.Tenant); err != nil {
		return err
	}
	if s.logs == nil {
		return script.Errorf(script.Unavailable, "", "this registry has no NATS, over which logs come: ask another replica")
	}
	if of.Script == "" {
		return nil
	}
	_, err := s.registry.Get(ctx, who, of)
	return err
}

func fromLogs(l *fleet.Logs) *registryv1.WatchLogsResponse {
	switch l.State {
	case fleet.LogsListening:
		return &registryv1.WatchLogsResponse{State: registryv1.LogsState_LOGS_STATE_LISTENING}
	case fleet.LogsInterrupted:
		return &registryv1.WatchLogsResponse{State: registryv1.LogsState_LOGS_STATE_INTERRUPTED}
	}
	logs := &eventv1.Logs{Agent: l.Agent, Dropped: l.Dropped, Lines: make([]*eventv1.LogLine, len(l.Lines))}
	for i, line := range l.Lines {
		logs.Lines[i] = fromLogLine(&line)
	}
	return &registryv1.WatchLogsResponse{Logs: logs}
}
