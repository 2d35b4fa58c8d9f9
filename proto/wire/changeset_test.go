package wire_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ofChangeSet has a candidate that is part of a change set, and runs on some agents.
func ofChangeSet() script.Release {
	r := byZones()
	r.Candidate.Set = &script.Membership{
		Name: "cart-2", Attempt: 41, Scripts: []string{"cart", "route"},
		Plan: script.Plan{Steps: []script.Step{{Percent: 10, Pause: time.Minute}, {Selector: "zone=a", Approval: true}}, MaxErrorPercent: new(0.5)},
		Values: []script.StagedValue{
			{Key: "flags", Digest: script.DigestOf([]byte("on")), Size: 2},
			{Key: "prices/eu", Digest: script.DigestOf([]byte("{}")), Size: 2},
		},
	}
	return r
}

// sent returns what a reader gets of the message.
func sent(t *testing.T, m *scriptv1.Release) *scriptv1.Release {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := &scriptv1.Release{}
	if err := proto.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestChangeSetsOfCandidatesRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*script.Candidate){
		"on its way":       func(*script.Candidate) {},
		"tested":           func(c *script.Candidate) { c.Threshold, c.Selections, c.Step = 0, nil, 0 },
		"given up":         func(c *script.Candidate) { c.Threshold, c.Selections, c.Failed = 0, nil, "acme/cart: n1: it fails" },
		"frozen":           func(c *script.Candidate) { c.Threshold, c.Selections, c.Frozen = 0, nil, "by ann" },
		"without values":   func(c *script.Candidate) { c.Set.Values = nil },
		"without any plan": func(c *script.Candidate) { c.Set.Plan = script.Plan{} },
	} {
		want := ofChangeSet()
		change(want.Candidate)
		got, err := wire.ToRelease(sent(t, wire.FromRelease(want)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: came back changed (-want +got):\n%s", name, diff)
		}
	}
}

// TestChangeSetsForOlderSoftware: what does not know them takes the candidate for failed. So no such
// agent tests or runs it, no such registry moves it on, and neither finds a drift.
func TestChangeSetsForOlderSoftware(t *testing.T) {
	for _, of := range []script.Release{byZones(), ofChangeSet()} {
		m := sent(t, wire.FromRelease(of))
		m.Candidate.Set = nil // the field that it does not know
		got, err := wire.ToRelease(m)
		if err != nil {
			t.Fatal(err)
		}
		c, known := got.Candidate, of.Candidate.Set == nil
		if (c.Failed == "") != known || (c.Threshold != 0) != known || (len(c.Selections) > 0) != known || c.SelectsAny() != known {
			t.Errorf("part of a change set: %v: it sees %+v", !known, c)
		}
		if wire.Fingerprint(got) != wire.Fingerprint(of) {
			t.Error("it has another fingerprint: it would find a drift")
		}
	}
}

