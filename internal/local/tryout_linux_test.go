package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// draft uses all that a script has of its agent, and fails on request.
const draft = `local greet = require("acme/words")
function handle(r)
  if r.fail then
    error("no route for " .. r.fail)
  end
  log.warn(greet(r.who))
  return { who = r.who, mode = kv.get("mode"), n = metrics and 1 or 0, default = config.default }
end`

// try runs the script on an agent, until the agent has what it needs.
func (s *stack) try(ctx context.Context, req registryclient.TryRequest) registryclient.Tried {
	s.t.Helper()
	found, err := s.registry.Try(ctx, req)
	if err != nil {
		s.t.Fatalf("try %s on agent %q: %v", req.Name, req.Agent, err)
	}
	return found
}

// args are calls with one argument each.
func args(all ...string) (calls [][]json.RawMessage) {
	for _, arg := range all {
		calls = append(calls, []json.RawMessage{json.RawMessage(arg)})
	}
	return calls
}

// TestTry: a script that is not published runs on one agent, also in the process of its tenant, with the tenant's values and
// libraries. It says what it logs, where it fails and how tests differ. Nothing of it stays.
func TestTry(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "shop", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "shop"} {
		words := s.publishOf(script.Name{Tenant: tenant, Script: "words"}, script.EngineLua, []byte(`return function(who) return "hello " .. who end`), script.Spec{Library: true})
		if _, _, err := s.registry.PutValue(ctx, script.ValueKey{Tenant: tenant, Key: "mode"}, []byte("night"), registryclient.DataWrite{Author: "test"}); err != nil {
			t.Fatal(err)
		}
		s.convergeOf(words.Name, words.Revision)
		name := script.Name{Tenant: tenant, Script: "draft"}
		req := registryclient.TryRequest{
			Name: name, Source: []byte(strings.ReplaceAll(draft, "acme/", tenant+"/")), Agent: "agent-2", Tests: true,
			Calls: args(`{"who":"ann"}`, `{"fail":"bob"}`),
			Settings: &script.Settings{Spec: script.Spec{
				Limits: script.MaxLimits(), Config: json.RawMessage(`{"default":"slow"}`),
				Tests: []script.Test{
					{Name: "passes", Request: json.RawMessage(`{"who":"cid"}`), Expect: json.RawMessage(`{"who":"cid","mode":"night"}`)},
					{Name: "differs", Request: json.RawMessage(`{"who":"cid"}`), Expect: json.RawMessage(`{"who":"dan","mode":"day"}`)},
					{Name: "fails", Request: json.RawMessage(`{"fail":"eve"}`), Expect: json.RawMessage(`{}`)},
					{Name: "is meant to fail", Request: json.RawMessage(`{"fail":"eve"}`), Error: script.Script},
				},
			}},
		}
		var found registryclient.Tried
		eventually(ctx, func() bool { // values follow releases
			found = s.try(ctx, req)
			return len(found.Tests) == 4 && found.Tests[0].Test.Err == nil
		})
		isolation := map[string]string{"acme": "shared", "shop": "process"}[tenant]
		if found.Err != nil || found.Agent != "agent-2" || found.Isolation != isolation || len(found.Calls) != 2 || len(found.Tests) != 4 || len(found.Libraries) != 1 {
			t.Fatalf("%s: %+v", tenant, found)
		}
		first, second := found.Calls[0], found.Calls[1]
		if first.Err != nil || len(first.Results) != 1 || !strings.Contains(string(first.Results[0]), `"mode":"night"`) || !strings.Contains(string(first.Results[0]), `"default":"slow"`) {
			t.Errorf("%s: the first call: %+v, %s", tenant, first, first.Results)
		}
		if first.Instructions == 0 || first.Allocated == 0 || len(first.Logs) != 1 || first.Logs[0].Level != engine.Warn || first.Logs[0].Message != "hello ann" {
			t.Errorf("%s: what the first call used and logged: %+v", tenant, first)
		}
		if e := script.AsError(second.Err); e == nil || e.Kind != script.Script || e.Line != 4 || !strings.Contains(e.Message, "no route for bob") || len(e.Stack) == 0 || len(second.Results) > 0 {
			t.Errorf("%s: the second call: %+v", tenant, second)
		}
		if d := found.Tests[1].Test; d.Err == nil || len(d.Differences) != 2 || d.Differences[0].Pointer != "/mode" || string(d.Differences[0].From) != `"day"` || string(d.Differences[0].To) != `"night"` {
			t.Errorf("%s: a test that differs: %+v", tenant, d)
		}
		if f := found.Tests[2]; f.Test.Err == nil || script.AsError(f.Test.Err).Line != 4 || len(f.Test.Differences) > 0 {
			t.Errorf("%s: a test that fails: %+v", tenant, f.Test)
		}
		if m := found.Tests[3]; m.Test.Err != nil || m.Err == nil {
			t.Errorf("%s: a test that is meant to fail: %+v", tenant, m)
		}
		s.nothingStays(ctx, name, "no route for")
	}
	s.tryIsAudited(ctx)
}

