package rpc_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

type statusStream = grpc.ServerStreamingClient[registryv1.WatchStatusResponse]

// until takes responses in until one is as wanted, and returns all of them.
func until(t *testing.T, stream statusStream, wanted func(*registryv1.WatchStatusResponse) bool) (all []*registryv1.WatchStatusResponse) {
	t.Helper()
	for {
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, resp)
		if wanted(resp) {
			return all
		}
	}
}

func statusOf(resp *registryv1.WatchStatusResponse, name string) *registryv1.ScriptStatus {
	i := slices.IndexFunc(resp.GetStatus().GetScripts(), func(s *registryv1.ScriptStatus) bool { return s.GetRelease().GetName() == name })
	if i < 0 {
		return nil
	}
	return resp.GetStatus().GetScripts()[i]
}

// TestWatchChanges: all scripts come once, and then those alone that changed, so that a
// change costs a watch the same however many scripts there are.
func TestWatchChanges(t *testing.T) {
	cost := map[int]int{}
	for _, scripts := range []int{10, 400} {
		b := newBench(t)
		var head int64
		for i := range scripts {
			head = b.publish(t, fmt.Sprintf("s%03d", i), "one").GetRelease().GetRevision()
		}
		b.hear(t, "a", head)
		stream, err := b.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme", Changes: true})
		if err != nil {
			t.Fatal(err)
		}
		first := until(t, stream, func(*registryv1.WatchStatusResponse) bool { return true })[0]
		if first.GetChanges() || len(first.GetStatus().GetScripts()) != scripts {
			t.Fatalf("of %d scripts the first response has %d", scripts, len(first.GetStatus().GetScripts()))
		}

		head = b.publish(t, "s000", "two").GetRelease().GetRevision()
		until(t, stream, func(r *registryv1.WatchStatusResponse) bool {
			return statusOf(r, "s000").GetRelease().GetRevision() == head
		})
		b.hear(t, "a", head)
		for _, resp := range until(t, stream, func(r *registryv1.WatchStatusResponse) bool { return statusOf(r, "s000").GetConverged() }) {
			if n := len(resp.GetStatus().GetScripts()); !resp.GetChanges() || n > 1 {
				t.Errorf("one of %d scripts has changed, and %d were sent", scripts, n)
			}
			cost[scripts] = max(cost[scripts], proto.Size(resp))
		}

		if _, err := b.Delete(t.Context(), &registryv1.DeleteRequest{Tenant: "acme", Name: "s001", Author: "ann"}); err != nil {
			t.Fatal(err)
		}
		all := until(t, stream, func(r *registryv1.WatchStatusResponse) bool { return len(r.GetGone()) > 0 })
		if last := all[len(all)-1]; !slices.Equal(last.GetGone(), []string{"acme/s001"}) || len(last.GetStatus().GetScripts()) != 0 {
			t.Errorf("after a deletion: %v", last)
		}
		b.publish(t, "s001", "again")
		until(t, stream, func(r *registryv1.WatchStatusResponse) bool {
			return statusOf(r, "s001") != nil && len(r.GetGone()) == 0
		})

		// An agent that joins changes all of them.
		b.hear(t, "b", 0)
		seen := map[string]bool{}
		until(t, stream, func(r *registryv1.WatchStatusResponse) bool {
			for _, s := range r.GetStatus().GetScripts() {
				if s.GetDesired() == 2 {
					seen[s.GetRelease().GetName()] = true
				}
			}
			return len(seen) == scripts
		})
	}
	if cost[10] > 2*cost[400] || cost[400] > 2*cost[10] {
		t.Errorf("a change is %d bytes beside 10 scripts, and %d beside 400", cost[10], cost[400])
	}
}

// TestWatchChangesWithFailures: what an agent says again is no change.
func TestWatchChangesWithFailures(t *testing.T) {
	b := newBench(t)
	route := script.Name{Tenant: "acme", Script: "route"}
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	b.hear(t, "a", 0)
	fail := func(sequence uint64, message string) {
		b.fleet.Heard(fleet.Report{
			Fleet: b.id, Agent: "a", Incarnation: "1", Sequence: 100 + sequence,
			Failures: []fleet.Failure{{Name: route, Revision: script.Revision(revision), Err: &script.Error{Kind: script.Limit, Message: message}}},
		})
	}
	fail(1, "no room")
	stream, err := b.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme", Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	until(t, stream, func(r *registryv1.WatchStatusResponse) bool { return statusOf(r, "route").GetFailed() == 1 })
	fail(2, "no room")
	b.publish(t, "other", "one")
	for _, resp := range until(t, stream, func(r *registryv1.WatchStatusResponse) bool { return statusOf(r, "other") != nil }) {
		if s := statusOf(resp, "route"); s != nil {
			t.Errorf("sent again: %v", s)
		}
	}
	fail(3, "no room yet")
	b.publish(t, "other", "two")
	until(t, stream, func(r *registryv1.WatchStatusResponse) bool {
		failures := statusOf(r, "route").GetFailures()
		return len(failures) == 1 && failures[0].GetError().GetMessage() == "no room yet"
	})
}

// TestWatchChangesAfterARestore: after a restore of etcd another release may have the
// revision of the one that was sent.
func TestWatchChangesAfterARestore(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	stream, err := b.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme", Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	sent := until(t, stream, func(*registryv1.WatchStatusResponse) bool { return true })[0]
	before, err := wire.ToRelease(statusOf(sent, "route").GetRelease())
	if err != nil {
		t.Fatal(err)
	}
	restored := before
	restored.Active.Number, restored.ChangedAt = 7, before.ChangedAt.Add(1)
	b.fleet.Reset(registry.State{Fleet: b.id, Head: script.Revision(revision), Releases: []script.Release{restored}})
	until(t, stream, func(r *registryv1.WatchStatusResponse) bool {
		return statusOf(r, "route").GetRelease().GetActive().GetNumber() == 7
	})
}