// TestCandidatesByThemselvesAreSentAsBefore: software of before change sets made this message.
func TestCandidatesByThemselvesAreSentAsBefore(t *testing.T) {
	const before = "CgRhY21lEgVyb3V0ZRgqIkkIAxIgVmPXBilNfk3vogNlW1BG2THXxv79STHn+I3yxHvPmZIaA2x1YSIGaGFuZGxlKAgyA2FubjoFdGhyZWVCCAiA4s+qBhAFKAQwATgBSikI" +
		"AhIgLXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIEaA2x1YUpJCAMSIFZj1wYpTX5N76IDZVtQRtkx18b+/Ukx5/iN8sR7z5mSGgNsdWEiBmhhbmRsZSgIMgNhbm46BXRo" +
		"cmVlQggIgOLPqgYQBVJWCgwIBxICCAEYASACKAMSDgoMaHR0cC1yZXF1ZXN0Ggd7ImEiOjF9IAUqKwoLIgkKBHpvbmUSAWEKAggBChgIMiIJCgRyYWNrEgE3IgkKBHpvbmUSAWJa" +
		"BgiB4s+qBmpeCAIQKxgDIICAgCAoMjIGCILiz6oGOgZuMTogbm9ABFoCbjFgB2gDcAJ4AYoBEQoJCgR6b25lEgFhEP////8PigEcCgkKBHJhY2sSATcKCQoEem9uZRIBYhCAgICA" +
		"CA=="
	data, err := base64.StdEncoding.DecodeString(before)
	if err != nil {
		t.Fatal(err)
	}
	want := &scriptv1.Release{}
	if err := proto.Unmarshal(data, want); err != nil {
		t.Fatal(err)
	}
	r := byZones()
	c := r.Candidate
	c.Failed, c.Lost, c.Calls, c.FailedCalls, c.Before, c.Approved, c.Tries = "n1: no", []string{"n1"}, 7, 3, 2, 1, 4
	c.Since = time.Unix(1_700_000_002, 0).UTC()
	if got := wire.FromRelease(r); !proto.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAMembershipThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*scriptv1.Membership){
		"no name":      func(m *scriptv1.Membership) { m.Name = "" },
		"no digest":    func(m *scriptv1.Membership) { m.Values[0].Digest = []byte("short") },
		"no order":     func(m *scriptv1.Membership) { m.Values[0].Key = "zzz" },
		"no size":      func(m *scriptv1.Membership) { m.Values[1].Size = -1 },
		"a path":       func(m *scriptv1.Membership) { m.Values[0].Key = "../../releases" },
		"no key":       func(m *scriptv1.Membership) { m.Values[0].Key = "" },
		"twice":        func(m *scriptv1.Membership) { m.Scripts = []string{"cart", "cart"} },
		"no script":    func(m *scriptv1.Membership) { m.Scripts[1] = "../route" },
		"all agents":   func(m *scriptv1.Membership) { m.Selections[0].Selector = nil },
		"a bad plan":   func(m *scriptv1.Membership) { m.Plan.Steps[1].Selector = map[string]string{"a=b,zone": "c"} },
		"no message":   func(m *scriptv1.Membership) { m.Values[0] = nil },
		"an empty one": func(m *scriptv1.Membership) { m.Reset() },
	} {
		m := wire.FromRelease(ofChangeSet())
		change(m.GetCandidate().GetSet())
		if _, err := wire.ToRelease(m); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want an INVALID error", name, err)
		}
	}
}

func TestChangeSetRoundTrip(t *testing.T) {
	digest := script.DigestOf([]byte("x"))
	want := script.ChangeSet{
		Tenant: "acme", Name: "cart-2", Revision: 42, Attempt: 41, State: script.ChangeSetRolledBack, Reason: "ann: too slow",
		Plan:    script.Plan{Steps: []script.Step{{Percent: 10}}},
		Scripts: []script.ChangedScript{{Name: "cart", Version: 1, Digest: digest}, {Name: "route", Version: 4, Digest: digest, Before: 3}},
		Values:  []script.ChangedValue{{StagedValue: script.StagedValue{Key: "flags", Digest: digest, Size: 1}, Before: 2, Version: 3}},
		Author:  "ann", Note: "for the sale", CreatedAt: time.Unix(1_700_000_000, 0).UTC(), ChangedAt: time.Unix(1_700_000_009, 7).UTC(),
		Fingerprint: script.DigestOf([]byte("request")),
	}
	got, err := wire.ToChangeSet(proto.CloneOf(wire.FromChangeSet(want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("came back changed (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*scriptv1.ChangeSet){
		"no tenant":      func(m *scriptv1.ChangeSet) { m.Tenant = "" },
		"no fingerprint": func(m *scriptv1.ChangeSet) { m.Fingerprint = []byte("short") },
		"no digest":      func(m *scriptv1.ChangeSet) { m.Scripts[0].Digest = []byte("short") },
		"no content":     func(m *scriptv1.ChangeSet) { m.Values[0].Value.Digest = []byte("short") },
	} {
		m := wire.FromChangeSet(want)
		change(m)
		if _, err := wire.ToChangeSet(m); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want an INVALID error", name, err)
		}
	}
}

// FuzzMembership: a candidate that is read can be looked at in every way, and is written as it was read.
func FuzzMembership(f *testing.F) {
	data, err := proto.Marshal(wire.FromRelease(ofChangeSet()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &scriptv1.Release{}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		r, err := wire.ToRelease(m)
		if err != nil {
			if script.KindOf(err) != script.Invalid {
				t.Errorf("kind of %v", err)
			}
			return
		}
		if c := r.Candidate; c != nil && c.Set != nil && c.Set.Validate() != nil {
			t.Errorf("accepted %+v", c.Set)
		}
		r.CandidateState()
		r.NextStep()
		r.StepOf()
		r.RunsOn(script.Agent{Name: "n1", Labels: map[string]string{"zone": "a"}})
		again, err := wire.ToRelease(sent(t, wire.FromRelease(r)))
		if err != nil {
			t.Fatalf("what was accepted is refused once it is sent on: %v", err)
		}
		if wire.Fingerprint(again) != wire.Fingerprint(r) {
			t.Error("it has another fingerprint once it is sent on")
		}
	})
}
