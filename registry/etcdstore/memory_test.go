package etcdstore_test

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestMemory: what is remembered is recalled, by every replica, as it was and as it
// changes.
func TestMemory(t *testing.T) {
	writer, reader := open(t, "/memory"), open(t, "/memory")
	tenants, err := script.ParseSelector([]string{"acme", "shop-*"})
	if err != nil {
		t.Fatal(err)
	}
	route := script.Name{Tenant: "acme", Script: "route"}
	agent := fleet.Memo{
		Agent: "node/1", Heard: time.Unix(1_700_000_000, 7).UTC(),
		Report: fleet.Report{
			Fleet: "F1", Agent: "node/1", Incarnation: "i", Sequence: 9, Labels: map[string]string{"zone": "a"}, Selects: true, Software: "v1", Activated: 12,
			Session: 11, Identity: "agents", Tenants: tenants, DiskKeys: []string{"0123456789abcdef"}, Drifts: 3,
			Failures: []fleet.Failure{
				{Name: route, Revision: 11, Err: &script.Error{Kind: script.Script, Message: "boom", Line: 3}},
				{Name: script.Name{Tenant: "acme", Script: "kv:flags/a"}, Revision: 12, Err: &script.Error{Kind: script.Unavailable, Message: "gone"}},
				{Name: script.Name{Tenant: "acme", Script: "tenant:settings"}, Revision: 12, Err: &script.Error{Kind: script.Internal, Message: "no"}},
			},
		},
	}
	connected := fleet.Memo{Agent: "node/2", Report: fleet.Report{Agent: "node/2", Incarnation: "j"}}
	rollout := fleet.Memo{Script: route, Rollout: script.Rollout{
		Revision: 12, Agents: 3, Median: time.Millisecond, P99: 2 * time.Millisecond, Slowest: 3 * time.Millisecond,
		SlowestAgent: "node/1", ConvergedAt: time.Unix(1_700_000_001, 0).UTC(),
	}}
	gate := fleet.Memo{Script: route, Gate: &fleet.GateAnswer{Attempt: 9, Step: 2, At: time.Unix(1_700_000_002, 0).UTC(), Result: fleet.GateWaits, Text: "not yet"}}
	if err := writer.Remember(t.Context(), []fleet.Memo{agent, connected, rollout, gate}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, stop := iter.Pull2(reader.Recall(ctx))
	defer stop()
	want := func(want fleet.Memo) {
		t.Helper()
		got, err, ok := next()
		if !ok || err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("recalled %+v, %v, %v; want %+v", got, err, ok, want)
		}
	}
	for _, memo := range []fleet.Memo{agent, connected, gate, rollout, {Complete: true}} {
		want(memo)
	}
	connected.Report.Incarnation = "k"
	gone, forgotten := fleet.Memo{Agent: agent.Agent, Gone: true}, fleet.Memo{Script: route, Gone: true}
	silent := fleet.Memo{Script: route, Gate: &fleet.GateAnswer{}, Gone: true}
	if err := writer.Remember(t.Context(), []fleet.Memo{connected, gone, forgotten, silent}); err != nil {
		t.Fatal(err)
	}
	changes := map[string]fleet.Memo{}
	for range 4 {
		memo, err, ok := next()
		if !ok || err != nil {
			t.Fatal(err)
		}
		kind := ""
		if memo.Gate != nil {
			kind = "gate of "
		}
		changes[kind+memo.Agent+memo.Script.String()] = memo
	}
	if !changes["node/1/"].Gone || !changes["acme/route"].Gone || !changes["gate of acme/route"].Gone || changes["node/2/"].Report.Incarnation != "k" || changes["node/2/"].Gone {
		t.Errorf("changes: %+v", changes)
	}
}

// TestMemoryIsAnyonesGarbage: what cannot be read is left out, and large memos are
// stored in several writes.
func TestMemoryIsAnyonesGarbage(t *testing.T) {
	s := open(t, "/garbage")
	for _, key := range []string{"agents/", "agents/x", "rollouts/acme/route", "rollouts/acme", "rollouts/", "other"} {
		if _, err := client(t).Put(t.Context(), "/garbage/fleet/"+key, "\xff\xff"); err != nil {
			t.Fatal(err)
		}
	}
	var memos []fleet.Memo
	for i := range fleet.MaxMemos {
		memos = append(memos, fleet.Memo{Agent: fmt.Sprint("n", i), Report: fleet.Report{
			Agent: fmt.Sprint("n", i), Incarnation: "1", Labels: map[string]string{"large": strings.Repeat("x", 100_000)},
		}})
	}
	if err := s.Remember(t.Context(), memos); err != nil {
		t.Fatal(err)
	}
	agents := 0
	for memo, err := range s.Recall(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if memo.Complete {
			break
		}
		if memo.Agent == "" {
			t.Errorf("recalled %+v", memo)
		}
		agents++
	}
	if agents != fleet.MaxMemos {
		t.Errorf("%d agents are recalled, want %d", agents, fleet.MaxMemos)
	}
}
