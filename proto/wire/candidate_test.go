package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byZones has a candidate that two steps with selectors, and one without, have selected.
func byZones() script.Release {
	r := release()
	r.Settings.Rollout.Steps = []script.Step{{Selector: "zone=a"}, {Percent: 1}, {Selector: "rack=7,zone=b", Percent: 50}}
	r.Candidate = &script.Candidate{
		Version: r.Retained[0], Spec: r.Settings.Spec, Attempt: 43, Step: 3, Threshold: 1 << 26, Percent: 50,
		Selections: []script.Selection{{Selector: "zone=a", Threshold: script.AllSelected}, {Selector: "rack=7,zone=b", Threshold: 1 << 31}},
	}
	return r
}

func TestSelectionsRoundTrip(t *testing.T) {
	want := byZones()
	got, err := wire.ToRelease(wire.FromRelease(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("came back changed (-want +got):\n%s", diff)
	}
}

// TestSelectionsForOlderAgents: an agent from before selectors drops them. It runs the candidate
// where steps without selectors select it alone, and finds no drift.
func TestSelectionsForOlderAgents(t *testing.T) {
	sent := byZones()
	m := wire.FromRelease(sent)
	m.Candidate.Selections = nil
	for _, s := range m.GetSettings().GetRollout().GetSteps() {
		s.Selector = nil
	}
	got, err := wire.ToRelease(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		old := got.RunsOn(script.Agent{Name: name, Labels: map[string]string{"zone": "a", "rack": "7"}})
		if seen := sent.RunsOn(script.Agent{Name: name}); old.Number != seen.Number {
			t.Errorf("%s runs %d, and the registry takes it for one that runs %d", name, old.Number, seen.Number)
		}
	}
	if wire.Fingerprint(got) != wire.Fingerprint(sent) {
		t.Error("the older agent has another fingerprint: it would find a drift")
	}
}

// TestSelectionsWithoutLabels would select all agents.
func TestSelectionsWithoutLabels(t *testing.T) {
	for name, change := range map[string]func(*scriptv1.Release){
		"none":             func(m *scriptv1.Release) { m.Candidate.Selections[0].Selector = nil },
		"one that is none": func(m *scriptv1.Release) { m.Candidate.Selections[0].Selector = map[string]string{"zone": ""} },
		"a step's":         func(m *scriptv1.Release) { m.Settings.Rollout.Steps[0].Selector = map[string]string{"a=b,zone": "c"} },
	} {
		m := wire.FromRelease(byZones())
		change(m)
		if _, err := wire.ToRelease(proto.CloneOf(m)); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want an INVALID error", name, err)
		}
	}
}

// gated has steps of all kinds of gates.
func gated() script.Release {
	r := release()
	prometheus := script.Gate{Kind: script.Prometheus, Source: "main", Query: "up", Min: script.Bound{Set: true, Value: -0.5}, Max: script.Bound{Set: true}}
	r.Settings.Rollout.Steps = []script.Step{
		{Percent: 1, Gate: prometheus}, {Percent: 2, Gate: script.Gate{Kind: script.Webhook, Source: "ci"}, Approval: true}, {Percent: 3, Approval: true}, {Percent: 4},
	}
	return r
}

func TestGatesRoundTrip(t *testing.T) {
	want := gated()
	got, err := wire.ToRelease(wire.FromRelease(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("came back changed (-want +got):\n%s", diff)
	}
}

// TestGatesForOlderRegistries: one that does not know gates drops them, and waits for a person. So
// does one that finds a gate which says nothing.
func TestGatesForOlderRegistries(t *testing.T) {
	for name, drop := range map[string]func(*scriptv1.Step){
		"dropped": func(s *scriptv1.Step) { s.Gate = nil },
		"emptied": func(s *scriptv1.Step) {
			if s.Gate != nil {
				s.Gate = &scriptv1.Gate{}
			}
		},
	} {
		m := wire.FromRelease(gated())
		for _, s := range m.GetSettings().GetRollout().GetSteps() {
			drop(s)
		}
		got, err := wire.ToRelease(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := wire.ToRelease(wire.FromRelease(got)) // a newer one reads what that wrote
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, true, false} {
			if a, b := got.Settings.Rollout.Steps[i], again.Settings.Rollout.Steps[i]; a.Approval != want || b.Approval != want {
				t.Errorf("%s: step %d waits for an approval: %v, and then %v; want %v", name, i+1, a.Approval, b.Approval, want)
			}
		}
	}
}
