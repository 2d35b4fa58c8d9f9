package rpc

import (
	"context"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *registryService) SetTenant(ctx context.Context, m *registryv1.SetTenantRequest) (*registryv1.SetTenantResponse, error) {
	settings, err := toTenantSettings(m.GetSettings())
	if err != nil {
		return nil, err
	}
	tenant, changed, err := s.registry.SetTenant(ctx, registry.SetTenant{
		Tenant:           m.GetTenant(),
		Settings:         settings,
		Author:           m.GetAuthor(),
		ExpectedRevision: script.Revision(m.GetExpectedRevision()),
		By:               access.FromContext(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.SetTenantResponse{Tenant: wire.FromTenant(tenant), Changed: changed}, nil
}

// toTenantSettings names the field as the registry does; nil stays nil.
func toTenantSettings(m *scriptv1.TenantSettings) (*script.TenantSettings, error) {
	if m == nil {
		return nil, nil
	}
	settings, err := wire.ToTenantSettings(m)
	if err != nil {
		return nil, within("settings", err)
	}
	return &settings, nil
}

func (s *registryService) GetTenant(ctx context.Context, m *registryv1.GetTenantRequest) (*registryv1.GetTenantResponse, error) {
	tenant, err := s.registry.Tenant(ctx, access.FromContext(ctx), m.GetTenant())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetTenantResponse{Tenant: wire.FromTenant(tenant)}, nil
}

func (s *registryService) ListTenants(ctx context.Context, m *registryv1.ListTenantsRequest) (*registryv1.ListTenantsResponse, error) {
	size, err := pageSize(m.GetPageSize())
	if err != nil {
		return nil, err
	}
	// One more says whether there is another page.
	tenants, unreadable, err := s.registry.Tenants(ctx, access.FromContext(ctx), m.GetPageToken(), size+1)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListTenantsResponse{}
	if len(tenants) > size {
		tenants = tenants[:size]
		resp.NextPageToken = tenants[size-1].Name
		unreadable = registry.UpTo(unreadable, script.Object{Tenant: &tenants[size-1]})
	}
	resp.Unreadable = fromUnreadable(unreadable)
	resp.Tenants = make([]*scriptv1.Tenant, len(tenants))
	for i, tenant := range tenants {
		resp.Tenants[i] = wire.FromTenant(tenant)
	}
	return resp, nil
}
