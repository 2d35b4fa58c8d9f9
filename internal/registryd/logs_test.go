package registryd_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

type logStream = grpc.ServerStreamingClient[registryv1.WatchLogsResponse]

// listen reads along until ctx is done, and returns once the registry listens.
func (c *client) listen(ctx context.Context, t *testing.T, tenant, name string) logStream {
	t.Helper()
	stream, err := c.WatchLogs(ctx, &registryv1.WatchLogsRequest{Tenant: tenant, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetState() != registryv1.LogsState_LOGS_STATE_LISTENING {
		t.Fatalf("%v, %v, want it to listen", first, err)
	}
	return stream
}

// TestLogsOfAnyReplica: who reads along at whichever replica hears every agent, and only
// as long as somebody reads is anybody asked.
func TestLogsOfAnyReplica(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	d1, one := start(t, cfg)
	leads(t, d1)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	_, two := start(t, other)
	fleet, err := one.Status(t.Context(), &registryv1.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	one.publish(t, "route", "x")
	a := newAgent(t, n.URL(), subjects(cfg))
	tails, err := a.nc.SubscribeSync(subjects(cfg).Tail())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	leave, cancelFirst := context.WithCancel(ctx)
	defer cancelFirst()
	leader, follower := one.listen(leave, t, "acme", "route"), two.listen(ctx, t, "acme", "")
	for range 2 {
		msg, err := tails.NextMsg(patience)
		var m eventv1.Tail
		if err == nil {
			_, err = seal.TrustEverything().Open(msg.Data, &m)
		}
		if err != nil || m.GetFleet() != fleet.GetStatus().GetFleet() || m.GetTenant() != "acme" {
			t.Fatalf("tail %v, %v", &m, err)
		}
	}
	say := func(message string) {
		t.Helper()
		data, err := seal.SealLogs(&eventv1.Logs{Fleet: fleet.GetStatus().GetFleet(), Agent: "n1", Lines: []*eventv1.LogLine{
			{Time: timestamppb.Now(), Tenant: "acme", Name: "route", Version: 1, Level: "info", Message: message},
		}})
		if err == nil {
			err = a.nc.Publish(subjects(cfg).Logs("n1"), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	heard := func(stream logStream, want string) {
		t.Helper()
		got, err := stream.Recv()
		if err != nil || got.GetLogs().GetAgent() != "n1" || len(got.GetLogs().GetLines()) != 1 || got.GetLogs().GetLines()[0].GetMessage() != want {
			t.Fatalf("%v, %v, want %q", got, err, want)
		}
	}
	say("one")
	heard(leader, "one")
	heard(follower, "one")
	// One reader goes, the other one's replica has nothing to do with that.
	cancelFirst()
	if _, err := leader.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("the reader that went: %v", err)
	}
	say("two")
	heard(follower, "two")
	stop(t, d1)
	say("three")
	heard(follower, "three")
	cancel()
	eventually(t, "agents are not asked any more, as nobody reads", func() bool {
		_, err := tails.NextMsg(6 * time.Second)
		return err != nil
	})
}

// TestLogsWithoutNATS: a registry without NATS says so to who reads along, and serves on.
func TestLogsWithoutNATS(t *testing.T) {
	_, c := start(t, config(t, "nats://127.0.0.1:1"))
	stream, err := c.WatchLogs(t.Context(), &registryv1.WatchLogsRequest{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.GetState() != registryv1.LogsState_LOGS_STATE_INTERRUPTED {
		t.Errorf("%v, %v, want the state INTERRUPTED", first, err)
	}
	_, err = c.PutValue(t.Context(), &registryv1.PutValueRequest{Tenant: "acme", Key: "k", Content: []byte("x"), Author: "ann"})
	if script.KindOf(err) != "" {
		t.Errorf("a write: %v", err)
	}
}
