package rpc

import (
	"context"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/shadowdiff"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *registryService) ShadowDiff(ctx context.Context, m *registryv1.ShadowDiffRequest) (*registryv1.ShadowDiffResponse, error) {
	of := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := s.mayReadLogs(ctx, of); err != nil {
		return nil, err
	}
	who := access.FromContext(ctx)
	release, err := s.registry.Get(ctx, who, of)
	switch {
	case err != nil:
		return nil, err
	case release.Candidate == nil:
		return nil, release.NoCandidate()
	case !release.Plan().Shadows():
		return nil, script.Errorf(script.NotFound, "candidate", "the plan of version %d of %s has no shadow step, such as rollout.steps: [{shadow: 5}]", release.Candidate.Version.Number, of)
	case s.asker == nil:
		return nil, script.Errorf(script.Unavailable, "", "this registry has no NATS, over which agents answer: ask another replica")
	}
	ctx, cancel := s.untilDraining(ctx)
	defer cancel()
	found, err := shadowdiff.Collect(ctx, s.asker, shadowdiff.Request{Caller: who.Subject, Release: release, Agents: m.GetAgents()})
	if err != nil {
		return nil, err
	}
	return &registryv1.ShadowDiffResponse{
		Candidate: release.Candidate.Version.Number, Active: release.Active.Number,
		Calls: wire.FromShadowCalls(&found.Calls), Findings: wire.FromFindings(&found.Findings), Result: fromQueryResult(&found.Result),
	}, nil
}
