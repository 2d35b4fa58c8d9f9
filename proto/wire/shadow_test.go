package wire_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inShadow has a candidate in its second shadow step.
func inShadow() script.Release {
	r := release()
	r.Settings.Rollout.Steps = []script.Step{{By: script.ByShadow, Percent: 1, Selector: "zone=a"}, {By: script.ByShadow, Percent: 10}, {Percent: 50}}
	r.Settings.Rollout.MaxDiffPercent = new(0.5)
	r.Candidate = &script.Candidate{
		Version: r.Retained[0], Spec: r.Settings.Spec, Attempt: 43, Step: 2, Percent: 10,
		Shadows: []script.Selection{{Selector: "zone=a", Threshold: 7}, {Threshold: 70}},
	}
	return r
}

func TestShadowsRoundTrip(t *testing.T) {
	want := inShadow()
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

// TestShadowsForOlderSoftware: a registry from before shadow steps gets a plan that it refuses.
func TestShadowsForOlderSoftware(t *testing.T) {
	m := wire.FromRelease(inShadow())
	m.Candidate.Shadows = nil
	for _, s := range m.GetSettings().GetRollout().GetSteps() {
		s.Shadow = nil
	}
	got, err := wire.ToRelease(m)
	if err != nil {
		t.Fatal(err)
	}
	if got.Candidate.SelectsAny() {
		t.Errorf("an older agent runs the candidate: %+v", got.Candidate)
	}
	if err := got.Settings.Rollout.Validate("plan"); script.KindOf(err) != script.Invalid {
		t.Errorf("an older registry takes the plan: %v", err)
	}
}

func TestShadowCallsRoundTrip(t *testing.T) {
	want := &script.ShadowCalls{Step: 3, Equal: 10, Different: 2, Failed: 1, Slower: 4, Dropped: 5}
	if got := wire.ToShadowCalls(wire.FromShadowCalls(want)); *got != *want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, m := range map[string]*scriptv1.ShadowCalls{
		"nothing":             nil,
		"no step":             {Equal: 1},
		"a step that is none": {Step: 11, Equal: 1},
		"more slower ones":    {Step: 1, Equal: 1, Slower: 2},
		"too many":            {Step: 1, Dropped: math.MaxUint64},
	} {
		if got := wire.ToShadowCalls(m); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFindingsAreBounded: a process says what it likes of findings, and the agent keeps a part.
func TestFindingsAreBounded(t *testing.T) {
	want := script.ShadowFindings{
		Paths: map[string]uint64{"/a": 2, "": 1}, OtherPaths: 3,
		Samples: []script.ShadowSample{{Time: time.Unix(7, 0).UTC(), Active: 1, Candidate: 2, Input: "[1]", Live: "[2]", Shadow: "[3]", Paths: []string{"/a"}, Logs: []string{"info x"}}},
	}
	if diff := cmp.Diff(want, wire.ToFindings(wire.FromFindings(&want))); diff != "" {
		t.Errorf("came back changed (-want +got):\n%s", diff)
	}
	m := &scriptv1.ShadowFindings{OtherPaths: math.MaxUint64, Paths: []*scriptv1.ShadowPath{{Path: strings.Repeat("é", 1000), Count: math.MaxUint64}}}
	for i := range 1000 {
		path := strings.Repeat("/x", i+1)
		m.Paths = append(m.Paths, &scriptv1.ShadowPath{Path: path, Count: 1})
		m.Samples = append(m.Samples, &scriptv1.ShadowSample{Input: strings.Repeat("\xff", 1<<20), Paths: []string{path}, Logs: make([]string, 1000)})
	}
	got := wire.ToFindings(m)
	for range 1000 { // many say so, or one says it often
		again := wire.ToFindings(m)
		got.Add(&again)
	}
	if got.OtherPaths != script.MaxShadowCount || slices.Max(slices.Collect(maps.Values(got.Paths))) != script.MaxShadowCount {
		t.Errorf("counts overflow: %d at other paths, %v", got.OtherPaths, got.Paths)
	}
	if len(got.Paths) != script.MaxShadowPaths || len(got.Samples) != script.MaxShadowSamples || len(got.Samples[0].Input) > 8<<10 || len(got.Samples[0].Logs) > 100 {
		t.Errorf("%d paths, %d samples, the first with %d bytes and %d lines", len(got.Paths), len(got.Samples), len(got.Samples[0].Input), len(got.Samples[0].Logs))
	}
}
