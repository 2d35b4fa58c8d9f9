package registryclient

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// UsageFilter says which usage.
type UsageFilter struct {
	Tenant string // all tenants if empty, which needs the role admin
	// Since and Until are in the first hour and in the one after the last; the zero Times: all that is kept.
	Since, Until time.Time
}

// Usage yields what calls of tenants used on the fleet, hour by hour, and in each hour in the order of the tenants. The
// last half minute may be missing. An error ends the sequence.
func (c *Client) Usage(ctx context.Context, f UsageFilter) iter.Seq2[script.HourUsage, error] {
	return func(yield func(script.HourUsage, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		req := &registryv1.UsageRequest{Tenant: f.Tenant}
		if !f.Since.IsZero() {
			req.Since = timestamppb.New(f.Since)
		}
		if !f.Until.IsZero() {
			req.Until = timestamppb.New(f.Until)
		}
		stream, err := c.registry.Usage(ctx, req)
		for err == nil {
			var resp *registryv1.UsageResponse
			if resp, err = stream.Recv(); err != nil {
				break
			}
			for _, m := range resp.GetUsages() {
				u, err := wire.ToTenantUsage(m.GetUsage())
				if err != nil {
					yield(script.HourUsage{}, malformed(err))
					return
				}
				if !yield(script.HourUsage{Hour: m.GetHour().AsTime(), TenantUsage: u}, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(script.HourUsage{}, c.fault(ctx, err))
		}
	}
}
