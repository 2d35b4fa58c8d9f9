package registryd_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// usage returns the calls of each tenant that the registry has on record.
func (c *client) usage(t *testing.T, tenant string) map[string]uint64 {
	t.Helper()
	stream, err := c.Usage(t.Context(), &registryv1.UsageRequest{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]uint64{}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return calls
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range resp.GetUsages() {
			calls[u.GetUsage().GetTenant()] += u.GetUsage().GetCalls()
		}
	}
}

// TestUsageOfTenants: what agents report is on record once, whichever replica leads, and of tenants alone that there are
// and that the agents follow.
func TestUsageOfTenants(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	d1, one := start(t, cfg)
	leads(t, d1)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	d2, two := start(t, other)
	one.publish(t, "route", "x")
	fleet, err := one.Status(t.Context(), &registryv1.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "shop", Author: "ann", Name: "cart", Source: []byte("y")}); err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, n.URL(), subjects(cfg))
	a.joins(t, one)
	sequence := uint64(0)
	status := func(usage uint64, repeated bool) *eventv1.Status {
		sequence++
		m := &eventv1.Status{
			Fleet: fleet.GetStatus().GetFleet(), Agent: "n1", Incarnation: "i", Sequence: sequence, Tenants: []string{"acme", "ghost"},
			Usage: &eventv1.Usage{Sequence: usage, Repeated: repeated, Covers: durationpb.New(time.Minute), Processors: 4},
		}
		for _, tenant := range []string{"acme", "shop", "ghost", "No Tenant"} {
			m.Usage.Tenants = append(m.Usage.Tenants, &eventv1.TenantUsage{Tenant: tenant, Calls: 10, ProcessorTime: durationpb.New(time.Second)})
		}
		return m
	}
	if err := a.sendIn(status(1, false), seal.Session{}); err != nil {
		t.Fatal(err)
	}
	reporting := func(d *client, want int32) bool {
		resp, err := d.Status(t.Context(), &registryv1.StatusRequest{})
		return err == nil && resp.GetStatus().GetConnected() == want
	}
	for i := range 3 {
		a.report(t, status(1, i > 0))
	}
	eventually(t, "the leader heard the agent", func() bool { return reporting(one, 1) })
	eventually(t, "the other replica, which may have begun to listen later, heard it", func() bool {
		a.report(t, status(1, true))
		return reporting(two, 1)
	})
	stop(t, d1) // which stores what it has counted
	if got := two.usage(t, ""); len(got) != 1 || got["acme"] != 10 {
		t.Errorf("on record are %v, want 10 calls of acme", got)
	}
	leads(t, d2)
	a.joins(t, two)
	a.report(t, status(1, true)) // the one before has counted it
	a.report(t, status(2, false))
	a.report(t, status(2, true))
	leaving := status(3, false)
	leaving.Leaving = true
	a.report(t, leaving)
	eventually(t, "the replica heard that it left", func() bool { return reporting(two, 0) })
	stop(t, d2)
	third := cfg
	third.Listen = []string{socket(dir(t))}
	_, three := start(t, third)
	if got := three.usage(t, "acme"); len(got) != 1 || got["acme"] != 30 {
		t.Errorf("on record are %v, want 30 calls of acme", got)
	}
	if got := three.usage(t, "shop"); len(got) != 0 {
		t.Errorf("on record are %v of a tenant that the agent does not follow", got)
	}
}
