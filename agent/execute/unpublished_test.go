package execute_test

import (
	"context"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unpublished compiles a script of acme on the node.
func (n *node) unpublished(t *testing.T, source string, limits script.Limits) *execute.Unpublished {
	t.Helper()
	u, err := n.Unpublished(t.Context(), script.Name{Tenant: "acme", Script: "draft"}, &script.Edition{
		Version: script.Version{Engine: "fake", Entrypoint: "handle"}, Spec: script.Spec{Limits: limits}, Source: []byte(source),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// TestUnpublishedChangesNothing: it reads the tenant's values. What it counts, takes and logs is its own, each call begins anew, and
// neither metrics nor observers know of it.
func TestUnpublishedChangesNothing(t *testing.T) {
	host, seen := &sideEffects{}, &observer{}
	n := &node{host: host, observers: []execute.Observer{seen}}
	n.start(t, lua.New(), 1<<20, 1, 16)
	u := n.unpublished(t, `function handle(r)
  log.warn("one")
  local free = ratelimit.allow("b", {rate = 1, burst = 1})
  return {count = counter.add("c", 1), free = free, value = kv.get("k")}
end`, script.Limits{Timeout: script.MaxLimits().Timeout})
	for range 3 {
		c := u.Call(t.Context(), [][]byte{[]byte("{}")})
		if c.Err != nil || c.Result.Len() != 1 || c.Used.Instructions == 0 || len(c.Logs) != 1 || c.Logs[0].Message != "one" {
			t.Fatalf("%+v", c)
		}
		for _, part := range []string{`"count":1`, `"free":true`, `"value":"acme/k"`} {
			if got := string(c.Result.Value(0)); !strings.Contains(got, part) {
				t.Errorf("%s lacks %s", got, part)
			}
		}
	}
	if len(host.logs)+len(host.counters) > 0 || seen.calls > 0 {
		t.Errorf("the agent has %v and %v, and observers saw %d calls", host.logs, host.counters, seen.calls)
	}
	families, err := n.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "scriptorium_agent_calls_total" && m.GetCounter().GetValue() > 0 {
				t.Errorf("the metrics have calls: %v", m)
			}
		}
	}
	var reply gateway.Reply
	if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/draft"}, &reply); script.KindOf(err) != script.NotFound {
		t.Errorf("a gateway calls it: %v", err)
	}
}

// TestUnpublishedGivesWay: one that never ends gives its turn to the calls of gateways, on the only processor there is.
func TestUnpublishedGivesWay(t *testing.T) {
	n := &node{}
	n.start(t, lua.New(), 1<<20, 1, 16)
	n.publish("live", patiently, "return 1")
	u := n.unpublished(t, "function handle() while true do end end", script.MaxLimits())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *execute.UnpublishedCall, 1)
	go func() { ended <- u.Call(ctx, [][]byte{[]byte("{}")}) }()
	for range 100 {
		var reply gateway.Reply
		if err := n.Execute(t.Context(), &gateway.Call{Script: "acme/live"}, &reply); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if c := <-ended; c.Err == nil {
		t.Errorf("it ended: %+v", c)
	}
}

// TestUnpublishedIsBounded by the tenant's limits, and has a part of its memory.
func TestUnpublishedIsBounded(t *testing.T) {
	n := &node{settings: script.TenantSettings{Limits: script.Limits{Instructions: 1000}, MemoryBytes: 64 << 20}}
	n.start(t, lua.New(), 1<<20, 1, 16)
	u := n.unpublished(t, "function handle() while true do end end", script.MaxLimits())
	if c := u.Call(t.Context(), nil); script.KindOf(c.Err) != script.Limit || u.Limits().Instructions != 1000 {
		t.Errorf("%+v with %+v", c, u.Limits())
	}
	n.settings.Limits = script.Limits{}
	u = n.unpublished(t, "function handle() local t = {} for i = 1, 1e7 do t[i] = ('x'):rep(1000) .. i end end", script.MaxLimits())
	if c := u.Call(t.Context(), nil); script.KindOf(c.Err) != script.Limit || c.Used.Allocated > 32<<20 {
		t.Errorf("%+v", c)
	}
	u = n.unpublished(t, "function handle() for i = 1, 1000 do log.info(('x'):rep(i % 100 + 1000)) end end", script.MaxLimits())
	if c := u.Call(t.Context(), nil); c.Err != nil || len(c.Logs) == 0 || len(c.Logs) > execute.MaxUnpublishedLogs || uint64(len(c.Logs))+c.Dropped != 1000 {
		t.Errorf("%d lines and %d others: %v", len(c.Logs), c.Dropped, c.Err)
	}
}
