package rpc

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Usage is what calls of tenants used.
type Usage interface {
	// Read yields it hour by hour, and in each hour in the order of the tenants. An error ends it.
	Read(ctx context.Context, f usage.Filter) iter.Seq2[script.HourUsage, error]
}

// usagesTogether go in one response.
const usagesTogether = 1000

// Usage is for those that may read the tenant. Of all tenants it is what bills are made of, which is the
// administrator's.
func (s *registryService) Usage(m *registryv1.UsageRequest, stream grpc.ServerStreamingServer[registryv1.UsageResponse]) error {
	filter, err := toUsageFilter(access.FromContext(stream.Context()), m)
	if err != nil {
		return err
	}
	if s.usage == nil {
		return script.Errorf(script.Unavailable, "", "this registry keeps no usage of tenants")
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	resp := &registryv1.UsageResponse{}
	for u, err := range s.usage.Read(ctx, filter) {
		if err != nil {
			return err
		}
		resp.Usages = append(resp.Usages, &registryv1.HourUsage{Hour: timestamppb.New(u.Hour), Usage: wire.FromTenantUsage(u.TenantUsage)})
		if len(resp.GetUsages()) < usagesTogether {
			continue
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
		resp = &registryv1.UsageResponse{}
	}
	if len(resp.GetUsages()) == 0 {
		return nil
	}
	return stream.Send(resp)
}

func toUsageFilter(who access.Identity, m *registryv1.UsageRequest) (f usage.Filter, err error) {
	if f.Tenant = m.GetTenant(); f.Tenant == "" {
		err = who.CheckAll(access.Admin, script.Selector{})
	} else if err = script.ValidateLabel("tenant", f.Tenant); err == nil {
		err = who.Check(access.Read, f.Tenant)
	}
	if err != nil {
		return f, err
	}
	for field, one := range map[string]struct {
		from *timestamppb.Timestamp
		to   *time.Time
	}{"since": {m.GetSince(), &f.Since}, "until": {m.GetUntil(), &f.Until}} {
		if one.from == nil {
			continue
		}
		if err := one.from.CheckValid(); err != nil {
			return f, script.Errorf(script.Invalid, field, "is not a time: %w", err)
		}
		*one.to = one.from.AsTime()
	}
	return f, nil
}
