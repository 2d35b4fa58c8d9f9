package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/script"
)

// author of all writes of these tests.
var author = registryclient.Write{Author: "test"}

// patient has time also on a busy machine.
func patient() script.Spec {
	return script.Spec{Limits: script.Limits{Timeout: script.MaxLimits().Timeout}}
}

// publishOf publishes a version for the engine.
func (s *stack) publishOf(name script.Name, engine string, source []byte, spec script.Spec, steps ...script.Step) script.Release {
	s.t.Helper()
	return s.publishPlan(name, engine, source, spec, script.Plan{Steps: steps})
}

func (s *stack) publishPlan(name script.Name, engine string, source []byte, spec script.Spec, plan script.Plan) script.Release {
	s.t.Helper()
	p, err := s.registry.Publish(s.t.Context(), registryclient.PublishRequest{
		Name: name, Engine: engine, Source: source, Settings: &script.Settings{Spec: spec, Rollout: plan}, Write: author,
	})
	if err != nil {
		s.t.Fatalf("publish %s for %s: %v", name, engine, err)
	}
	return p.Release
}

// answerOf has agent i, from 0, answer as wanted once, within patience: the first call of a tenant's process may be late.
func (s *stack) answerOf(i int, name script.Name, arg, want string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last string
	if !eventually(ctx, func() bool {
		result, err := s.agents[i].Call(ctx, name.String(), json.RawMessage(arg))
		if err != nil {
			last = err.Error()
			return false
		}
		last = string(result.Values[0])
		return last == want
	}) {
		s.t.Errorf("agent-%d answers %s with %s, want %s", i+1, name, last, want)
	}
}

// TestFromLuaToWasm: a script changes its runtime by a rollout. In the shadow step a module that answers differently
// shows where, and is given up by the bound; one that answers equally goes live. No call gets another answer meanwhile.
func TestFromLuaToWasm(t *testing.T) {
	s, ctx := start(t), t.Context()
	s.converge(s.publishOf(name, script.EngineLua, []byte("function handle(r) return r end"), patient()).Revision)
	stop := s.callAlways(func(n int, values []json.RawMessage, err error) {
		if want := fmt.Sprintf(`{"n":%d}`, n); err != nil || len(values) != 1 || string(values[0]) != want {
			t.Errorf("call %d answers %s, %v, want %s", n, values, err, want)
		}
	})
	defer stop()

	plan := script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 100, Approval: true}}}
	s.publishPlan(name, script.EngineWasm, constant(`{"n":-1}`), patient(), plan)
	s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Trials != nil && st.Trials.Shadow != nil && st.Trials.Shadow.Different > 0
	})
	d, err := s.registry.ShadowDiff(ctx, name, nil)
	if err != nil || d.Candidate != 2 || d.Active != 1 || d.Calls.Equal != 0 || d.Findings.Paths["/n"] == 0 || len(d.Findings.Samples) == 0 {
		t.Fatalf("the difference: %+v, %v", d, err)
	}
	if sample := d.Findings.Samples[0]; fmt.Sprint(sample.Shadow) != `[{"n":-1}]` {
		t.Errorf("a sample: %+v", sample)
	}

	plan.MaxDiffPercent, plan.Steps[0].Approval = new(0.0), false
	s.publishPlan(name, script.EngineWasm, constant(`{"n":-2}`), patient(), plan)
	failed := s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Release.Candidate != nil && st.Release.Candidate.Failed != ""
	})
	if why := failed.Release.Candidate.Failed; !strings.Contains(why, "maxDiffPercent") || failed.Release.Active.Engine != script.EngineLua {
		t.Errorf("given up: %s; active: %+v", why, failed.Release.Active)
	}

	s.publishPlan(name, script.EngineWasm, echo(), patient(), plan)
	live := s.status(func(st *registryclient.ScriptStatus) bool { return st.Converged && st.Release.Active.Number == 4 })
	if live.Release.Active.Engine != script.EngineWasm {
		t.Errorf("live: %+v", live.Release.Active)
	}
	for i := range s.agents {
		s.answerOf(i, name, `{"n":0}`, `{"n":0}`)
	}
}

// policy is a Rego policy whose decision has a number.
func policy(n int) []byte {
	return fmt.Appendf(nil, "package acme.route\n\ndecision := {\"allow\": input.n > 3, \"edition\": %d}\n", n)
}

// TestRegoIsChangedLive: a policy is published, changed while it is called, and rolled back.
func TestRegoIsChangedLive(t *testing.T) {
	s, ctx := start(t), t.Context()
	s.converge(s.publishOf(name, script.EngineRego, policy(1), patient()).Revision)
	for i := range s.agents {
		s.answerOf(i, name, `{"n":4}`, `{"allow":true,"edition":1}`)
		s.answerOf(i, name, `{"n":3}`, `{"allow":false,"edition":1}`)
	}
	stop := s.callAlways(func(n int, values []json.RawMessage, err error) {
		one, two := fmt.Sprintf(`{"allow":%v,"edition":1}`, n > 3), fmt.Sprintf(`{"allow":%v,"edition":2}`, n > 3)
		if err != nil || len(values) != 1 || string(values[0]) != one && string(values[0]) != two {
			t.Errorf("call %d answers %s, %v, want %s or %s", n, values, err, one, two)
		}
	})
	defer stop()
	s.converge(s.publishOf(name, script.EngineRego, policy(2), patient()).Revision)
	for i := range s.agents {
		s.answerOf(i, name, `{"n":4}`, `{"allow":true,"edition":2}`)
	}
	back, _, err := s.registry.Rollback(ctx, name, 1, author)
	if err != nil {
		t.Fatal(err)
	}
	s.converge(back.Revision)
	for i := range s.agents {
		s.answerOf(i, name, `{"n":4}`, `{"allow":true,"edition":1}`)
	}
}

