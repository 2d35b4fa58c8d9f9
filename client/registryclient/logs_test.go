package registryclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

var loggedAt = time.Unix(1_800_000_000, 7).UTC()

// WatchLogs tells of the script named "endless" for ever, and of others a while.
func (f *fakeRegistry) WatchLogs(m *registryv1.WatchLogsRequest, stream grpc.ServerStreamingServer[registryv1.WatchLogsResponse]) error {
	if m.GetName() == "none" {
		return wire.ToStatus(script.Errorf(script.NotFound, "name", "there is no script"))
	}
	for _, resp := range []*registryv1.WatchLogsResponse{
		{State: registryv1.LogsState_LOGS_STATE_LISTENING},
		{Logs: &eventv1.Logs{Agent: "n1", Dropped: 2, Lines: []*eventv1.LogLine{{
			Time: timestamppb.New(loggedAt), Tenant: m.GetTenant(), Name: m.GetName(), Version: 7, Level: "warn", Message: "hello", TraceId: "t",
		}}}},
		{State: registryv1.LogsState_LOGS_STATE_INTERRUPTED},
	} {
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	if m.GetName() == "endless" {
		<-stream.Context().Done()
	}
	return nil
}

func TestWatchLogs(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	var got []registryclient.Logs
	var last error
	for logs, err := range c.WatchLogs(t.Context(), route) {
		if last = err; err == nil {
			got = append(got, logs)
		}
	}
	line := registryclient.LogLine{Time: loggedAt, Script: route, Version: 7, Level: "warn", Message: "hello", TraceID: "t"}
	want := []registryclient.Logs{
		{State: registryclient.LogsListening},
		{Agent: "n1", Dropped: 2, Lines: []registryclient.LogLine{line}},
		{State: registryclient.LogsInterrupted},
	}
	if !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if script.KindOf(last) != script.Unavailable {
		t.Errorf("ended in %v, want Unavailable", last)
	}
	for _, err := range c.WatchLogs(t.Context(), script.Name{Tenant: "acme", Script: "none"}) {
		if script.KindOf(err) != script.NotFound {
			t.Errorf("of nothing: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for logs, err := range c.WatchLogs(ctx, script.Name{Tenant: "acme", Script: "endless"}) {
		if logs.State == registryclient.LogsInterrupted {
			cancel()
		}
		last = err
	}
	if script.KindOf(last) != script.Timeout || !errors.Is(last, context.Canceled) {
		t.Errorf("when its context was done: %v", last)
	}
}