// nothingStays checks that no registry and no agent has anything of the script.
func (s *stack) nothingStays(ctx context.Context, name script.Name, text string) {
	s.t.Helper()
	if _, err := s.registry.Get(ctx, name); script.KindOf(err) != script.NotFound {
		s.t.Errorf("the registry has %s: %v", name, err)
	}
	for i, agent := range s.agents {
		for _, ref := range []string{name.String(), name.String() + "@1", name.String() + "@0"} {
			if _, err := agent.Call(ctx, ref, json.RawMessage(`{"who":"ann"}`)); script.KindOf(err) != script.NotFound && script.KindOf(err) != script.Invalid {
				s.t.Errorf("agent %d calls %s: %v", i+1, ref, err)
			}
		}
	}
	logs, err := s.registry.RecentLogs(ctx, registryclient.RecentLogsFilter{Of: script.Name{Tenant: name.Tenant}})
	if err != nil || len(logs.Lines) > 0 {
		s.t.Errorf("logs of %s: %+v, %v", name, logs.Lines, err)
	}
	err = filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // sockets, and files that go
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			s.t.Errorf("%s has a part of the script", path)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// tryIsAudited checks that the audit trail says who tried what, and that the timeline does not.
func (s *stack) tryIsAudited(ctx context.Context) {
	s.t.Helper()
	tries := 0
	for e, err := range s.registry.Audit(ctx, registryclient.AuditFilter{Name: script.Name{Tenant: "acme"}}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Change == script.ChangeTry {
			tries++
			if e.Name != (script.Name{Tenant: "acme", Script: "draft"}) || e.Note != "on agent agent-2" || e.Digest.IsZero() {
				s.t.Errorf("%+v", e)
			}
		}
	}
	if tries == 0 {
		s.t.Error("the audit trail has no try")
	}
}

// TestTryEngines: modules and policies are tried, too, and what they do not compile is said with its place.
func TestTryEngines(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	s.connected(ctx)
	spec := patient()
	for what, c := range map[string]struct {
		engine string
		source []byte
		want   string
	}{
		"a function": {script.EngineLua, []byte("function handle(r) return r end"), `{"n":4}`},
		"a module":   {script.EngineWasm, echo(), `{"n":4}`},
		"a policy":   {script.EngineRego, policy(1), `{"allow":true,"edition":1}`},
	} {
		req := registryclient.TryRequest{Name: name, Engine: c.engine, Source: c.source, Settings: &script.Settings{Spec: spec}, Calls: args(`{"n":4}`)}
		found := s.try(ctx, req)
		if found.Err != nil || len(found.Calls) != 1 || fmt.Sprintf("%s", found.Calls[0].Results) != "["+c.want+"]" {
			t.Errorf("%s: %+v", what, found)
		}
		s.nothingStays(ctx, name, "no such text")
	}
	for what, c := range map[string]struct {
		engine, source string
		line           int
	}{
		"a function": {script.EngineLua, "function handle(r)\n  return r +\nend", 3},
		"a policy":   {script.EngineRego, "package acme.route\n\ndecision := {\"allow\": ", 3},
	} {
		found := s.try(ctx, registryclient.TryRequest{Name: name, Engine: c.engine, Source: []byte(c.source), Calls: args(`{}`)})
		if e := script.AsError(found.Err); e == nil || e.Kind != script.Script || e.Line != c.line || found.Agent != "" || len(found.Calls) > 0 {
			t.Errorf("%s that does not compile: %+v", what, found)
		}
	}
}

// TestTryHostile: what never ends, or takes all memory, is stopped, and calls of the tenant go on.
func TestTryHostile(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	s.connected(ctx)
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "shop", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "shop"} {
		live := s.publishOf(script.Name{Tenant: tenant, Script: "live"}, script.EngineLua, []byte("function handle(r) return r end"), patient())
		// The first process of a tenant starts cold, which takes long on a busy machine.
		if !eventually(ctx, func() bool {
			_, err := s.agents[0].Call(ctx, live.Name.String(), json.RawMessage(`1`))
			return err == nil
		}) {
			t.Fatalf("agent 1 does not run %s", live.Name)
		}
		for what, source := range map[string]string{
			"endless": "function handle() while true do end end",
			"memory":  "function handle() local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end end",
			"result":  "function handle() return ('x'):rep(900000) end",
			"logs":    "function handle() for i = 1, 10000 do log.info(('x'):rep(1000)) end end",
			"deep":    "function handle() local function f() return 1 + f() end return f() end",
			"require": "require('" + tenant + "/none') function handle() end",
		} {
			limits := script.MaxLimits()
			if what == "endless" {
				limits.Timeout = 2 * time.Second // the others end by themselves, on a busy machine later
			}
			req := registryclient.TryRequest{
				Name: script.Name{Tenant: tenant, Script: "hostile"}, Source: []byte(source), Agent: "agent-1",
				Settings: &script.Settings{Spec: script.Spec{Limits: limits}}, Calls: args(`{}`, `{}`),
			}
			found, err := s.registry.Try(ctx, req)
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v", tenant, what, err)
			case what == "require":
				if script.KindOf(found.Err) != script.NotFound {
					t.Errorf("%s: a library that is not there: %+v", tenant, found)
				}
			case len(found.Calls) != 2:
				t.Errorf("%s, %s: %+v", tenant, what, found)
			case what == "result":
				if c := found.Calls[0]; c.Err != nil || !c.Truncated || len(c.Results) > 0 {
					t.Errorf("%s: a large result: %+v", tenant, c)
				}
			case what == "logs":
				if c := found.Calls[0]; c.Err != nil || len(c.Logs) == 0 || len(c.Logs) > 100 || c.DroppedLogs+uint64(len(c.Logs)) != 10000 {
					t.Errorf("%s: many lines: %d and %d, %v", tenant, len(c.Logs), c.DroppedLogs, c.Err)
				}
			default:
				for _, c := range found.Calls {
					if kind := script.KindOf(c.Err); kind != script.Limit && kind != script.Timeout && kind != script.Script {
						t.Errorf("%s, %s: %+v", tenant, what, c)
					}
				}
			}
		}
		s.answerOf(0, live.Name, `2`, `2`)
	}
}
