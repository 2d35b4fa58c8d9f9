package rpc

import (
	"context"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/tryout"
	"github.com/scriptorium-dev/scriptorium/registry/turns"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tryPatience is how long a try waits for others to end.
const tryPatience = 3 * time.Second

// newTries bounds the tries of a tenant, so that they leave room for others among the registry's queries, and in the memory
// of agents.
func newTries() *turns.Turns {
	return turns.New(turns.Config{
		Concurrent: 16, PerCaller: 2, MinRest: 1, Busy: "the registry runs at most 2 tries of a tenant at a time, and 16 in all: try again when one has ended",
	})
}

func (s *registryService) Try(ctx context.Context, m *registryv1.TryRequest) (*registryv1.TryResponse, error) {
	who := access.FromContext(ctx)
	if err := who.Check(access.Publish, m.GetTenant()); err != nil {
		return nil, err
	}
	timeout, err := tryout.Timeout(m.GetTimeout())
	if err == nil {
		err = tryout.CheckCalls(m.GetCalls())
	}
	if err != nil {
		return nil, err
	}
	req := registry.TryRequest{
		Name: script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, By: who, Source: m.GetSource(), Engine: m.GetEngine(), Entrypoint: registry.DefaultEntrypoint,
	}
	if m.Entrypoint != nil {
		req.Entrypoint = m.GetEntrypoint()
	}
	if m.GetSettings() != nil {
		settings, err := toSettings(m.GetSettings())
		if err != nil {
			return nil, err
		}
		req.Settings = &settings
	}
	waits, cancel := s.untilDraining(ctx)
	defer cancel()
	resp, err := s.try(waits, req, m, timeout)
	if err != nil && ctx.Err() == nil && waits.Err() != nil {
		return nil, errStopping()
	}
	return resp, err
}

// try waits for a turn, and has an agent run the script.
func (s *registryService) try(ctx context.Context, req registry.TryRequest, m *registryv1.TryRequest, timeout time.Duration) (*registryv1.TryResponse, error) {
	waits, cancel := context.WithTimeout(ctx, tryPatience)
	end, err := s.tries.Begin(waits, req.Name.Tenant)
	cancel()
	if err != nil {
		return nil, err
	}
	defer end(0)
	draft, refused, err := s.registry.Draft(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return &registryv1.TryResponse{Error: wire.FromError(refused)}, nil
	}
	if err := s.mayAsk(); err != nil {
		return nil, err
	}
	found, err := tryout.Run(ctx, s.asker, tryout.Request{
		Caller: req.By.Subject, Script: tryScript(draft, m), Agent: m.GetAgent(), Timeout: timeout, Answerers: s.fleet.Answerers(m.GetTenant()),
		Note: func(agent string) error { return s.registry.NoteTry(ctx, req.By, draft, agent) },
	})
	if err != nil {
		return nil, err
	}
	calls := found.Results[:min(len(found.Results), len(m.GetCalls()))]
	return &registryv1.TryResponse{
		Agent: found.Agent, Run: found.Run, Error: found.Run.GetCompileError(), Calls: calls, Tests: found.Results[len(calls):], Libraries: librariesOf(draft),
	}, nil
}

// tryScript returns what an agent is to run.
func tryScript(d *registry.Draft, m *registryv1.TryRequest) *eventv1.TryScript {
	return &eventv1.TryScript{
		Tenant: d.Name.Tenant, Name: d.Name.Script, Engine: d.Version.Engine, Entrypoint: d.Version.Entrypoint,
		Settings: wire.FromSettings(d.Settings), Source: d.Source, Calls: m.GetCalls(), Tests: m.GetTests(),
	}
}

// librariesOf returns what the draft requires, without sources.
func librariesOf(d *registry.Draft) []*scriptv1.Library {
	libraries := wire.FromLibraries(d.Settings.Libraries)
	for _, l := range libraries {
		l.Source = ""
	}
	return libraries
}
