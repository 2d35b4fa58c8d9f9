package controller_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/operator/controller"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

const owner = "luascript/default/route"

// wanted is what the LuaScript wants in most cases.
func wanted() spec.Wanted {
	return spec.Wanted{
		Engine: script.EngineLua,
		Name:   script.Name{Tenant: "acme", Script: "route"}, Source: []byte("return 2"), Entrypoint: "handle",
		Enabled: true, Settings: script.Settings{HistoryLimit: 10}, Owner: owner,
	}
}

func version(number uint64, source string) script.Version {
	return script.Version{Number: number, Digest: script.DigestOf([]byte(source)), Engine: "lua", Entrypoint: "handle"}
}

// has is what the registry has when there is nothing to do about wanted.
func has() script.Release {
	one, two := version(1, "return 1"), version(2, "return 2")
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 7, Active: two, Latest: 2, Enabled: true,
		Retained: []script.Version{one, two}, Settings: script.Settings{HistoryLimit: 10}, Owner: owner,
	}
}

// withCandidate has version 1 run, and the version of the number, which is retained, be on
// its way.
func withCandidate(number uint64, step int, failed string) func(*script.Release) {
	return func(r *script.Release) {
		v, _ := r.Retains(number)
		r.Active = r.Retained[0]
		r.Candidate = &script.Candidate{Version: v, Spec: r.Settings.Spec, Attempt: 7, Step: step, Failed: failed}
	}
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name string
		want func(*spec.Wanted)
		have func(*script.Release)
		kind controller.Kind
		says []controller.Change
	}{
		{name: "as it is", kind: controller.Keep},
		{
			name: "signed, and has no signature", want: func(w *spec.Wanted) { w.Signature = "{}" },
			kind: controller.Publish, says: []controller.Change{controller.Signed},
		},
		{
			name: "signed as it is", want: func(w *spec.Wanted) { w.Signature = "{}" }, have: func(r *script.Release) { r.Retained[1].Signature = "{}" },
			kind: controller.Keep,
		},
		{name: "the registry has a signature", have: func(r *script.Release) { r.Retained[1].Signature = "{}" }, kind: controller.Keep},
		{
			name: "nothing there", have: func(r *script.Release) { *r = script.Release{} },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "deleted behind its back", have: func(r *script.Release) { *r = script.Release{Name: r.Name, Revision: 8, Latest: 2, Deleted: true} },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "nothing there, pinned and disabled", want: func(w *spec.Wanted) { w.Pin, w.Enabled = 1, false }, have: func(r *script.Release) { *r = script.Release{} },
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.Pinned, controller.Disabled},
		},
		{
			name: "another source", want: func(w *spec.Wanted) { w.Source = []byte("return 3") },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "an older source again is a new version", want: func(w *spec.Wanted) { w.Source = []byte("return 1") },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "another entrypoint", want: func(w *spec.Wanted) { w.Entrypoint = "" },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "another engine made the newest", have: func(r *script.Release) { r.Retained[1].Engine = "rego" },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "nothing retained", have: func(r *script.Release) { r.Retained = nil },
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "pin of what is active", want: func(w *spec.Wanted) { w.Pin = 2 },
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "pin of an older version", want: func(w *spec.Wanted) { w.Pin = 1 },
			kind: controller.Publish, says: []controller.Change{controller.RolledBack},
		},
		{
			name: "pin of a newer version", want: func(w *spec.Wanted) { w.Pin = 2 },
			have: func(r *script.Release) { r.Active, r.Pinned = r.Retained[0], true },
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "pinned already", want: func(w *spec.Wanted) { w.Pin = 1 },
			have: func(r *script.Release) { r.Active, r.Pinned = r.Retained[0], true },
			kind: controller.Keep,
		},
		{
			name: "pin of what does not exist: the registry says so", want: func(w *spec.Wanted) { w.Pin = 9 },
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "pin and another source", want: func(w *spec.Wanted) { w.Pin, w.Source = 1, []byte("return 3") },
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.RolledBack},
		},
		{
			name: "no pin any more", have: func(r *script.Release) { r.Active, r.Pinned = r.Retained[0], true },
			kind: controller.Publish, says: []controller.Change{controller.Unpinned},
		},
		{
			name: "disabled", want: func(w *spec.Wanted) { w.Enabled = false },
			kind: controller.Publish, says: []controller.Change{controller.Disabled},
		},
		{
			name: "enabled", have: func(r *script.Release) { r.Enabled = false },
			kind: controller.Publish, says: []controller.Change{controller.Enabled},
		},
		{
			name: "limits", want: func(w *spec.Wanted) { w.Settings.Limits.Instructions = 5 },
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.Configured},
		},
		{
			name: "config", want: func(w *spec.Wanted) { w.Settings.Config = []byte(`{"a":1}`) },
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.Configured},
		},
		{
			name: "trigger", have: func(r *script.Release) { r.Settings.Trigger.Event = "http-request" },
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.Configured},
		},
		{
			name: "a plan", want: func(w *spec.Wanted) { w.Settings.Rollout.Steps = []script.Step{{Percent: 5}} },
			kind: controller.Publish, says: []controller.Change{controller.Configured},
		},
		{
			name: "the same plan", want: func(w *spec.Wanted) { w.Settings.Rollout.MaxErrorPercent = new(5.0) },
			have: func(r *script.Release) { r.Settings.Rollout.MaxErrorPercent = new(5.0) },
			kind: controller.Keep,
		},
		{
			name: "tests", want: func(w *spec.Wanted) { w.Settings.Tests = []script.Test{{Name: "a"}} },
			have: func(r *script.Release) {
				r.Settings.Tests = []script.Test{{Name: "a", Expect: []byte("1")}}
			},
			kind: controller.Publish, says: []controller.Change{controller.Published, controller.Configured},
		},
		{name: "what was published is being tested", have: withCandidate(2, 0, ""), kind: controller.Keep},
		{name: "it runs on some agents", have: withCandidate(2, 1, ""), kind: controller.Keep},
		{name: "it was given up, or aborted by somebody", have: withCandidate(2, 0, "no"), kind: controller.Keep},
		{
			name: "the first version is being tested",
			have: func(r *script.Release) { r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec} },
			kind: controller.Keep,
		},
		{
			name: "something else than what was given up", want: func(w *spec.Wanted) { w.Source = []byte("return 3") },
			have: withCandidate(2, 0, "no"),
			kind: controller.Publish, says: []controller.Change{controller.Published},
		},
		{
			name: "back to what runs, as a pin", want: func(w *spec.Wanted) { w.Pin = 1 }, have: withCandidate(2, 1, ""),
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "a pin of the candidate makes it run", want: func(w *spec.Wanted) { w.Pin = 2 }, have: withCandidate(2, 1, ""),
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "it was published with a pin, and is being tested: it is not made to run", want: func(w *spec.Wanted) { w.Pin = 2 },
			have: func(r *script.Release) { withCandidate(2, 0, "")(r); r.Pinned = true },
			kind: controller.Keep,
		},
		{
			name: "it was published with a pin, and given up", want: func(w *spec.Wanted) { w.Pin = 2 },
			have: func(r *script.Release) { withCandidate(2, 0, "no")(r); r.Pinned = true },
			kind: controller.Keep,
		},
		{
			name: "it was published with a pin, and another is wanted now", want: func(w *spec.Wanted) { w.Pin = 1 },
			have: func(r *script.Release) { withCandidate(2, 0, "no")(r); r.Pinned = true },
			kind: controller.Publish, says: []controller.Change{controller.Pinned},
		},
		{
			name: "no owner", have: func(r *script.Release) { r.Owner = "" },
			kind: controller.Publish, says: []controller.Change{controller.TakenOver},
		},
		{
			name: "another owner: the registry refuses it", have: func(r *script.Release) { r.Owner = "luascript/other/route" },
			kind: controller.Publish, says: []controller.Change{controller.TakenOver},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, have := wanted(), new(has())
			if tt.want != nil {
				tt.want(&want)
			}
			if tt.have != nil {
				tt.have(have)
			}
			if have.Revision == 0 {
				have = nil
			}
			got := controller.Decide(controller.Situation{Want: &want, Owner: owner, Have: have, Allowed: true, Bounded: true})
			if got.Kind != tt.kind || !slices.Equal(got.Changes, tt.says) {
				t.Errorf("got %s %v, want %s %v", got.Kind, got.Changes, tt.kind, tt.says)
			}
		})
	}
}

