package rpc

import (
	"context"
	"iter"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Timeline is where events come from. A timeline.Timeline does.
type Timeline interface {
	List(ctx context.Context, req timeline.Request) (timeline.Result, error)
	Watch(ctx context.Context, req timeline.WatchRequest) iter.Seq2[timeline.Update, error]
}

// eventWatchBytes is how much memory a watch of events takes at most: events that it has filtered, and their message on its way.
const eventWatchBytes = 1 << 20

func (s *registryService) ListEvents(ctx context.Context, m *registryv1.ListEventsRequest) (*registryv1.ListEventsResponse, error) {
	if s.timeline == nil {
		return nil, errNoTimeline()
	}
	req := timeline.Request{
		By: access.FromContext(ctx), Filter: toEventFilter(m.GetTenant(), m.GetName(), m.GetTypes()),
		PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken(),
	}
	if m.GetSince() != nil {
		if err := m.GetSince().CheckValid(); err != nil {
			return nil, script.Errorf(script.Invalid, "since", "is no time: %w", err)
		}
		req.Since = m.GetSince().AsTime()
	}
	result, err := s.timeline.List(ctx, req)
	if err != nil {
		return nil, err
	}
	return &registryv1.ListEventsResponse{Events: fromEvents(result.Events), NextPageToken: result.NextPageToken, WatchToken: result.WatchToken}, nil
}

func (s *registryService) WatchEvents(m *registryv1.WatchEventsRequest, stream grpc.ServerStreamingServer[registryv1.WatchEventsResponse]) error {
	if s.timeline == nil {
		return errNoTimeline()
	}
	if !grpcguard.Hold(stream.Context(), eventWatchBytes) {
		return script.Errorf(script.Overloaded, "", "the registry holds as much for watches as it may: end other watches")
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	req := timeline.WatchRequest{
		By: access.FromContext(stream.Context()), Filter: toEventFilter(m.GetTenant(), m.GetName(), m.GetTypes()), Token: m.GetToken(),
	}
	for update, err := range s.timeline.Watch(ctx, req) {
		if err != nil {
			return err
		}
		if err := stream.Send(&registryv1.WatchEventsResponse{Events: fromEvents(update.Events), Token: update.Token}); err != nil {
			return err
		}
	}
	return errStopping()
}

func errNoTimeline() error {
	return script.Errorf(script.Unavailable, "", "this registry has no timeline: ask another replica")
}

func toEventFilter(tenant, name string, types []string) timeline.Filter {
	f := timeline.Filter{Tenant: tenant, Script: name}
	for _, t := range types {
		f.Types = append(f.Types, script.EventType(t))
	}
	return f
}

func fromEvents(events []script.Event) []*scriptv1.Event {
	messages := make([]*scriptv1.Event, len(events))
	for i := range events {
		messages[i] = wire.FromEvent(events[i])
	}
	return messages
}
