package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

func TestRecentCalls(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	resp, err := b.RecentCalls(t.Context(), &registryv1.RecentCallsRequest{Tenant: "acme", Name: "route"})
	if err != nil || len(resp.GetCalls()) != 1 || resp.GetResult().GetAnswered() != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	if c := resp.GetCalls()[0]; c.GetAgent() != "n1" || c.GetVersion() != 7 || c.GetTime() == nil || !strings.Contains(string(c.GetRecord()), `"script":"route"`) {
		t.Errorf("%v", c)
	}
	for _, test := range []struct {
		m    *registryv1.RecentCallsRequest
		code codes.Code
	}{
		{&registryv1.RecentCallsRequest{Tenant: "acme"}, codes.InvalidArgument},
		{&registryv1.RecentCallsRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.RecentCallsRequest{Tenant: "acme", Name: "route", Limit: 101}, codes.InvalidArgument},
	} {
		if _, err := b.RecentCalls(t.Context(), test.m); status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.m, err, test.code)
		}
	}
}
