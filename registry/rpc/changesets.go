package rpc

import (
	"cmp"
	"context"
	"slices"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *registryService) PublishChangeSet(ctx context.Context, m *registryv1.PublishChangeSetRequest) (*registryv1.PublishChangeSetResponse, error) {
	req, err := toChangeSetRequest(ctx, m)
	if err != nil {
		return nil, err
	}
	result, err := s.registry.PublishChangeSet(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.PublishChangeSetResponse{
		ChangeSet: fromChangeSet(result.Set), Releases: fromReleases(result.Releases), Changed: result.Changed,
	}
	if result.Changed {
		resp.Warnings = s.unmet(ctx, req.By.Subject, result)
	}
	return resp, nil
}

// unmet says what the plan of the change set lacks, once for all its scripts.
func (s *registryService) unmet(ctx context.Context, caller string, result registry.ChangeSetResult) (warnings []string) {
	for _, r := range result.Releases {
		more, err := s.fleet.Unmet(ctx, caller, r.Name, result.Set.Plan)
		if err != nil {
			return nil // it is published all the same
		}
		for _, warning := range more {
			if !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
	}
	return warnings
}

func toChangeSetRequest(ctx context.Context, m *registryv1.PublishChangeSetRequest) (registry.ChangeSetRequest, error) {
	req := registry.ChangeSetRequest{
		Tenant: m.GetTenant(),
		Name:   m.GetName(),
		Author: m.GetAuthor(),
		Note:   m.GetNote(),
		By:     access.FromContext(ctx),
		Owner:  m.GetOwner(),
		Force:  m.GetForce(),
		DryRun: m.GetDryRun(),

		LiftHold: m.GetLiftHold(),
	}
	for _, p := range m.GetScripts() {
		name := script.Name{Tenant: cmp.Or(p.GetTenant(), m.GetTenant()), Script: p.GetName()}
		publish, err := toPublish(p)
		if err != nil {
			e := *script.AsError(err)
			e.Message = name.String() + ": " + e.Message // as the registry says of which script it is
			return registry.ChangeSetRequest{}, &e
		}
		publish.Name = name
		req.Scripts = append(req.Scripts, publish)
	}
	for _, v := range m.GetValues() {
		req.Values = append(req.Values, registry.StagedContent{Key: v.GetKey(), Content: v.GetContent()})
	}
	if m.GetPlan() != nil {
		plan, err := wire.ToPlan(m.GetPlan())
		if err != nil {
			return registry.ChangeSetRequest{}, within("plan", err)
		}
		req.Plan = &plan
	}
	return req, nil
}

func (s *registryService) RollbackChangeSet(ctx context.Context, m *registryv1.RollbackChangeSetRequest) (*registryv1.RollbackChangeSetResponse, error) {
	result, err := s.registry.RollbackChangeSet(ctx, registry.ChangeSetRollback{
		Tenant: m.GetTenant(),
		Name:   m.GetName(),
		Author: m.GetAuthor(),
		Note:   m.GetNote(),
		By:     access.FromContext(ctx),
		Owner:  m.GetOwner(),
		Force:  m.GetForce(),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.RollbackChangeSetResponse{
		ChangeSet: fromChangeSet(result.Set), Releases: fromReleases(result.Releases), Changed: result.Changed,
	}, nil
}

func (s *registryService) GetChangeSet(ctx context.Context, m *registryv1.GetChangeSetRequest) (*registryv1.GetChangeSetResponse, error) {
	set, err := s.registry.ChangeSet(ctx, access.FromContext(ctx), m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetChangeSetResponse{ChangeSet: fromChangeSet(set)}, nil
}

func (s *registryService) ListChangeSets(ctx context.Context, m *registryv1.ListChangeSetsRequest) (*registryv1.ListChangeSetsResponse, error) {
	sets, unreadable, err := s.registry.ChangeSets(ctx, access.FromContext(ctx), m.GetTenant())
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListChangeSetsResponse{Unreadable: unreadable}
	for _, set := range sets {
		resp.ChangeSets = append(resp.ChangeSets, fromChangeSet(set))
	}
	return resp, nil
}

// fromChangeSet returns the message for the change set; nil for the zero one.
func fromChangeSet(set script.ChangeSet) *scriptv1.ChangeSet {
	if set.Name == "" {
		return nil
	}
	return wire.FromChangeSet(set)
}

func fromReleases(releases []script.Release) []*scriptv1.Release {
	messages := make([]*scriptv1.Release, len(releases))
	for i, r := range releases {
		messages[i] = wire.WithoutSources(wire.FromRelease(r))
	}
	return messages
}
