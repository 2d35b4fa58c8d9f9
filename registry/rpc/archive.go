package rpc

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *registryService) Export(m *registryv1.ExportRequest, stream grpc.ServerStreamingServer[registryv1.ExportResponse]) error {
	ctx := stream.Context()
	for item, err := range s.registry.Export(ctx, registry.ExportRequest{By: access.FromContext(ctx), Tenant: m.GetTenant()}) {
		if err != nil {
			return err
		}
		if err := stream.Send(fromItem(item)); err != nil {
			return err
		}
	}
	return nil
}

func fromItem(item registry.Item) *registryv1.ExportResponse {
	switch {
	case item.Header != nil:
		return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Header{Header: &registryv1.ExportHeader{
			Fleet:        item.Header.Fleet,
			HeadRevision: int64(item.Header.Head),
			ExportedAt:   timestamppb.New(item.Header.ExportedAt),
			Tenant:       item.Header.Tenant,
		}}}
	case item.Source != nil:
		return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Source{Source: &scriptv1.Source{
			Digest: wire.FromDigest(item.Source.Digest), Content: item.Source.Content,
		}}}
	}
	if item.Value != nil {
		return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Value{Value: &registryv1.ValueRecord{
			Value: wire.FromValue(item.Value.Value), Content: item.Value.Content,
		}}}
	}
	if item.Tenant != nil {
		return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Tenant{Tenant: wire.FromTenant(*item.Tenant)}}
	}
	if item.Unreadable != nil {
		return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Unreadable{Unreadable: fromUnreadable([]registry.Unreadable{*item.Unreadable})[0]}}
	}
	m := &registryv1.ScriptRecord{Release: wire.FromRelease(item.Record.Release)}
	for _, v := range item.Record.Versions {
		m.Versions = append(m.Versions, wire.FromVersion(v))
	}
	for _, e := range item.Record.History {
		m.History = append(m.History, wire.FromHistoryEntry(e))
	}
	return &registryv1.ExportResponse{Item: &registryv1.ExportResponse_Script{Script: m}}
}

func (s *registryService) Doctor(m *registryv1.DoctorRequest, stream grpc.ServerStreamingServer[registryv1.DoctorResponse]) error {
	ctx := stream.Context()
	req := registry.DoctorRequest{
		By: access.FromContext(ctx), Tenant: m.GetTenant(), Script: m.GetName(), Repair: m.GetRepair(), FromAgents: m.GetFromAgents(), Author: m.GetAuthor(), Note: m.GetNote(),
	}
	for f, err := range s.registry.Doctor(ctx, req) {
		if err != nil {
			return err
		}
		if err := stream.Send(&registryv1.DoctorResponse{
			Key: f.Key, Revision: int64(f.Revision), Reason: f.Reason, Remedy: f.Remedy, Repairable: f.Repairable, Repaired: f.Repaired,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *registryService) AcceptLoss(ctx context.Context, m *registryv1.AcceptLossRequest) (*registryv1.AcceptLossResponse, error) {
	revision, err := s.registry.AcceptLoss(ctx, registry.AcceptLoss{
		By: access.FromContext(ctx), Objects: m.GetObjects(), Author: m.GetAuthor(), Note: m.GetNote(),
	})
	if err != nil {
		return nil, err
	}
	return &registryv1.AcceptLossResponse{Revision: int64(revision)}, nil
}

func (s *registryService) Import(stream grpc.ClientStreamingServer[registryv1.ImportRequest, registryv1.ImportResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	options := first.GetOptions()
	if options == nil {
		return script.Errorf(script.Invalid, "options", "must come first")
	}
	result, err := s.registry.Import(ctx, registry.ImportRequest{
		By:        access.FromContext(ctx),
		Author:    options.GetAuthor(),
		Note:      options.GetNote(),
		Overwrite: options.GetOverwrite(),
		DryRun:    options.GetDryRun(),
	}, received(stream))
	if err != nil {
		return err
	}
	return stream.SendAndClose(&registryv1.ImportResponse{
		Created:   int32(result.Created),
		Unchanged: int32(result.Unchanged),
		Replaced:  int32(result.Replaced),
		Values:    int32(result.Values),
		Tenants:   int32(result.Tenants),
	})
}

// received yields what the client sends until it is done.
func received(stream grpc.ClientStreamingServer[registryv1.ImportRequest, registryv1.ImportResponse]) iter.Seq2[registry.Item, error] {
	return func(yield func(registry.Item, error) bool) {
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return
			}
			var item registry.Item
			if err == nil {
				item, err = toItem(m)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func toItem(m *registryv1.ImportRequest) (registry.Item, error) {
	switch {
	case m.GetSource() != nil:
		digest, err := wire.ToDigest(m.GetSource().GetDigest())
		if err != nil {
			return registry.Item{}, err
		}
		return registry.Item{Source: &registry.Source{Digest: digest, Content: m.GetSource().GetContent()}}, nil
	case m.GetScript() != nil:
		record, err := toRecord(m.GetScript())
		return registry.Item{Record: record}, err
	case m.GetValue() != nil:
		value, err := wire.ToValue(m.GetValue().GetValue())
		if err == nil && value.Deleted {
			err = script.Errorf(script.Invalid, "value", "%s is a tombstone, which an archive has none of", value.Key)
		}
		return registry.Item{Value: &registry.ValueRecord{Value: value, Content: m.GetValue().GetContent()}}, err
	case m.GetTenant() != nil:
		tenant, err := wire.ToTenant(m.GetTenant())
		if err == nil && tenant.Deleted {
			err = script.Errorf(script.Invalid, "tenant", "%s is a tombstone, which an archive has none of", tenant.Name)
		}
		return registry.Item{Tenant: &tenant}, err
	case m.GetOptions() != nil:
		return registry.Item{}, script.Errorf(script.Invalid, "options", "came twice")
	}
	return registry.Item{}, script.Errorf(script.Invalid, "item", "is of a kind that this registry does not know: it is older than the archive")
}

func toRecord(m *registryv1.ScriptRecord) (*registry.Record, error) {
	release, err := wire.ToRelease(m.GetRelease())
	if err != nil {
		return nil, err
	}
	record := &registry.Record{Release: release}
	for _, mv := range m.GetVersions() {
		v, err := wire.ToVersion(mv)
		if err != nil {
			return nil, err
		}
		record.Versions = append(record.Versions, v)
	}
	for _, me := range m.GetHistory() {
		e, err := wire.ToHistoryEntry(me)
		if err != nil {
			return nil, err
		}
		record.History = append(record.History, e)
	}
	return record, nil
}
