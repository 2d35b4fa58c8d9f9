package local_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// talks logs two lines for each call.
const talks = `function handle(who) log.info("hello " .. who) log.warn("bye " .. who) end`

// TestRecentLogs: what scripts logged before anybody looked comes from the memory of all agents, also
// that of a tenant with its own process.
func TestRecentLogs(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "shop", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "shop"} {
		of := script.Name{Tenant: tenant, Script: "talker"}
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: of, Source: []byte(talks), Write: registryclient.Write{Author: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(of, p.Release.Revision)
		for i := range agents {
			// The first process of a tenant starts cold, which may take longer than a call waits.
			if !eventually(ctx, func() bool {
				_, err := s.agents[i].Call(ctx, of.String(), fmt.Sprintf("%s-%d", tenant, i+1))
				return err == nil
			}) {
				t.Fatalf("agent %d does not run %s", i+1, of)
			}
		}
	}
	for _, tenant := range []string{"acme", "shop"} {
		var found registryclient.RecentLogs
		all := func() bool {
			var err error
			if found, err = s.registry.RecentLogs(ctx, registryclient.RecentLogsFilter{Of: script.Name{Tenant: tenant}}); err != nil {
				t.Fatal(err)
			}
			return len(found.Lines) == 2*agents
		}
		if !eventually(ctx, all) { // a process sends its lines a moment later
			t.Fatalf("%s: %+v", tenant, found)
		}
		if found.Result.Answered != agents || found.Truncated || found.Result.Silent+found.Result.Older+found.Result.Failed > 0 {
			t.Errorf("%s: %+v, truncated %v", tenant, found.Result, found.Truncated)
		}
		if !slices.IsSortedFunc(found.Lines, func(a, b registryclient.AgentLogLine) int { return a.Time.Compare(b.Time) }) {
			t.Errorf("%s: the lines are not in order: %+v", tenant, found.Lines)
		}
		for _, l := range found.Lines {
			if want := fmt.Sprintf(" %s-%s", tenant, l.Agent[len("agent-"):]); l.Script.Tenant != tenant || l.Version != 1 ||
				l.Message != "hello"+want && l.Message != "bye"+want {
				t.Errorf("%s: %+v", tenant, l)
			}
		}
	}
	acme := script.Name{Tenant: "acme", Script: "talker"}
	for what, test := range map[string]struct {
		filter registryclient.RecentLogsFilter
		want   int
	}{
		"one agent":      {registryclient.RecentLogsFilter{Agents: []string{"agent-2"}}, 2},
		"a pattern":      {registryclient.RecentLogsFilter{Agents: []string{"*-1", "*-3"}}, 4},
		"no agent":       {registryclient.RecentLogsFilter{Agents: []string{"edge-*"}}, 0},
		"a level":        {registryclient.RecentLogsFilter{Level: "warn"}, agents},
		"a higher level": {registryclient.RecentLogsFilter{Level: "error"}, 0},
		"a version":      {registryclient.RecentLogsFilter{Version: 1}, 2 * agents},
		"another one":    {registryclient.RecentLogsFilter{Version: 2}, 0},
		"an expression":  {registryclient.RecentLogsFilter{Grep: "^(hello|bye) acme-[23]$"}, 4},
		"a limit":        {registryclient.RecentLogsFilter{Limit: 3}, 3},
		"an age":         {registryclient.RecentLogsFilter{Since: time.Hour}, 2 * agents},
		"a moment":       {registryclient.RecentLogsFilter{Since: time.Nanosecond}, 0},
	} {
		test.filter.Of = acme
		found, err := s.registry.RecentLogs(ctx, test.filter)
		if err != nil || len(found.Lines) != test.want || found.Truncated != (what == "a limit") {
			t.Errorf("%s: %+v, %v; want %d lines", what, found, err, test.want)
		}
	}
	if _, err := s.registry.RecentLogs(ctx, registryclient.RecentLogsFilter{Of: acme, Grep: "("}); script.KindOf(err) != script.Invalid {
		t.Errorf("a wrong expression: %v", err)
	}
}
