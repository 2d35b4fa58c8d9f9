package rpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/profiling"
	"github.com/scriptorium-dev/scriptorium/script"
)

// dataTogether is how many bytes of a profile are sent in one response.
const dataTogether = 256 << 10

func (s *registryService) ProfileScript(m *registryv1.ProfileScriptRequest, stream grpc.ServerStreamingServer[registryv1.ProfileScriptResponse]) error {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayProfile(stream.Context(), of); err != nil {
		return err
	}
	if n := s.connected(of.Tenant, m.GetAgents()); n > profiling.MaxAgents {
		return script.Errorf(script.Invalid, "agents", "are %d, at most %d are profiled at a time: name some", n, profiling.MaxAgents)
	}
	duration, err := profiling.Duration(m.GetDuration())
	if err != nil {
		return err
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	id := profiling.NewID()
	if err := stream.Send(&registryv1.ProfileScriptResponse{Profile: id}); err != nil {
		return err
	}
	found, err := profiling.ProfileScript(ctx, s.asker, profiling.Script{
		Caller: access.FromContext(ctx).Subject, ID: id, Of: of, Version: m.GetVersion(), Agents: m.GetAgents(), Duration: duration,
	})
	if err != nil {
		return err
	}
	for _, agent := range found.Agents {
		for _, part := range agent.Parts {
			if err := stream.Send(&registryv1.ProfileScriptResponse{Agent: agent.Agent, Part: part}); err != nil {
				return err
			}
		}
		if agent.Summary != nil {
			if err := stream.Send(&registryv1.ProfileScriptResponse{Agent: agent.Agent, Summary: agent.Summary}); err != nil {
				return err
			}
		}
	}
	return stream.Send(&registryv1.ProfileScriptResponse{Result: fromQueryResult(&found.Result)})
}

// mayProfile checks what it takes to see a script's source, and what it logs.
func (s *registryService) mayProfile(ctx context.Context, of script.Name) error {
	who := access.FromContext(ctx)
	if err := who.Check(access.Read, of.Tenant); err != nil {
		return err
	}
	if err := s.mayAsk(); err != nil {
		return err
	}
	_, err := s.registry.Get(ctx, who, of)
	return err
}

func (s *registryService) mayAsk() error {
	if s.asker == nil {
		return script.Errorf(script.Unavailable, "", "this registry has no NATS, over which agents answer: ask another replica")
	}
	return nil
}

// connected returns how many connected agents that follow the tenant have one of the names, or match
// one of the patterns.
func (s *registryService) connected(tenant string, patterns []string) (n int) {
	named := &eventv1.Query{Agents: patterns}
	for _, a := range s.fleet.Answerers(tenant) {
		if wire.QueryNames(named, a.Agent) {
			n++
		}
	}
	return n
}

func (s *registryService) ProfileAgent(m *registryv1.ProfileAgentRequest, stream grpc.ServerStreamingServer[registryv1.ProfileAgentResponse]) error {
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	who := access.FromContext(ctx)
	if err := who.CheckAll(access.Admin, script.Selector{}); err != nil {
		return err
	}
	duration, err := profiling.ProcessDuration(m.GetType(), m.GetDuration())
	if err == nil {
		err = s.mayAsk()
	}
	if err != nil {
		return err
	}
	if err := s.registry.NoteProfile(ctx, registry.AgentProfile{By: who, Agent: m.GetAgent(), Type: m.GetType(), Duration: duration}); err != nil {
		return err
	}
	id := profiling.NewID()
	if err := stream.Send(&registryv1.ProfileAgentResponse{Profile: id}); err != nil {
		return err
	}
	data, err := profiling.ProfileProcess(ctx, s.asker, profiling.Process{
		Caller: who.Subject, ID: id, Agent: m.GetAgent(), Type: m.GetType(), Duration: duration,
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(data, dataTogether) {
		if err := stream.Send(&registryv1.ProfileAgentResponse{Data: part}); err != nil {
			return err
		}
	}
	return nil
}

func (s *registryService) EndProfile(ctx context.Context, m *registryv1.EndProfileRequest) (*registryv1.EndProfileResponse, error) {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	who := access.FromContext(ctx)
	var err error
	if of.Tenant == "" {
		err = who.CheckAll(access.Admin, script.Selector{})
	} else {
		err = who.Check(access.Read, of.Tenant)
	}
	if err == nil {
		err = s.mayAsk()
	}
	if err != nil {
		return nil, err
	}
	err = profiling.EndProfile(ctx, s.asker, profiling.End{Caller: who.Subject, ID: m.GetProfile(), Of: of, Agents: m.GetAgents()})
	return &registryv1.EndProfileResponse{}, err
}
