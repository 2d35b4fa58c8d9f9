package rpc_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestFindScripts: who has published finds the script, and a window of many scripts has what comes at that place.
func TestFindScripts(t *testing.T) {
	b := newBench(t)
	var last int64
	for i := range 260 {
		last = b.publish(t, fmt.Sprintf("s%03d", i), "one").GetRelease().GetRevision()
	}
	b.hear(t, "a", last)
	find := func(m *registryv1.FindScriptsRequest) (total int32, names string) {
		t.Helper()
		resp, err := b.FindScripts(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, s := range resp.GetStatus().GetScripts() {
			list = append(list, s.GetRelease().GetName())
		}
		return resp.GetTotal(), strings.Join(list, " ")
	}
	for _, test := range []struct {
		m     *registryv1.FindScriptsRequest
		total int32
		names string
	}{
		{&registryv1.FindScriptsRequest{Offset: 130, Limit: 3}, 260, "s130 s131 s132"},
		{&registryv1.FindScriptsRequest{Offset: 258}, 260, "s258 s259"},
		{&registryv1.FindScriptsRequest{Offset: 1 << 30}, 260, ""},
		{&registryv1.FindScriptsRequest{Search: "ACME/ 07", Limit: 2}, 13, "s007 s070"},
		{&registryv1.FindScriptsRequest{Order: registryv1.ScriptOrder_SCRIPT_ORDER_CHANGED, Descending: true, Limit: 2}, 260, "s259 s258"},
		{&registryv1.FindScriptsRequest{State: registryv1.ScriptState_SCRIPT_STATE_NOT_CONVERGED}, 0, ""},
		{&registryv1.FindScriptsRequest{Tenant: "other"}, 0, ""},
		{&registryv1.FindScriptsRequest{Engine: "rego"}, 0, ""},
	} {
		if total, names := find(test.m); total != test.total || names != test.names {
			t.Errorf("%v: %d, %q; want %d, %q", test.m, total, names, test.total, test.names)
		}
	}
	if _, names := find(&registryv1.FindScriptsRequest{}); strings.Count(names, " ") != 49 {
		t.Errorf("a window has %q, want 50 scripts", names)
	}
	if _, names := find(&registryv1.FindScriptsRequest{Limit: 1000}); strings.Count(names, " ") != 199 {
		t.Errorf("a window has %q, want 200 scripts", names)
	}
	b.publish(t, "s007", "two")
	if total, names := find(&registryv1.FindScriptsRequest{State: registryv1.ScriptState_SCRIPT_STATE_NOT_CONVERGED}); total != 1 || names != "s007" {
		t.Errorf("not converged: %d, %q", total, names)
	}
	for _, m := range []*registryv1.FindScriptsRequest{
		{Tenant: "A"}, {Offset: -1}, {Limit: -1}, {State: 99}, {Order: 99}, {Search: strings.Repeat("x", 201)}, {Search: "a b c d e f g h i"},
	} {
		if _, err := b.FindScripts(t.Context(), m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v, want InvalidArgument", m, err)
		}
	}
}

// TestFindsOwnScriptsAlone: neither scripts nor numbers tell a caller of tenants that it may not read.
func TestFindsOwnScriptsAlone(t *testing.T) {
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: everyone(t)})
	prepare(t, g.dial(t, insecure.NewCredentials(), withToken(tokenOf("root"))))
	other := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials(), withToken(tokenOf("other-everything"))))
	for state := range registryv1.ScriptState_name {
		for order := range registryv1.ScriptOrder_name {
			m := &registryv1.FindScriptsRequest{State: registryv1.ScriptState(state), Order: registryv1.ScriptOrder(order)}
			resp, err := other.FindScripts(t.Context(), m)
			if err != nil || resp.GetTotal() != 0 || len(resp.GetStatus().GetScripts()) != 0 {
				t.Errorf("%v: %v, %v", m, resp, err)
			}
		}
	}
}

// TestFindAgents: an agent is found by what it says of itself.
func TestFindAgents(t *testing.T) {
	b := newBench(t)
	revision := b.publish(t, "route", "one").GetRelease().GetRevision()
	b.hear(t, "other", revision)
	b.fleet.Heard(fleet.Report{
		Fleet: b.id, Agent: "edge-1", Incarnation: "1", Sequence: 1, Activated: script.Revision(revision), Software: "v1.2", Labels: map[string]string{"zone": "Z1"},
		Disk: &fleet.Disk{Free: 1, Size: 2, Fault: "no space left", Corrupt: 3, Untrusted: 4}, Lags: map[string]script.Revision{"acme": 1},
		Failures: []fleet.Failure{{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1, Err: script.Errorf(script.Unavailable, "script", "in quarantine")}},
	})
	for _, m := range []*registryv1.FindAgentsRequest{
		{Agent: "edge-1"},
		{Search: "EDGE"},
		{Search: "zone=z1"},
		{Search: "1.2 edge"},
		{State: registryv1.AgentState_AGENT_STATE_DISK},
		{State: registryv1.AgentState_AGENT_STATE_QUARANTINED, Order: registryv1.AgentOrder_AGENT_ORDER_FAILED},
		{State: registryv1.AgentState_AGENT_STATE_FAILING},
		{State: registryv1.AgentState_AGENT_STATE_TROUBLED},
	} {
		resp, err := b.FindAgents(t.Context(), m)
		if err != nil || resp.GetTotal() != 1 || len(resp.GetAgents()) != 1 || resp.GetConnected() != 2 || resp.GetFleet() != b.id {
			t.Errorf("%v: %v, %v", m, resp, err)
			continue
		}
		a := resp.GetAgents()[0]
		if d := a.GetDisk(); a.GetAgent() != "edge-1" || d.GetFreeBytes() != 1 || d.GetSizeBytes() != 2 || d.GetFault() != "no space left" || d.GetCorruptFiles() != 3 || d.GetUntrustedFiles() != 4 || a.GetQuarantined() != 1 || a.GetLaggingTenants() != 1 {
			t.Errorf("%v: %v", m, a)
		}
	}
	if resp, err := b.FindAgents(t.Context(), &registryv1.FindAgentsRequest{Descending: true, Offset: 1, Limit: 1}); err != nil || resp.GetTotal() != 2 || resp.GetAgents()[0].GetAgent() != "edge-1" {
		t.Errorf("the last of two, backwards: %v, %v", resp, err)
	}
	for _, m := range []*registryv1.FindAgentsRequest{{Offset: -1}, {Limit: -1}, {State: 99}, {Order: 99}, {Search: strings.Repeat("x", 201)}} {
		if _, err := b.FindAgents(t.Context(), m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v, want InvalidArgument", m, err)
		}
	}
}
