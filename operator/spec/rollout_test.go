package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

func steps(percents ...int32) *v1alpha1.Rollout {
	r := &v1alpha1.Rollout{}
	for _, p := range percents {
		r.Steps = append(r.Steps, v1alpha1.RolloutStep{Percent: p})
	}
	return r
}

// zone is a step that takes all agents there.
func zone(name v1alpha1.AgentLabel) v1alpha1.RolloutStep {
	return v1alpha1.RolloutStep{Selector: map[string]v1alpha1.AgentLabel{"zone": name}}
}

// TestRolloutFaults: what is wrong is said with its field, in the registry's words.
func TestRolloutFaults(t *testing.T) {
	many := make([]v1alpha1.Test, script.MaxTests+1)
	for i := range many {
		many[i].Name = fmt.Sprint(i)
	}
	for want, change := range map[string]func(*v1alpha1.LuaScriptSpec){
		"spec.rollout.steps[0].percent: 0 is not between 1 and 99; after the last step all agents run the version": func(s *v1alpha1.LuaScriptSpec) { s.Rollout = steps(0) },
		"spec.rollout.steps[1].percent: 10 is not more than 10, the percent of the step before":                    func(s *v1alpha1.LuaScriptSpec) { s.Rollout = steps(10, 10) },
		"spec.rollout.steps[1].selector: all agents with zone=a run the version since step 1: leave the step out": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = &v1alpha1.Rollout{Steps: []v1alpha1.RolloutStep{zone("a"), zone("a")}}
		},
		`spec.rollout.steps[0].selector.zone: "a b" is not the value of a label: want 1 to 63 letters, digits, '-', '_', '.', that start and end with a letter or digit`: func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = &v1alpha1.Rollout{Steps: []v1alpha1.RolloutStep{zone("a b")}}
		},
		"spec.rollout.steps[0].gate.query: $tennant is no variable: there are $tenant, $script, $version, $active, $step": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.Steps[0].Gate = &v1alpha1.RolloutGate{Prometheus: "main", Query: "up$tennant", Max: new(1.0)}
		},
		"spec.rollout.steps[1].by: step 1 takes a share of the agents, which run the version whatever the key: put the steps by key before it": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5, 10)
			s.Rollout.Steps[1].By = "key"
		},
		"spec.rollout.steps[1].shadow: step 1 makes the version live on some agents: put the shadow steps before it": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.Steps = append(s.Rollout.Steps, v1alpha1.RolloutStep{Shadow: 5})
		},
		"spec.rollout.maxDiffPercent: needs a shadow step, such as {shadow: 5, pause: 10m}: only there are results compared": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.MaxDiffPercent = new(1.0)
		},
		"spec.rollout.key: needs a step with by: key: no other step looks at keys": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.Key = "request.headers.x-user"
		},
		"spec.rollout.after[1]: other/lib is of another tenant: a script waits for scripts of its own tenant, acme": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = &v1alpha1.Rollout{After: []string{"acme/lib", "other/lib"}}
		},
		`spec.rollout.after[0]: "lib" is not a script's name: want tenant/name`: func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = &v1alpha1.Rollout{After: []string{"lib"}}
		},
		"spec.rollout.steps: 11 are too many: at most 10 are allowed": func(s *v1alpha1.LuaScriptSpec) { s.Rollout = steps(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) },
		"spec.rollout.maxErrorPercent: 101 is not between 0 and 100":  func(s *v1alpha1.LuaScriptSpec) { s.Rollout = &v1alpha1.Rollout{MaxErrorPercent: new(101.0)} },
		`spec.rollout.maxLatencyIncrease.p99: "20" is not a percentage, such as 20%`: func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.MaxLatencyIncrease = &v1alpha1.LatencyIncrease{P99: "20"}
		},
		"spec.rollout.maxLatencyIncrease.p50: 1001 % is not between 1 % and 1000 %": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.MaxLatencyIncrease = &v1alpha1.LatencyIncrease{P50: "1001%"}
		},
		"spec.rollout.maxErrorPercent: needs steps: only while some of the agents run the new version are its calls looked at": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = &v1alpha1.Rollout{MaxErrorPercent: new(5.0)}
		},
		`spec.rollout.steps[0].pause: "soon" is not a duration: want a number and a unit, such as 10m; ` +
			`spec.rollout.steps[1].pause: "1d" is not a duration: want a number and a unit, such as 10m`: func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(1, 2)
			s.Rollout.Steps[0].Pause, s.Rollout.Steps[1].Pause = new("soon"), new("1d")
		},
		"spec.rollout.steps[0].pause: 169h0m0s is not between 0 and the maximum, 168h0m0s": func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(1)
			s.Rollout.Steps[0].Pause = new("169h")
		},
		"spec.tests: 33 are too many: at most 32 are allowed": func(s *v1alpha1.LuaScriptSpec) { s.Tests = many },
		"spec.tests[0].name: must be text of 1 to 128 bytes":  func(s *v1alpha1.LuaScriptSpec) { s.Tests = []v1alpha1.Test{{}} },
		`spec.tests[1].name: there is another test "a"`:       func(s *v1alpha1.LuaScriptSpec) { s.Tests = []v1alpha1.Test{{Name: "a"}, {Name: "a"}} },
		"spec.tests[0].error: a call that fails has no result: leave out one of expect and error": func(s *v1alpha1.LuaScriptSpec) {
			s.Tests = []v1alpha1.Test{{Name: "a", Expect: config("1"), Error: new("SCRIPT")}}
		},
		`spec.tests[0].error: "DENIED" is no kind of error that a script can end with: want SCRIPT, LIMIT or TIMEOUT`: func(s *v1alpha1.LuaScriptSpec) {
			s.Tests = []v1alpha1.Test{{Name: "a", Error: new("DENIED")}}
		},
		"spec.tests[0].request: is nested deeper than 32": func(s *v1alpha1.LuaScriptSpec) {
			s.Tests = []v1alpha1.Test{{Name: "a", Request: config(deep(33))}}
		},
		"spec.tests: have 65538 bytes of requests and expectations together, at most 65536 (64 KiB) are allowed": func(s *v1alpha1.LuaScriptSpec) {
			s.Tests = []v1alpha1.Test{{Name: "a", Request: config(`"` + strings.Repeat("x", 64<<10) + `"`)}}
		},
	} {
		_, err := spec.From(kinds.LuaScript, luaScript(func(ls *v1alpha1.LuaScript) { change(&ls.Spec) }))
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// allGates has what every plan asks.
type allGates struct{}

func (allGates) Check(string, string, script.Gate) error { return nil }

// TestTheRegistryKeepsItAsItIs: what a registry has after a publish is what was wanted, so
// that nothing is ever put right that nobody changed.
func TestTheRegistryKeepsItAsItIs(t *testing.T) {
	for _, change := range []func(*v1alpha1.LuaScriptSpec){
		func(s *v1alpha1.LuaScriptSpec) { s.Rollout, s.Tests = &v1alpha1.Rollout{}, []v1alpha1.Test{} },
		func(s *v1alpha1.LuaScriptSpec) { s.Rollout = steps(5); s.Rollout.MaxErrorPercent = new(0.0) },
		func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(1, 99)
			s.Rollout.Steps[0].Pause = new("168h")
		},
		func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5)
			s.Rollout.FailureLimit, s.Rollout.Tolerate = new(intstr.FromString("5%")), new(intstr.FromInt32(0))
			s.Rollout.MaxErrorPercent, s.Rollout.MinCalls, s.Rollout.ProgressDeadline = new(5.0), new(int32(0)), new("90m")
			s.Rollout.OnDeadline = "pause"
		},
		func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5, 50)
			s.Rollout.Steps = append(s.Rollout.Steps, zone("a"))
			s.Rollout.Steps[2].Selector["topology.kubernetes.io/rack"] = "7"
		},
		func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(1, 10, 50)
			s.Rollout.Steps[0].By, s.Rollout.Steps[1].By, s.Rollout.Key = "key", "key", "request.headers.X-User"
		},
		func(s *v1alpha1.LuaScriptSpec) {
			s.Rollout = steps(5, 50)
			s.Rollout.Steps[0].Gate = &v1alpha1.RolloutGate{Prometheus: "main", Query: "up", Min: new(0.0), Max: new(0.01)}
			s.Rollout.Steps[1].Gate = &v1alpha1.RolloutGate{Webhook: "ci"}
			s.Rollout.Steps[1].Approval = true
		},
		func(s *v1alpha1.LuaScriptSpec) {
			s.Tests = []v1alpha1.Test{
				{Name: "a", Request: config(` { } `), Expect: config(` "<&> é\\u00e9" `)},
				{Name: "b", Request: config(`{"z": 1e3, "a": [1.0, 12345678901234567890]}`), Expect: config(`[ ]`)},
				{Name: "c", Request: config(`null`), Error: new("TIMEOUT")},
				{Name: "d", Request: config(` [] `), Expect: config(`{}`)},
			}
		},
	} {
		w, err := spec.From(kinds.LuaScript, luaScript(func(ls *v1alpha1.LuaScript) { change(&ls.Spec) }))
		if err != nil {
			t.Fatal(err)
		}
		r := registry.New(registry.Config{Store: memstore.New(), Engines: engines.Checkers(), Gates: allGates{}})
		published, err := r.Publish(t.Context(), registry.PublishRequest{
			Write:  registry.Write{Name: w.Name, Author: "test", Owner: w.Owner, By: access.Everybody("test")},
			Source: w.Source, Engine: script.EngineLua, Entrypoint: w.Entrypoint, Settings: &w.Settings,
		})
		if err != nil {
			t.Fatal(err)
		}
		got := published.Release.Settings
		if !got.Rollout.Equal(w.Settings.Rollout) || !script.SameTests(got.Tests, w.Settings.Tests) {
			t.Errorf("the registry has +\n%s", cmp.Diff(w.Settings, got))
		}
	}
}
