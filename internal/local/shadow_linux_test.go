package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestShadow: a candidate in a shadow step answers no call. The registry counts how its results differ,
// collects where, and gives it up by maxDiffPercent; one that does not differ goes on.
func TestShadow(t *testing.T) {
	for isolation, settings := range map[string]script.TenantSettings{
		"in the agent":            {},
		"in a process of its own": {Isolation: script.IsolationProcess},
	} {
		t.Run(isolation, func(t *testing.T) { testShadow(t, settings) })
	}
}

func testShadow(t *testing.T, settings script.TenantSettings) {
	t.Helper()
	s, ctx := start(t), t.Context()
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	publish := func(source string, plan script.Plan) script.Release {
		t.Helper()
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: []byte(source), Write: registryclient.Write{Author: "test"}, Settings: &script.Settings{Spec: patient(), Rollout: plan},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Release
	}
	const active = `function handle(r) return {allow = r.n % 2 == 0, n = r.n} end`
	s.converge(publish(active, script.Plan{}).Revision)

	stop := s.callAlways(func(n int, values []json.RawMessage, err error) {
		if want := fmt.Sprintf(`{"allow":%v,"n":%d}`, n%2 == 0, n); err != nil || len(values) != 1 || string(values[0]) != want {
			t.Errorf("call %d answers %s, %v, want %s", n, values, err, want)
		}
	})
	defer stop()

	shadow := script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 100, Approval: true}}}
	differs := publish(strings.Replace(active, "n = r.n}", "n = r.n + (r.n % 4 == 0 and 1 or 0)}", 1), shadow)
	found := s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Trials != nil && st.Trials.Shadow != nil && st.Trials.Shadow.Different > 0 && st.Trials.Shadow.Equal > 10
	})
	if differs.Latest != 2 || found.Trials.Calls == 0 || found.Active != len(s.agents) {
		t.Errorf("the status: %+v, %+v", found, found.Trials)
	}
	d, err := s.registry.ShadowDiff(ctx, name, nil)
	if err != nil || d.Candidate != 2 || d.Active != 1 || d.Calls.Different == 0 || d.Findings.Paths["/n"] == 0 || len(d.Findings.Samples) == 0 {
		t.Fatalf("the difference: %+v, %v", d, err)
	}
	if sample := d.Findings.Samples[0]; fmt.Sprint(sample.Paths) != "[/n]" || !strings.HasPrefix(sample.Input, `[{"n":`) {
		t.Errorf("a sample: %+v", sample)
	}

	shadow.MaxDiffPercent, shadow.Steps[0].Approval = new(5.0), false
	publish(active+" -- the same", shadow)
	s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Release.Candidate == nil && st.Release.Active.Number == 3
	})
	publish(strings.Replace(active, "n = r.n}", "n = -r.n}", 1), shadow)
	failed := s.status(func(st *registryclient.ScriptStatus) bool {
		return st.Release.Candidate != nil && st.Release.Candidate.Failed != ""
	})
	if why := failed.Release.Candidate.Failed; !strings.Contains(why, "maxDiffPercent") || failed.Release.Active.Number != 3 {
		t.Errorf("given up: %s", why)
	}
	if d, err := s.registry.ShadowDiff(ctx, name, nil); err != nil || d.Calls.Different == 0 || d.Findings.Paths["/n"] != d.Calls.Different {
		t.Errorf("the difference after the end: %+v, %v", d, err)
	}
}

// status waits until the status of the script is as wanted.
func (s *stack) status(as func(*registryclient.ScriptStatus) bool) registryclient.ScriptStatus {
	s.t.Helper()
	return s.statusOf(name, as)
}

func (s *stack) statusOf(name script.Name, as func(*registryclient.ScriptStatus) bool) registryclient.ScriptStatus {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var last registryclient.ScriptStatus
	for fleet, err := range s.registry.WatchStatus(ctx, name) {
		if err != nil {
			s.t.Fatalf("%v; the last status: %+v, %+v", err, last, last.Trials)
		}
		if last = fleet.Scripts[0]; as(&last) {
			break
		}
	}
	return last
}

// callAlways calls the script on all agents, each time with another number, until stop is called.
func (s *stack) callAlways(answered func(n int, values []json.RawMessage, err error)) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	for i, client := range s.agents {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				result, err := client.Call(s.t.Context(), name.String(), json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)))
				if err != nil {
					answered(n, nil, err)
					continue
				}
				answered(n, result.Values, nil)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}
