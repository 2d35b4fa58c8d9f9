package local_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hot spends most of its instructions on line 4, which is called from line 9.
const hot = `local function sum(n)
  local s = 0
  for i = 1, n do
    s = s + i % 7
  end
  return s
end
function handle()
  return sum(5000)
end`

// profiled profiles the script while all agents run it, and what is beside it, until each has had some
// calls.
func (s *stack) profiled(ctx context.Context, req registryclient.ScriptProfileRequest, beside script.Name) registryclient.ScriptProfile {
	s.t.Helper()
	for rounds := 8; ; rounds *= 2 {
		end := make(chan struct{})
		go func() {
			defer close(end)
			for range rounds {
				for _, agent := range s.agents {
					_, _ = agent.Call(ctx, req.Of.String()) // the profile says how many there were
					_, _ = agent.Call(ctx, beside.String())
				}
			}
		}()
		req.Duration, req.End = time.Minute, end
		began := time.Now()
		found, err := s.registry.ProfileScript(ctx, req)
		<-end
		if err != nil {
			s.t.Fatal(err)
		}
		if took := time.Since(began); took >= time.Minute {
			s.t.Errorf("the profile ended after %v, and not early", took)
		}
		enough := len(found.Agents) > 0
		for _, a := range found.Agents {
			enough = enough && a.Calls >= 5
		}
		if enough {
			return found
		}
	}
}

// TestProfileOfAScript: all agents find the line that is hot, and nothing of a neighbour, also for a
// tenant with its own process.
func TestProfileOfAScript(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "shop", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	publish := func(of script.Name, source string) {
		t.Helper()
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: of, Source: []byte(source), Write: registryclient.Write{Author: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(of, p.Release.Revision)
		for i, agent := range s.agents {
			// The first process of a tenant starts cold, which may take longer than a call waits.
			if !eventually(ctx, func() bool { _, err := agent.Call(ctx, of.String()); return err == nil }) {
				t.Fatalf("agent %d does not run %s", i+1, of)
			}
		}
	}
	for _, tenant := range []string{"acme", "shop"} {
		of, beside := script.Name{Tenant: tenant, Script: "hot"}, script.Name{Tenant: tenant, Script: "beside"}
		publish(of, hot)
		publish(beside, "\n\n\n\n\n\n\n\n\n\n"+hot)
		found := s.profiled(ctx, registryclient.ScriptProfileRequest{Of: of}, beside)
		if len(found.Agents) != agents || found.Result.Answered != agents || len(found.Versions) != 1 || found.Versions[0].Version != 1 {
			t.Fatalf("%s: %+v", tenant, found)
		}
		v := &found.Versions[0]
		inLoop := uint64(0)
		for _, stack := range v.Stacks {
			for _, f := range stack.Frames {
				if f.Line > 10 {
					t.Errorf("%s: a line of a neighbour: %+v", tenant, stack)
				}
			}
			if top := stack.Frames[0]; len(stack.Frames) == 2 && top.Function == 1 && (top.Line == 3 || top.Line == 4) && stack.Frames[1] == (engine.Frame{Function: 8, Line: 9}) {
				inLoop += stack.Instructions
			}
		}
		if all := v.Instructions(); inLoop < all*8/10 {
			t.Errorf("%s: %d of %d instructions are in the loop: %+v", tenant, inLoop, all, v.Stacks)
		}
	}
	of := script.Name{Tenant: "acme", Script: "hot"}
	for what, test := range map[string]struct {
		req  registryclient.ScriptProfileRequest
		kind script.Kind
	}{
		"no such script": {registryclient.ScriptProfileRequest{Of: script.Name{Tenant: "acme", Script: "none"}}, script.NotFound},
		"too long":       {registryclient.ScriptProfileRequest{Of: of, Duration: time.Hour}, script.Invalid},
		"too short":      {registryclient.ScriptProfileRequest{Of: of, Duration: -1}, script.Invalid},
	} {
		if _, err := s.registry.ProfileScript(ctx, test.req); script.KindOf(err) != test.kind {
			t.Errorf("%s: %v, want %s", what, err, test.kind)
		}
	}
	none, err := s.registry.ProfileScript(ctx, registryclient.ScriptProfileRequest{Of: of, Agents: []string{"agent-2"}, Duration: 10 * time.Millisecond})
	if err != nil || len(none.Versions) != 0 || len(none.Agents) != 1 || none.Agents[0].Agent != "agent-2" {
		t.Errorf("a script that is not called: %+v, %v", none, err)
	}
}

// TestProfileOfAnAgent: it comes over the registry, can be ended early, and the audit trail says who
// took it.
func TestProfileOfAnAgent(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	s.converge(s.publish(1).Release.Revision)
	for _, kind := range []string{"heap", "goroutine", "allocs", "mutex", "block", "cpu"} {
		data, err := s.registry.ProfileAgent(ctx, registryclient.AgentProfileRequest{Agent: "agent-2", Type: kind, Duration: time.Second})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		p, err := profile.Parse(bytes.NewReader(data))
		if err != nil || len(p.SampleType) == 0 {
			t.Errorf("%s: %v, %v", kind, p, err)
		}
	}
	end := make(chan struct{})
	close(end)
	began := time.Now()
	if _, err := s.registry.ProfileAgent(ctx, registryclient.AgentProfileRequest{Agent: "agent-1", Type: "cpu", Duration: time.Minute, End: end}); err != nil || time.Since(began) > 50*time.Second {
		t.Errorf("ended early, after %v: %v", time.Since(began), err)
	}
	for _, test := range []struct {
		req  registryclient.AgentProfileRequest
		kind script.Kind
		says string
	}{
		{registryclient.AgentProfileRequest{Agent: "agent-9", Type: "heap"}, script.NotFound, "no agent with the name"},
		{registryclient.AgentProfileRequest{Agent: "agent-*", Type: "heap"}, script.NotFound, "no agent with the name"},
		{registryclient.AgentProfileRequest{Agent: "agent-1", Type: "everything"}, script.Invalid, "type"},
		{registryclient.AgentProfileRequest{Agent: "agent-1", Type: "cpu", Duration: time.Hour}, script.Invalid, "duration"},
	} {
		if _, err := s.registry.ProfileAgent(ctx, test.req); script.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want %s and %q", test.req, err, test.kind, test.says)
		}
	}
	profiles := 0
	for e, err := range s.registry.Audit(ctx, registryclient.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Change == script.ChangeProfile {
			profiles++
			if e.Identity == "" || !strings.HasPrefix(e.Note, "agent agent-") {
				t.Errorf("%+v", e)
			}
		}
	}
	if profiles != 9 {
		t.Errorf("the audit trail has %d profiles, want 9", profiles)
	}
}
