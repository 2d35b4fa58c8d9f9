package rpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
)

// forever is the period of queries that nobody answers, and askedForever has an element for each.
const forever = 10 * time.Second

var askedForever = make(chan struct{}, 1)

func askTop(ctx context.Context, q *eventv1.TopQuery) (query.Result, error) {
	if q.GetPeriod().AsDuration() != forever {
		return query.Result{}, nil
	}
	askedForever <- struct{}{}
	<-ctx.Done()
	return query.Result{}, ctx.Err()
}

func TestTopOfNothing(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		req  *registryv1.TopRequest
		code codes.Code
	}{
		{&registryv1.TopRequest{Name: "route"}, codes.InvalidArgument},
		{&registryv1.TopRequest{Tenant: "No"}, codes.InvalidArgument},
		{&registryv1.TopRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.TopRequest{Tenant: "acme", Sort: "name"}, codes.InvalidArgument},
		{&registryv1.TopRequest{Tenant: "acme", Limit: -1}, codes.InvalidArgument},
		{&registryv1.TopRequest{Tenant: "acme", Period: durationpb.New(-1)}, codes.InvalidArgument},
	} {
		if _, err := b.Top(t.Context(), test.req); status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.req, err, test.code)
		}
	}
}

// TestTopWhileDraining: draining ends a request, and does not wait for agents.
func TestTopWhileDraining(t *testing.T) {
	b := newBench(t)
	failed := make(chan error, 1)
	go func() {
		_, err := b.Top(t.Context(), &registryv1.TopRequest{Tenant: "acme", Period: durationpb.New(forever)})
		failed <- err
	}()
	<-askedForever
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if err := <-failed; status.Code(err) != codes.Unavailable || ctx.Err() != nil {
		t.Errorf("%v; draining ended with %v", err, ctx.Err())
	}
}
