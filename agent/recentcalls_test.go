package agent_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestRecentCalls: an agent tells of calls that its settings record, within the bytes that are asked for.
func TestRecentCalls(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", "one")
	r.revise("route", func(rel *script.Release) { rel.Settings.Decisions = &script.Decisions{Sample: 1} })
	r.start()
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/route", "one")
	a := newAsker(t, r)
	ask := func(tenant string, most int64, m *eventv1.RecentCallsQuery) (records []string, last *eventv1.Answer) {
		parts := a.await(a.send(&eventv1.Query{Tenant: tenant, MaxBytes: most, Kind: &eventv1.Query_RecentCalls{RecentCalls: m}}))
		for _, p := range parts {
			for _, record := range p.GetRecentCalls().GetRecords() {
				records = append(records, string(record))
			}
		}
		return records, parts[len(parts)-1]
	}
	eventually(t, r, "a call with arguments is kept", func() bool {
		var reply gateway.Reply
		if err := n.Executor().Execute(t.Context(), &gateway.Call{Script: "acme/route", Args: [][]byte{[]byte(`{"n":7}`)}}, &reply); err != nil {
			t.Logf("call: %v", err)
		}
		records, _ := ask("acme", 1<<20, &eventv1.RecentCallsQuery{Name: "route"})
		return len(records) > 0 && strings.Contains(records[0], `"input":{"n":7}`)
	})
	if records, last := ask("shop", 1<<20, &eventv1.RecentCallsQuery{Name: "route"}); len(records) != 0 || last.GetError() != nil {
		t.Errorf("of another tenant: %q, %v", records, last)
	}
	if records, last := ask("acme", 300, &eventv1.RecentCallsQuery{Name: "route"}); len(records) != 0 || last.GetError() != nil {
		t.Errorf("without room: %q, %v", records, last)
	}
	if _, last := ask("", 1<<20, &eventv1.RecentCallsQuery{}); last.GetError() == nil {
		t.Errorf("of no script: %v", last)
	}
}
