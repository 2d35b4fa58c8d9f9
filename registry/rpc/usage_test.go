package rpc_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
	"github.com/scriptorium-dev/scriptorium/script"
)

// used is the usage of each tenant in so many hours. It cannot be read of the tenant broken.
type used struct{ hours int }

func (u used) Read(_ context.Context, f usage.Filter) iter.Seq2[script.HourUsage, error] {
	return func(yield func(script.HourUsage, error) bool) {
		for i := range u.hours {
			one := script.HourUsage{Hour: saidAt.Add(time.Duration(i) * time.Hour), TenantUsage: script.TenantUsage{Tenant: f.Tenant, Usage: script.Usage{Calls: 3, ProcessorTime: time.Second}}}
			if f.Tenant == "" {
				one.Tenant = secret
			}
			if !yield(one, nil) {
				return
			}
		}
		if f.Tenant == "broken" {
			yield(script.HourUsage{}, script.Errorf(script.Unavailable, "", "etcd is away"))
		}
	}
}

func TestUsage(t *testing.T) {
	const hours = 2500
	b := newBench(t)
	for tenant, code := range map[string]codes.Code{"acme": codes.OK, "": codes.OK, "broken": codes.Unavailable, "No": codes.InvalidArgument} {
		stream, err := b.Usage(t.Context(), &registryv1.UsageRequest{Tenant: tenant})
		responses, seen := 0, 0
		for err == nil {
			var resp *registryv1.UsageResponse
			if resp, err = stream.Recv(); err == nil {
				responses, seen = responses+1, seen+len(resp.GetUsages())
			}
		}
		if code == codes.OK && (responses != 3 || seen != hours) {
			t.Errorf("%q: %d usages in %d responses, want %d in 3", tenant, seen, responses, hours)
		}
		if got := status.Code(err); code != codes.OK && got != code {
			t.Errorf("%q: %v, want %v", tenant, err, code)
		}
	}
	stream, err := b.Usage(t.Context(), &registryv1.UsageRequest{Tenant: "acme", Since: &timestamppb.Timestamp{Nanos: -1}})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no time: %v", fmt.Sprint(err))
	}
}
