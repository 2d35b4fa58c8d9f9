package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/top"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Top is for those that may read the scripts; of all tenants, as ListAgents.
func (s *registryService) Top(ctx context.Context, m *registryv1.TopRequest) (*registryv1.TopResponse, error) {
	who, of := access.FromContext(ctx), script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayReadTop(ctx, who, of); err != nil {
		return nil, err
	}
	if s.top == nil {
		return nil, script.Errorf(script.Unavailable, "", "this registry has no NATS, over which agents answer: ask another replica")
	}
	waits, cancel := s.untilDraining(ctx)
	defer cancel()
	found, err := s.top.Read(waits, top.Request{
		Caller: who.Subject, Of: of, Period: m.GetPeriod().AsDuration(), Sort: m.GetSort(), Limit: int(m.GetLimit()),
	})
	if err != nil && ctx.Err() == nil && waits.Err() != nil {
		return nil, errStopping()
	}
	if err != nil {
		return nil, err
	}
	resp := &registryv1.TopResponse{Total: fromRates(&found.Total), Truncated: found.Truncated, Result: fromQueryResult(&found.Result)}
	for i := range found.Scripts {
		resp.Scripts = append(resp.Scripts, fromRates(&found.Scripts[i]))
	}
	return resp, nil
}

// mayReadTop also refuses a script that is not there.
func (s *registryService) mayReadTop(ctx context.Context, who access.Identity, of script.Name) error {
	if of == (script.Name{}) {
		return who.CheckAll(access.Read, script.Selector{})
	}
	if err := script.ValidateLabel("tenant", of.Tenant); err != nil {
		return err
	}
	if err := who.Check(access.Read, of.Tenant); err != nil || of.Script == "" {
		return err
	}
	_, err := s.registry.Get(ctx, who, of)
	return err
}

func fromRates(r *top.Rates) *registryv1.ScriptRates {
	return &registryv1.ScriptRates{
		Tenant: r.Script.Tenant, Name: r.Script.Script, CallsPerSecond: r.Calls, ErrorsPerSecond: r.Errors,
		P50: latency(r.P50), P99: latency(r.P99), Processors: r.Processors, Agents: int32(r.Agents), //nolint:gosec // agents of a fleet
	}
}

func latency(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
