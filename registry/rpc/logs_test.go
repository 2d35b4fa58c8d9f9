package rpc_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// talkative are logs of scripts that say one thing each and then nothing.
type talkative struct{}

var saidAt = time.Unix(1_800_000_000, 5).UTC()

func (talkative) Watch(ctx context.Context, of script.Name) iter.Seq2[fleet.Logs, error] {
	return func(yield func(fleet.Logs, error) bool) {
		if of.Tenant == choir {
			sing(of, yield)
			return
		}
		if of.Script == "crowded" {
			yield(fleet.Logs{}, script.Errorf(script.Limit, "", "too many"))
			return
		}
		line := fleet.LogLine{Time: saidAt, Script: of, Version: 7, Level: "warn", Message: secret, TraceID: "t"}
		for _, logs := range []fleet.Logs{
			{Agent: "n1", Lines: []fleet.LogLine{line, line}, Dropped: 3},
			{State: fleet.LogsInterrupted},
			{State: fleet.LogsListening},
			{Dropped: 4},
		} {
			if !yield(logs, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func TestWatchLogs(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	stream, err := b.WatchLogs(t.Context(), &registryv1.WatchLogsRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	line := &eventv1.LogLine{
		Time: timestamppb.New(saidAt), Tenant: "acme", Name: "route", Version: 7, Level: "warn", Message: secret, TraceId: "t",
	}
	for _, want := range []*registryv1.WatchLogsResponse{
		{Logs: &eventv1.Logs{Agent: "n1", Dropped: 3, Lines: []*eventv1.LogLine{line, line}}},
		{State: registryv1.LogsState_LOGS_STATE_INTERRUPTED},
		{State: registryv1.LogsState_LOGS_STATE_LISTENING},
		{Logs: &eventv1.Logs{Dropped: 4}},
	} {
		if got, err := stream.Recv(); err != nil || !proto.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
	// Draining ends the watch, and does not wait for it.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("draining waited for a watch")
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v, want Unavailable", err)
	}
}

func TestWatchLogsOfNothing(t *testing.T) {
	b := newBench(t)
	b.publish(t, "crowded", "one")
	for _, test := range []struct {
		req   *registryv1.WatchLogsRequest
		code  codes.Code
		field string
	}{
		{&registryv1.WatchLogsRequest{}, codes.InvalidArgument, "tenant"},
		{&registryv1.WatchLogsRequest{Name: "route"}, codes.InvalidArgument, "tenant"},
		{&registryv1.WatchLogsRequest{Tenant: "acme", Name: "Route"}, codes.InvalidArgument, "name"},
		{&registryv1.WatchLogsRequest{Tenant: "acme", Name: "never"}, codes.NotFound, "name"},
		{&registryv1.WatchLogsRequest{Tenant: "acme", Name: "crowded"}, codes.ResourceExhausted, ""},
	} {
		stream, err := b.WatchLogs(t.Context(), test.req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != test.code || detail(t, err).GetField() != test.field {
			t.Errorf("%v: %v, want %v at %q", test.req, err, test.code, test.field)
		}
	}
}