// TestDecideOnHolds: what somebody holds is not undone, and what is wanted is stored. The
// annotation sets a hold, and the hold that it has set ends with it.
func TestDecideOnHolds(t *testing.T) {
	person := &script.Hold{Author: "ann", Note: "carts lost"}
	its := func(note string) *script.Hold { return &script.Hold{Owner: owner, Note: note} }
	declaring := func(h *script.Hold, version uint64) *script.Hold { h.Declared = version; return h }
	for _, tt := range []struct {
		name string
		hold *script.Hold
		note *string // of the annotation
		pin  uint64
		code string
		kind controller.Kind
		says []controller.Change
	}{
		{name: "held by a person", hold: person, kind: controller.Keep},
		{name: "held by a person, and something new", hold: person, code: "return 3", kind: controller.Publish, says: []controller.Change{controller.Published}},
		{name: "held by a person, and a pin", hold: person, pin: 2, kind: controller.Publish, says: []controller.Change{controller.Pinned}},
		{name: "held by a person, and the pin that is known", hold: declaring(&script.Hold{Author: "ann"}, 2), pin: 2, kind: controller.Keep},
		{name: "held by a person, and the pin is gone", hold: declaring(&script.Hold{Author: "ann"}, 2), kind: controller.Publish, says: []controller.Change{controller.Unpinned}},
		{name: "held by a person, and an annotation", hold: person, note: new("incident 12"), kind: controller.Keep},
		{name: "an annotation", note: new("incident 12"), kind: controller.Hold},
		{name: "an annotation without a reason", note: new(""), kind: controller.Hold},
		{name: "an annotation, before something new", note: new("incident 12"), code: "return 3", kind: controller.Hold},
		{name: "held by the annotation", hold: its("incident 12"), note: new("incident 12"), kind: controller.Keep},
		{name: "held for another reason", hold: its("incident 12"), note: new("incident 13"), kind: controller.Hold},
		{name: "the annotation is gone", hold: its("incident 12"), kind: controller.Lift},
		{name: "the annotation is gone, after something new", hold: its("incident 12"), code: "return 3", kind: controller.Publish, says: []controller.Change{controller.Published}},
	} {
		want, have := wanted(), has()
		want.Pin = tt.pin
		if tt.code != "" {
			want.Source = []byte(tt.code)
		}
		if have.Hold = tt.hold; tt.hold != nil {
			have.Active, have.Pinned = have.Retained[0], true
		}
		s := controller.Situation{Want: &want, Owner: owner, Hold: tt.note, Have: &have, Allowed: true, Bounded: true}
		if got := controller.Decide(s); got.Kind != tt.kind || !slices.Equal(got.Changes, tt.says) {
			t.Errorf("%s: got %s %v, want %s %v", tt.name, got.Kind, got.Changes, tt.kind, tt.says)
		}
		s.Allowed = false
		if got := controller.Decide(s); tt.kind != controller.Keep && got.Kind != controller.Refuse {
			t.Errorf("%s, and not allowed: %s", tt.name, got.Kind)
		}
	}
	wrong := has()
	wrong.Candidate = &script.Candidate{Version: wrong.Active, Spec: wrong.Settings.Spec}
	wrong.Active = wrong.Retained[0]
	if got := controller.Decide(controller.Situation{Owner: owner, Hold: new("why"), Have: &wrong, Allowed: true, Bounded: true}); got.Kind != controller.Hold {
		t.Errorf("the spec is wrong, and a candidate goes on: %s", got.Kind)
	}
	wrong.Hold = its("why")
	if got := controller.Decide(controller.Situation{Owner: owner, Have: &wrong, Allowed: true, Bounded: true}); got.Kind != controller.Refuse {
		t.Errorf("the annotation is gone, and the spec is wrong: %s", got.Kind)
	}
	for of, kind := range map[string]controller.Kind{"": controller.Hold, "luascript/dev/route": controller.Publish} {
		others := has()
		others.Owner = of
		if got := controller.Decide(controller.Situation{Want: new(wanted()), Owner: owner, Hold: new("why"), Have: &others, Allowed: true, Bounded: true}); got.Kind != kind {
			t.Errorf("a script of %q: %s", of, got.Kind)
		}
	}
	first := has()
	first.Candidate = &script.Candidate{Version: first.Active, Spec: first.Settings.Spec}
	if got := controller.Decide(controller.Situation{Want: new(wanted()), Owner: owner, Hold: new("why"), Have: &first, Allowed: true, Bounded: true}); got.Kind != controller.Keep {
		t.Errorf("nothing of it runs yet: %s", got.Kind)
	}
}

