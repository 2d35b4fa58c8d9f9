package rpc

import (
	"context"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/recentlogs"
	"github.com/scriptorium-dev/scriptorium/registry/top"
	"github.com/scriptorium-dev/scriptorium/registry/turns"
	"github.com/scriptorium-dev/scriptorium/script"
)

type registryService struct {
	registryv1.UnimplementedRegistryServer
	registry *registry.Registry
	fleet    *fleet.Fleet
	logs     Logs
	asker    recentlogs.Asker
	tries    *turns.Turns
	timeline Timeline
	usage    Usage
	top      *top.Reader                 // nil if asker is
	about    func(context.Context) About // nil if not known
	draining <-chan struct{}
}

// writeRequest is what the requests of all writes have in common.
type writeRequest interface {
	GetTenant() string
	GetName() string
	GetAuthor() string
	GetNote() string
	GetExpectedRevision() int64
	GetOwner() string
	GetForce() bool
	GetRequestId() string
}

func toWrite(ctx context.Context, m writeRequest) registry.Write {
	return registry.Write{
		Name:             script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
		Author:           m.GetAuthor(),
		Note:             m.GetNote(),
		ExpectedRevision: script.Revision(m.GetExpectedRevision()),
		By:               access.FromContext(ctx),
		Owner:            m.GetOwner(),
		Force:            m.GetForce(),
		RequestID:        m.GetRequestId(),
	}
}

func (s *registryService) Publish(ctx context.Context, m *registryv1.PublishRequest) (*registryv1.PublishResponse, error) {
	req, err := toPublish(m)
	if err != nil {
		return nil, err
	}
	req.Write = toWrite(ctx, m)
	result, err := s.registry.Publish(ctx, req)
	if err != nil {
		return nil, err
	}
	warnings, err := s.fleet.Unmet(ctx, req.By.Subject, req.Name, result.Release.Settings.Rollout)
	if err != nil {
		warnings = nil // it is published all the same
	}
	libraries := wire.FromLibraries(result.Libraries)
	for _, l := range libraries {
		l.Source = ""
	}
	return &registryv1.PublishResponse{
		Release:  wire.WithoutSources(wire.FromRelease(result.Release)),
		Version:  wire.FromVersion(result.Version),
		Changed:  result.Changed,
		Warnings: warnings,

		Libraries: libraries,
	}, nil
}

// toPublish returns what is published, without who does so, and why.
func toPublish(m *registryv1.PublishRequest) (registry.PublishRequest, error) {
	req := registry.PublishRequest{
		Source:     m.GetSource(),
		Engine:     m.GetEngine(),
		Entrypoint: registry.DefaultEntrypoint,
		Enabled:    m.Enabled,
		Pin:        m.Pin,
		DryRun:     m.GetDryRun(),
		Signature:  m.GetSignature(),
		LiftHold:   m.GetLiftHold(),
	}
	if m.Entrypoint != nil {
		req.Entrypoint = m.GetEntrypoint()
	}
	if m.GetSettings() != nil {
		settings, err := toSettings(m.GetSettings())
		if err != nil {
			return registry.PublishRequest{}, err
		}
		req.Settings = &settings
	}
	return req, nil
}

