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

func (s *registryService) PutValue(ctx context.Context, m *registryv1.PutValueRequest) (*registryv1.PutValueResponse, error) {
	value, changed, err := s.registry.PutValue(ctx, registry.PutValue{
		Key:              script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()},
		Content:          m.GetContent(),
		Author:           m.GetAuthor(),
		Note:             m.GetNote(),
		ExpectedRevision: script.Revision(m.GetExpectedRevision()),
		By:               access.FromContext(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.PutValueResponse{Value: wire.FromValue(value), Changed: changed}, nil
}

func (s *registryService) RollbackValue(ctx context.Context, m *registryv1.RollbackValueRequest) (*registryv1.RollbackValueResponse, error) {
	value, changed, err := s.registry.RollbackValue(ctx, registry.RollbackValue{
		Key:              script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()},
		Version:          m.GetVersion(),
		Author:           m.GetAuthor(),
		Note:             m.GetNote(),
		ExpectedRevision: script.Revision(m.GetExpectedRevision()),
		By:               access.FromContext(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.RollbackValueResponse{Value: wire.FromValue(value), Changed: changed}, nil
}

func (s *registryService) GetValueHistory(ctx context.Context, m *registryv1.GetValueHistoryRequest) (*registryv1.GetValueHistoryResponse, error) {
	history, err := s.registry.ValueHistory(ctx, access.FromContext(ctx), script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()})
	if err != nil {
		return nil, err
	}
	return &registryv1.GetValueHistoryResponse{History: wire.FromValueHistory(history)}, nil
}

func (s *registryService) GetValue(ctx context.Context, m *registryv1.GetValueRequest) (*registryv1.GetValueResponse, error) {
	key := script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()}
	value, content, err := s.registry.Value(ctx, access.FromContext(ctx), key, m.GetVersion())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetValueResponse{Value: wire.FromValue(value), Content: content}, nil
}

func (s *registryService) ListValues(ctx context.Context, m *registryv1.ListValuesRequest) (*registryv1.ListValuesResponse, error) {
	size, err := pageSize(m.GetPageSize())
	if err != nil {
		return nil, err
	}
	// One more says whether there is another page.
	page, err := s.registry.Values(ctx, access.FromContext(ctx), m.GetTenant(), m.GetPrefix(), m.GetPageToken(), size+1)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListValuesResponse{UsedBytes: page.Used, QuotaBytes: page.Quota}
	values := page.Values
	if len(values) > size {
		values = values[:size]
		resp.NextPageToken = values[size-1].Key.Key
		page.Unreadable = registry.UpTo(page.Unreadable, script.Object{Value: &values[size-1]})
	}
	resp.Unreadable = fromUnreadable(page.Unreadable)
	resp.Values = make([]*scriptv1.Value, len(values))
	for i, value := range values {
		resp.Values[i] = wire.FromValue(value)
	}
	return resp, nil
}

func (s *registryService) DeleteValue(ctx context.Context, m *registryv1.DeleteValueRequest) (*registryv1.DeleteValueResponse, error) {
	tombstone, err := s.registry.DeleteValue(ctx, registry.DeleteValue{
		Key:              script.ValueKey{Tenant: m.GetTenant(), Key: m.GetKey()},
		Author:           m.GetAuthor(),
		Note:             m.GetNote(),
		ExpectedRevision: script.Revision(m.GetExpectedRevision()),
		By:               access.FromContext(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.DeleteValueResponse{Value: wire.FromValue(tombstone)}, nil
}