// TestAnAgentLacksAnEngine: it reports so for that script alone, and keeps the version before. A step with a selector
// passes it by, and one without waits for it.
func TestAnAgentLacksAnEngine(t *testing.T) {
	s := start(t, local.WithAgents(func(cfg *agentd.Config) {
		if cfg.Labels = map[string]string{"engines": "all"}; cfg.Name == "agent-3" {
			cfg.Labels["engines"], cfg.WithoutEngines = "lua", []string{script.EngineWasm}
		}
	}))
	ctx := t.Context()
	one, two := []byte("function handle() return 1 end"), constant("2")
	s.converge(s.publishOf(name, script.EngineLua, one, patient()).Revision)
	answers := func(want ...string) {
		t.Helper()
		for i, w := range want {
			s.answerOf(i, name, "0", w)
		}
	}
	named := func(text string) bool {
		return strings.Contains(text, `"wasm" is not an engine of this agent, which has: lua, rego`)
	}

	s.publishOf(name, script.EngineWasm, two, patient(), script.Step{Selector: "engines=all", Approval: true})
	st := s.status(func(st *registryclient.ScriptStatus) bool { return st.Trials != nil && st.Trials.Running == 2 })
	if st.Release.Candidate.Failed != "" {
		t.Errorf("the candidate on agents that have the engine: %+v", st)
	}
	answers("2", "2", "1")

	s.publishOf(name, script.EngineWasm, constant("3"), patient(), script.Step{Percent: 99})
	st = s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Trials != nil && st.Trials.Running == 2 && len(st.Failures) > 0
	})
	if c := st.Release.Candidate; c == nil || c.Failed != "" || fmt.Sprint(st.Trials.WaitingFor) != "[agent-3]" || st.Failures[0].Agent != "agent-3" || !named(st.Failures[0].Err.Message) {
		t.Errorf("the rollout waits: %+v, %+v", st, st.Trials)
	}
	answers("3", "3", "1")

	if _, _, err := s.registry.Steer(ctx, name, registryclient.Promote, 0, author); err != nil {
		t.Fatal(err)
	}
	st = s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Release.Candidate == nil && st.Active == 2 && st.Failed == 1
	})
	if st.Converged || len(st.Failures) != 1 || st.Failures[0].Agent != "agent-3" || !named(st.Failures[0].Err.Message) {
		t.Errorf("live, and not on agent-3: %+v", st)
	}
	answers("3", "3", "1")

	// Nothing else notices.
	cart := script.Name{Tenant: name.Tenant, Script: "cart"}
	for n, engine := range []string{script.EngineLua, script.EngineRego} {
		source := map[string][]byte{script.EngineLua: one, script.EngineRego: []byte("package acme.cart\n\ndecision := 5\n")}[engine]
		s.convergeOf(cart, s.publishOf(cart, engine, source, patient()).Revision)
		for i := range s.agents {
			s.answerOf(i, cart, "0", []string{"1", "5"}[n])
		}
	}
	s.converge(s.publishOf(name, script.EngineLua, []byte("function handle() return 4 end"), patient()).Revision)
	answers("4", "4", "4")
}

// TestEnginesInATenantsProcess: modules and interpreted policies run in the process of a tenant that has one. A policy
// that has to be interpreted does not run where tenants share a process, and the error says what to do.
func TestEnginesInATenantsProcess(t *testing.T) {
	s, ctx := start(t), t.Context()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 256 << 20}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	interpreted := script.Spec{Runtime: script.Runtime{Rego: script.RegoOptions{Target: script.RegoTargetInterpreted}}}
	interpreted.Limits.Timeout = script.MaxLimits().Timeout
	decide := script.Name{Tenant: name.Tenant, Script: "decide"}
	s.converge(s.publishOf(name, script.EngineWasm, echo(), patient()).Revision)
	s.convergeOf(decide, s.publishOf(decide, script.EngineRego, policy(1), interpreted).Revision)
	own := make([]*agentclient.Client, 0, agents)
	for i := range agents {
		s.answerOf(i, name, `{"n":7}`, `{"n":7}`)
		s.answerOf(i, decide, `{"n":7}`, `{"allow":true,"edition":1}`)
		client, err := agentclient.New("unix:" + filepath.Join(s.AgentDir(i+1), "tenants", name.Tenant, "grpc.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		own = append(own, client)
	}
	freeze(t, agents)
	defer thaw(t)
	for i, client := range own {
		stopped, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		for _, called := range []script.Name{name, decide} {
			if result, err := client.Call(stopped, called.String(), json.RawMessage(`{"n":7}`)); err == nil {
				t.Errorf("agent-%d answers %s with %s while the process of the tenant is stopped", i+1, called, result.Values)
			}
		}
		cancel()
	}
	thaw(t)
	for i := range agents {
		s.answerOf(i, name, `{"n":8}`, `{"n":8}`)
	}

	shared := script.Name{Tenant: "shop", Script: "decide"}
	s.publishOf(shared, script.EngineRego, policy(1), interpreted)
	st := s.statusOf(shared, func(st *registryclient.ScriptStatus) bool { return st.Failed == agents })
	for _, f := range st.Failures {
		if !strings.Contains(f.Err.Message, "has to be interpreted") || !strings.Contains(f.Err.Message, "set isolation: process for its tenant") {
			t.Errorf("%s: %v", f.Agent, f.Err)
		}
	}
	if _, _, err := s.registry.SetTenant(ctx, shared.Tenant, settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		s.answerOf(i, shared, `{"n":1}`, `{"allow":false,"edition":1}`)
	}
}
