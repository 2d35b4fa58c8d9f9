package local_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestVersionsAreWhole: what a version runs with belongs to it. A candidate with another config
// changes nothing elsewhere; a rollback and a pin bring the config along with the source; a call
// of a retained version gets that version's.
func TestVersionsAreWhole(t *testing.T) {
	for isolation, settings := range map[string]script.TenantSettings{
		"in the agent":            {},
		"in a process of its own": {Isolation: script.IsolationProcess},
	} {
		t.Run(isolation, func(t *testing.T) { testVersionsAreWhole(t, settings) })
	}
}

func testVersionsAreWhole(t *testing.T, settings script.TenantSettings) {
	t.Helper()
	s, ctx, by := start(t), t.Context(), registryclient.Write{Author: "test"}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	configured := func(n int, plan script.Plan) script.Release {
		t.Helper()
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: []byte("function handle() return config.n end"), Write: by,
			Settings: &script.Settings{
				Spec: script.Spec{
					Config: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
					Limits: script.Limits{Timeout: script.MaxLimits().Timeout},
				},
				Rollout: plan,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Release
	}
	everywhere := func(what, ref, want string) {
		t.Helper()
		for i, client := range s.agents {
			result, err := client.Call(ctx, ref)
			if err != nil || string(result.Values[0]) != want {
				t.Errorf("%s: agent-%d answers %s with %v, %v; want %s", what, i+1, ref, result, err, want)
			}
		}
	}
	first := configured(1, script.Plan{})
	s.converge(first.Revision)
	everywhere("the first", name.String(), "1")

	second := configured(2, script.Plan{Steps: []script.Step{{Percent: 34, Pause: time.Hour}}})
	if second.Latest != 2 || second.Active.Digest != second.Candidate.Version.Digest || second.Active.Spec == second.Candidate.Version.Spec {
		t.Fatalf("another config: %+v", second)
	}
	var running registryclient.ScriptStatus
	for fleet, err := range s.registry.WatchStatus(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		if running = fleet.Scripts[0]; running.Trials != nil && running.Trials.Running == 2 {
			break // on both of the agents that 34 percent select
		}
	}
	for i, client := range s.agents {
		want := "1"
		if running.Release.RunsOn(script.Agent{Name: fmt.Sprintf("agent-%d", i+1)}).Number == 2 {
			want = "2"
		}
		result, err := client.Call(ctx, name.String())
		if err != nil || string(result.Values[0]) != want {
			t.Errorf("agent-%d beside the canary: %v, %v; want %s", i+1, result, err, want)
		}
	}
	everywhere("beside the canary", name.String()+"@1", "1")
	everywhere("the candidate", name.String()+"@2", "2")

	back, _, err := s.registry.Rollback(ctx, name, 0, by)
	if err != nil {
		t.Fatal(err)
	}
	s.converge(back.Revision)
	everywhere("rolled back", name.String(), "1")
	everywhere("rolled back", name.String()+"@2", "2")
	pinned, _, err := s.registry.Pin(ctx, name, 2, by)
	if err != nil {
		t.Fatal(err)
	}
	s.converge(pinned.Revision)
	everywhere("pinned", name.String(), "2")
	everywhere("pinned", name.String()+"@1", "1")

	for number, want := range map[uint64]string{1: `{"n":1}`, 2: `{"n":2}`} {
		e, err := s.registry.Source(ctx, script.Ref{Name: name, Version: number})
		if err != nil || string(e.Spec.Config) != want {
			t.Errorf("version %d has the config %s, %v", number, e.Spec.Config, err)
		}
	}
}