func TestDecideOfADeletion(t *testing.T) {
	tests := []struct {
		name string
		have *script.Release
		want controller.Kind
	}{
		{"its script", new(has()), controller.Delete},
		{"no script", nil, controller.LetGo},
		{"a tombstone", &script.Release{Revision: 9, Deleted: true}, controller.LetGo},
		{"somebody else's script", &script.Release{Revision: 9, Owner: "luascript/other/route"}, controller.LetGo},
		{"nobody's script: it was never taken over", &script.Release{Revision: 9}, controller.LetGo},
	}
	for _, tt := range tests {
		if got := controller.Decide(controller.Situation{Deleting: true, Owner: owner, Have: tt.have}); got.Kind != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got.Kind, tt.want)
		}
	}
}

// TestDecideNamesTheSettings: Decide names the changed settings as the spec does.
func TestDecideNamesTheSettings(t *testing.T) {
	want := wanted()
	want.Settings = script.Settings{
		Spec: script.Spec{
			Limits:  script.Limits{Instructions: 5},
			Trigger: script.Trigger{Event: "http-request"},
			OnError: script.OnError{Status: 429}, Decisions: &script.Decisions{Errors: true},
			Config: []byte("{}"),
			Tests:  []script.Test{{Name: "a"}},
		},
		HistoryLimit: 3,
		Rollout:      script.Plan{MaxErrorPercent: new(5.0)},
	}
	got := controller.Decide(controller.Situation{Want: &want, Owner: owner, Have: new(has()), Allowed: true, Bounded: true}).Configured
	if all := []string{"limits", "trigger", "onError", "log", "config", "revisionHistoryLimit", "rollout", "tests"}; !slices.Equal(got, all) {
		t.Errorf("got %q, want %q", got, all)
	}
}

