package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// text is all of the release, what it points to included.
func text(r script.Release) string {
	candidate, plan := r.Candidate, r.Settings.Rollout
	r.Candidate, r.Settings.Rollout = nil, script.Plan{}
	s := fmt.Sprintf("%+v", r)
	if candidate != nil {
		s += fmt.Sprintf(" candidate %+v", *candidate)
	}
	document, err := json.Marshal(plan)
	if err != nil {
		panic(err)
	}
	return s + string(document)
}

// tried is the commit of a further version, which is a candidate at first.
func tried(cur script.Release, source string) registry.Commit {
	c := publish(cur, cur.Name, source)
	c.Release.Active = cur.Active
	c.Release.Candidate = &script.Candidate{
		Version: c.Release.Retained[len(c.Release.Retained)-1],
		Attempt: 1 << 40, Tries: 3, Step: 1, Threshold: 1 << 31, Percent: 50, Since: at.Add(time.Minute), Failed: "agent-1: no", Paused: "no progress",
		Running: at.Add(time.Second), Lost: []string{"agent-2"}, Selections: []script.Selection{{Selector: "rack=7,zone=a", Threshold: 1 << 30}},
		Keys: []script.Selection{{Threshold: 1 << 28}}, Shadows: []script.Selection{{Threshold: 1 << 27}}, Calls: 9, FailedCalls: 2, Before: 3,
	}
	c.Release.Settings.Rollout = script.Plan{
		Steps: []script.Step{{By: script.ByShadow, Percent: 5}, {Percent: 10, Pause: 90 * time.Second}, {Percent: 50}, {Selector: "rack=7,zone=a", Gate: script.Gate{Kind: script.Prometheus, Source: "main", Query: "up", Max: script.Bound{Set: true, Value: 0.5}}}, {By: script.ByKey, Percent: 3}}, Key: "request.cookies.session", MaxErrorPercent: new(0.0), MinCalls: new(7),
		MaxErrorIncrease: new(0.5), MaxDiffPercent: new(1.5), MaxLatencyIncrease: script.LatencyIncrease{P50: 5, P99: 20},
		FailureLimit: script.Amount{Count: 2}, Tolerate: script.Amount{Percent: 3}, ProgressDeadline: time.Hour, OnDeadline: script.PauseOnDeadline, After: []script.Name{named(2)},
	}
	c.Release.Candidate.Spec.Config = []byte(`{"of":"the candidate"}`)
	c.Release.Candidate.Spec.Tests = []script.Test{
		{Name: "answers", Request: []byte(`{"a":[1]}`), Expect: []byte(`null`)}, {Name: "refuses", Error: script.Script},
	}
	c.Entry.Version, c.Entry.Digest, c.Entry.Candidate = cur.Active.Number, cur.Active.Digest, c.Publish.Number
	return c
}

// testCandidate: a release comes back with its candidate, tests and plan, however it is
// read, and what agents need of it is there.
func (h Harness) testCandidate(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	c := tried(first, "two")
	if source, ok := c.Announced(); !ok || string(source) != "two" {
		t.Errorf("the commit announces %q", source)
	}
	want := commit(t, s, c)
	want.Name = named(1)
	for name, read := range map[string]func(registry.Store) (script.Release, error){
		"Release": func(s registry.Store) (script.Release, error) { return s.Release(ctx, named(1)) },
		"Releases": func(s registry.Store) (script.Release, error) {
			list, _, err := s.Releases(ctx, "acme", script.Name{}, 1)
			if err != nil {
				return script.Release{}, err
			}
			return list[0], nil
		},
		"Snapshot": func(s registry.Store) (script.Release, error) {
			_, _, _, all := snapshot(t, s)
			return all[named(1)], nil
		},
		"Watch": func(s registry.Store) (script.Release, error) {
			for tx, err := range s.Watch(ctx, first.Revision) {
				return tx.Releases[0], err
			}
			return script.Release{}, nil
		},
	} {
		if got, err := read(s); err != nil || !same(got, want) {
			t.Errorf("%s: %s, %v; want %s", name, text(got), err, text(want))
		}
	}
	if source, err := s.Source(ctx, want.Candidate.Version.Digest); err != nil || string(source) != "two" {
		t.Errorf("the candidate's source: %q, %v", source, err)
	}
	if lines, err := s.History(ctx, named(1)); err != nil || lines[0].Candidate != 2 || lines[0].Version != 1 || lines[1].Candidate != 0 {
		t.Errorf("History: %+v, %v", lines, err)
	}
	counted := want
	counted.Candidate = new(*want.Candidate)
	counted.Candidate.Calls++
	want = commit(t, s, registry.Commit{Guard: want.Revision, Release: counted})
	want.Name = named(1)
	if lines, err := s.History(ctx, named(1)); err != nil || len(lines) != 2 {
		t.Errorf("History after a commit without a line: %+v, %v", lines, err)
	}
	if got, err := h.Reopen(t, s).Release(ctx, named(1)); err != nil || !same(got, want) {
		t.Errorf("opened again: %s, %v; want %s", text(got), err, text(want))
	}
}