func (s *registryService) Pin(ctx context.Context, m *registryv1.PinRequest) (*registryv1.PinResponse, error) {
	result, err := s.registry.Pin(ctx, registry.PinRequest{Write: toWrite(ctx, m), Version: m.GetVersion()})
	if err != nil {
		return nil, err
	}
	return &registryv1.PinResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func (s *registryService) LiftHold(ctx context.Context, m *registryv1.LiftHoldRequest) (*registryv1.LiftHoldResponse, error) {
	result, err := s.registry.LiftHold(ctx, registry.LiftHoldRequest{Write: toWrite(ctx, m)})
	if err != nil {
		return nil, err
	}
	return &registryv1.LiftHoldResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

// Unpin implements registryv1.RegistryServer, for clients that know no LiftHold: their Pin and
// Rollback hold, too.
func (s *registryService) Unpin(ctx context.Context, m *registryv1.UnpinRequest) (*registryv1.UnpinResponse, error) {
	result, err := s.registry.LiftHold(ctx, registry.LiftHoldRequest{Write: toWrite(ctx, m)})
	if err != nil {
		return nil, err
	}
	return &registryv1.UnpinResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func (s *registryService) Rollback(ctx context.Context, m *registryv1.RollbackRequest) (*registryv1.RollbackResponse, error) {
	result, err := s.registry.Rollback(ctx, registry.RollbackRequest{Write: toWrite(ctx, m), Version: m.GetVersion()})
	if err != nil {
		return nil, err
	}
	return &registryv1.RollbackResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func (s *registryService) SetEnabled(ctx context.Context, m *registryv1.SetEnabledRequest) (*registryv1.SetEnabledResponse, error) {
	result, err := s.registry.SetEnabled(ctx, registry.SetEnabledRequest{Write: toWrite(ctx, m), Enabled: m.GetEnabled()})
	if err != nil {
		return nil, err
	}
	return &registryv1.SetEnabledResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func (s *registryService) Delete(ctx context.Context, m *registryv1.DeleteRequest) (*registryv1.DeleteResponse, error) {
	result, err := s.registry.Delete(ctx, registry.DeleteRequest{Write: toWrite(ctx, m)})
	if err != nil {
		return nil, err
	}
	return &registryv1.DeleteResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release))}, nil
}

func (s *registryService) SetOwner(ctx context.Context, m *registryv1.SetOwnerRequest) (*registryv1.SetOwnerResponse, error) {
	result, err := s.registry.SetOwner(ctx, registry.SetOwnerRequest{Write: toWrite(ctx, m), NewOwner: m.GetNewOwner()})
	if err != nil {
		return nil, err
	}
	return &registryv1.SetOwnerResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func (s *registryService) Steer(ctx context.Context, m *registryv1.SteerRequest) (*registryv1.SteerResponse, error) {
	steering, err := toSteering(m.GetSteering())
	if err != nil {
		return nil, err
	}
	result, err := s.registry.Steer(ctx, registry.SteerRequest{Write: toWrite(ctx, m), Steering: steering, Version: m.GetVersion(), Step: int(m.GetStep())})
	if err != nil {
		return nil, err
	}
	return &registryv1.SteerResponse{Release: wire.WithoutSources(wire.FromRelease(result.Release)), Changed: result.Changed}, nil
}

func toSteering(s registryv1.Steering) (registry.Steering, error) {
	switch s {
	case registryv1.Steering_STEERING_PROMOTE:
		return registry.Promote, nil
	case registryv1.Steering_STEERING_ABORT:
		return registry.Abort, nil
	case registryv1.Steering_STEERING_RETRY:
		return registry.Retry, nil
	case registryv1.Steering_STEERING_APPROVE:
		return registry.Approve, nil
	}
	return "", script.Errorf(script.Invalid, "steering", "%d is none that this registry knows: want a promotion, an abort, a retry or an approval", s)
}

func (s *registryService) Get(ctx context.Context, m *registryv1.GetRequest) (*registryv1.GetResponse, error) {
	release, err := s.registry.Get(ctx, access.FromContext(ctx), script.Name{Tenant: m.GetTenant(), Script: m.GetName()})
	if err != nil {
		return nil, err
	}
	return &registryv1.GetResponse{Release: wire.WithoutSources(wire.FromRelease(release))}, nil
}

func (s *registryService) List(ctx context.Context, m *registryv1.ListRequest) (*registryv1.ListResponse, error) {
	result, err := s.registry.List(ctx, registry.ListRequest{
		By:        access.FromContext(ctx),
		Tenant:    m.GetTenant(),
		PageSize:  int(m.GetPageSize()),
		PageToken: m.GetPageToken(),
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListResponse{NextPageToken: result.NextPageToken, Unreadable: fromUnreadable(result.Unreadable)}
	for _, release := range result.Releases {
		resp.Releases = append(resp.Releases, wire.WithoutSources(wire.FromRelease(release)))
	}
	return resp, nil
}

func fromUnreadable(unreadable []registry.Unreadable) []*registryv1.Unreadable {
	messages := make([]*registryv1.Unreadable, len(unreadable))
	for i := range unreadable {
		messages[i] = &registryv1.Unreadable{Key: unreadable[i].Key, Revision: int64(unreadable[i].Revision), Reason: unreadable[i].Reason}
	}
	return messages
}

func (s *registryService) GetSource(ctx context.Context, m *registryv1.GetSourceRequest) (*registryv1.GetSourceResponse, error) {
	e, err := s.registry.Source(ctx, access.FromContext(ctx), script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, m.GetVersion())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetSourceResponse{
		Version: wire.FromVersion(e.Version), Source: e.Source, Settings: wire.FromSettings(script.Settings{Spec: e.Spec}),
	}, nil
}

func (s *registryService) History(ctx context.Context, m *registryv1.HistoryRequest) (*registryv1.HistoryResponse, error) {
	entries, err := s.registry.History(ctx, access.FromContext(ctx), script.Name{Tenant: m.GetTenant(), Script: m.GetName()})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.HistoryResponse{}
	for _, entry := range entries {
		resp.Entries = append(resp.Entries, wire.FromHistoryEntry(entry))
	}
	return resp, nil
}

func (s *registryService) Audit(ctx context.Context, m *registryv1.AuditRequest) (*registryv1.AuditResponse, error) {
	req := registry.AuditRequest{
		By:          access.FromContext(ctx),
		AuditFilter: registry.AuditFilter{Tenant: m.GetTenant(), Script: m.GetName()},
		PageSize:    int(m.GetPageSize()),
		PageToken:   m.GetPageToken(),
	}
	if m.GetSince() != nil {
		if err := m.GetSince().CheckValid(); err != nil {
			return nil, script.Errorf(script.Invalid, "since", "is no time: %w", err)
		}
		req.Since = m.GetSince().AsTime()
	}
	result, err := s.registry.Audit(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.AuditResponse{NextPageToken: result.NextPageToken}
	for _, entry := range result.Entries {
		resp.Entries = append(resp.Entries, wire.FromAuditEntry(entry))
	}
	return resp, nil
}

// toSettings names the field as the registry does.
func toSettings(m *scriptv1.Settings) (script.Settings, error) {
	settings, err := wire.ToSettings(m)
	if err != nil {
		return script.Settings{}, within("settings", err)
	}
	return settings, nil
}

// within returns err with its field as one of the message in the field.
func within(field string, err error) error {
	named := *script.AsError(err)
	named.Field = field + "." + named.Field
	return &named
}
