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

func (s *registryService) Freeze(ctx context.Context, m *registryv1.FreezeRequest) (*registryv1.FreezeResponse, error) {
	if lasts := m.GetLasts(); lasts != nil {
		if err := lasts.CheckValid(); err != nil {
			return nil, script.Errorf(script.Invalid, "for", "is no duration: %w", err)
		}
	}
	freeze, err := s.registry.Freeze(ctx, registry.FreezeRequest{
		By: access.FromContext(ctx), Author: m.GetAuthor(), Note: m.GetNote(), Lasts: m.GetLasts().AsDuration(), Except: m.GetExcept(),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.FreezeResponse{Freeze: wire.FromFreeze(freeze)}, nil
}

func (s *registryService) Thaw(ctx context.Context, m *registryv1.ThawRequest) (*registryv1.ThawResponse, error) {
	changed, err := s.registry.Thaw(ctx, access.FromContext(ctx), m.GetAuthor(), m.GetNote())
	if err != nil {
		return nil, err
	}
	return &registryv1.ThawResponse{Changed: changed}, nil
}

// fromFreeze converts the freeze; nil for none. Exceptions name tenants, so only an administrator
// of all tenants gets them.
func fromFreeze(who access.Identity, f *script.Freeze) *scriptv1.Freeze {
	if f == nil {
		return nil
	}
	told := *f
	if !who.AllowsAll(access.Admin, script.Selector{}) {
		told.Except = nil
	}
	return wire.FromFreeze(told)
}
