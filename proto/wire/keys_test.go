package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byKeys has a candidate in its second step by key.
func byKeys() script.Release {
	r := release()
	r.Settings.Rollout.Key = "request.headers.x-user"
	r.Settings.Rollout.Steps = []script.Step{{By: script.ByKey, Percent: 1, Selector: "zone=a"}, {By: script.ByKey, Percent: 10}, {Percent: 50}}
	r.Candidate = &script.Candidate{
		Version: r.Retained[0], Spec: r.Settings.Spec, Attempt: 43, Step: 2, Percent: 10,
		Keys: []script.Selection{{Selector: "zone=a", Threshold: 7}, {Threshold: 70}},
	}
	return r
}

func TestKeysRoundTrip(t *testing.T) {
	want := byKeys()
	for _, set := range []*script.Membership{nil, {Name: "spring", Attempt: 4, Scripts: []string{"route"}, Plan: want.Settings.Rollout}} {
		want.Candidate.Set = set
		got, err := wire.ToRelease(wire.FromRelease(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("came back changed (-want +got):\n%s", diff)
		}
	}
}

// TestKeysForOlderSoftware: an agent from before steps by key runs the active version alone. For a
// registry from before, the plan is one that it refuses, in each step by key.
func TestKeysForOlderSoftware(t *testing.T) {
	for _, set := range []*script.Membership{nil, {Name: "spring", Attempt: 4, Scripts: []string{"route"}}} {
		sent := byKeys()
		if sent.Candidate.Set = set; set != nil {
			set.Plan = sent.Settings.Rollout
		}
		m := wire.FromRelease(sent)
		m.Candidate.Keys = nil
		plans := []*scriptv1.Plan{m.GetSettings().GetRollout()}
		if set != nil {
			m.Candidate.Set.Keys = nil
			plans = append(plans, m.GetCandidate().GetSet().GetPlan())
		}
		for _, plan := range plans {
			plan.Key = ""
			for _, s := range plan.GetSteps() {
				s.Keys = nil
			}
		}
		got, err := wire.ToRelease(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range []script.Agent{{Name: "n1"}, {Name: "n2", Labels: map[string]string{"zone": "a"}}} {
			if n := got.RunsOn(agent).Number; n != sent.Active.Number || got.KeysOn(agent) != 0 {
				t.Errorf("%s runs version %d", agent.Name, n)
			}
		}
		for i, s := range got.Plan().Steps[:2] {
			if err := (script.Plan{Steps: []script.Step{s}}).Validate("p"); err == nil {
				t.Errorf("step %d is %s, which takes agents", i+1, s)
			}
		}
		if wire.Fingerprint(got) != wire.Fingerprint(sent) {
			t.Error("the older agent has another fingerprint: it would find a drift")
		}
	}
}

// TestKeysOfNobody: labels that cannot be are refused, so that they do not stand for all agents.
func TestKeysOfNobody(t *testing.T) {
	for name, change := range map[string]func(*scriptv1.Release){
		"candidate": func(m *scriptv1.Release) { m.Candidate.Keys[0].Selector = map[string]string{"zone": ""} },
		"plan": func(m *scriptv1.Release) {
			m.Settings.Rollout.Steps[0].Keys.Selector = map[string]string{"zone": ""}
		},
	} {
		m := wire.FromRelease(byKeys())
		change(m)
		if _, err := wire.ToRelease(m); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
