package rpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *registryService) Status(ctx context.Context, m *registryv1.StatusRequest) (*registryv1.StatusResponse, error) {
	filter, err := toFilter(m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	status := s.fleet.Status(filter)
	if filter.Script != "" && len(status.Scripts) == 0 {
		return nil, script.Errorf(script.NotFound, "name", "there is no script %s/%s", filter.Tenant, filter.Script)
	}
	return &registryv1.StatusResponse{Status: fromStatus(status)}, nil
}

func (s *registryService) WatchStatus(m *registryv1.WatchStatusRequest, stream grpc.ServerStreamingServer[registryv1.WatchStatusResponse]) error {
	filter, err := toFilter(m.GetTenant(), m.GetName())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-s.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	for status := range s.fleet.Watch(ctx, filter) {
		if err := stream.Send(&registryv1.WatchStatusResponse{Status: fromStatus(status)}); err != nil {
			return err
		}
	}
	return script.Errorf(script.Unavailable, "", "this registry is stopping: watch another one")
}

// catchUp waits until this replica knows what was committed before the request:
// who has just published must not see the status of the release before.
func (s *registryService) catchUp(ctx context.Context) error {
	head, err := s.registry.Head(ctx)
	if err != nil {
		return err
	}
	return s.fleet.Reached(ctx, head)
}

func toFilter(tenant, name string) (fleet.Filter, error) {
	if name != "" {
		return fleet.Filter{Tenant: tenant, Script: name}, script.Name{Tenant: tenant, Script: name}.Validate()
	}
	if tenant != "" {
		return fleet.Filter{Tenant: tenant}, script.ValidateLabel("tenant", tenant)
	}
	return fleet.Filter{}, nil
}

func fromStatus(s fleet.Status) *registryv1.FleetStatus {
	m := &registryv1.FleetStatus{
		Fleet:        s.Fleet,
		HeadRevision: int64(s.Head),
		Agents:       make([]*registryv1.AgentStatus, 0, len(s.Agents)),
		Scripts:      make([]*registryv1.ScriptStatus, 0, len(s.Scripts)),
	}
	for _, a := range s.Agents {
		m.Agents = append(m.Agents, &registryv1.AgentStatus{
			Agent:             a.Name,
			Labels:            a.Labels,
			Software:          a.Software,
			ActivatedRevision: int64(a.Activated),
			Unknown:           a.Unknown,
			UnheardFor:        durationpb.New(a.UnheardFor),
		})
	}
	for _, p := range s.Scripts {
		m.Scripts = append(m.Scripts, fromScriptStatus(p))
	}
	return m
}

// summary leaves out what may be large and does not tell how far a release has
// come: a status is of all scripts, and goes out up to ten times a second.
func summary(r script.Release) script.Release {
	r.Settings.Config = nil
	r.Retained = slices.DeleteFunc(slices.Clone(r.Retained), func(v script.Version) bool { return v.Number != r.Active.Number })
	return r
}

func fromScriptStatus(p fleet.ScriptStatus) *registryv1.ScriptStatus {
	m := &registryv1.ScriptStatus{
		Release:      wire.FromRelease(summary(p.Release)),
		Desired:      int32(p.Desired),
		Active:       int32(p.Active),
		Failed:       int32(p.Failed),
		Unknown:      int32(p.Unknown),
		Converged:    p.Converged,
		SlowestAgent: p.SlowestAgent,
	}
	if p.HasTook {
		m.Took = durationpb.New(p.Took)
	}
	for _, failure := range p.Failures {
		m.Failures = append(m.Failures, &registryv1.AgentFailure{Agent: failure.Agent, Error: wire.FromError(failure.Err)})
	}
	return m
}