// TestDecideHoldsBack: what is wrong, or not allowed, or not bounded yet, is not published.
func TestDecideHoldsBack(t *testing.T) {
	want, other, foreign := wanted(), has(), has()
	other.Enabled = false // so that the spec differs
	foreign.Owner = ""
	tests := []struct {
		name string
		s    controller.Situation
		want controller.Kind
	}{
		{"the spec is wrong", controller.Situation{Have: &other, Allowed: true, Bounded: true}, controller.Refuse},
		{"the namespace may not", controller.Situation{Want: &want, Have: &other, Bounded: true}, controller.Refuse},
		{"the namespace may not any more, and all is as wanted", controller.Situation{Want: &want, Have: new(has()), Bounded: true}, controller.Keep},
		{"the first publish, without bounds", controller.Situation{Want: &want, Allowed: true}, controller.Await},
		{"neither allowed nor bounded", controller.Situation{Want: &want}, controller.Refuse},
		{"a script of nobody, without bounds", controller.Situation{Want: &want, Have: &foreign, Allowed: true}, controller.Await},
		{"it was published, and the tenant's settings are wrong now", controller.Situation{Want: &want, Have: &other, Allowed: true}, controller.Publish},
		{"it was published, and somebody deleted it", controller.Situation{Want: &want, Allowed: true, Known: true}, controller.Publish},
		{"deleted without bounds", controller.Situation{Deleting: true, Have: &other}, controller.Delete},
	}
	for _, tt := range tests {
		tt.s.Owner = owner
		if got := controller.Decide(tt.s); got.Kind != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got.Kind, tt.want)
		}
	}
}

// TestDecideOnLibraries: a script keeps the libraries that it was published with, until its LuaScript changes.
func TestDecideOnLibraries(t *testing.T) {
	want, have := wanted(), has()
	lib := script.Library{Name: script.Name{Tenant: "acme", Script: "lib"}, Version: 1, Digest: script.DigestOf([]byte("return {}")), Source: "return {}"}
	have.Settings.Libraries = []script.Library{lib}
	have.Active = have.Active.With(have.Settings.Spec)
	have.Retained[1] = have.Active
	have.Settings.Libraries[0].Source = "" // which the registry does not send
	decide := func() controller.Action {
		return controller.Decide(controller.Situation{Want: &want, Owner: owner, Have: &have, Allowed: true, Bounded: true, Known: true})
	}
	if a := decide(); a.Kind != controller.Keep {
		t.Errorf("nothing changed: %+v", a)
	}
	want.Settings.Config = []byte(`{"a":1}`)
	if a := decide(); a.Kind != controller.Publish {
		t.Errorf("another config: %+v", a)
	}
	held, newest := have, have.Settings.Spec // the newest version does not run, so the release does not say what it runs with
	held.Active, held.Pinned, held.Hold, held.Settings.Spec = held.Retained[0], true, &script.Hold{Author: "ann"}, script.Spec{}
	for config, kind := range map[string]controller.Kind{"": controller.Keep, `{"a":1}`: controller.Publish} {
		want.Settings.Config = []byte(config)
		if a := controller.Decide(controller.Situation{Want: &want, Owner: owner, Have: &held, Newest: &newest, Allowed: true, Bounded: true, Known: true}); a.Kind != kind {
			t.Errorf("held, and the config %q: %+v", config, a)
		}
	}
}
