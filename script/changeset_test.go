package script_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// membership is of two scripts and two values.
func membership() *script.Membership {
	return &script.Membership{
		Name: "cart-2", Attempt: 7, Scripts: []string{"cart", "route"}, Plan: script.Plan{Steps: []script.Step{{Percent: 10}}},
		Values: []script.StagedValue{
			{Key: "flags", Digest: script.DigestOf([]byte("on")), Size: 2},
			{Key: "prices/eu", Digest: script.DigestOf([]byte("{}")), Size: 2},
		},
	}
}

// TestScriptsOfAChangeSetMoveTogether: an agent runs all of its candidates, or none of them.
func TestScriptsOfAChangeSetMoveTogether(t *testing.T) {
	names := []script.Name{{Tenant: "acme", Script: "cart"}, {Tenant: "acme", Script: "route"}, {Tenant: "acme", Script: "price"}}
	step := script.Step{Selector: "zone=a", Percent: 50}
	for how, selects := range map[string]func(*script.Candidate){
		"threshold": func(c *script.Candidate) { c.Threshold = 1 << 31 },
		"selection": func(c *script.Candidate) { c.Select(step, 1<<31) },
	} {
		ran := map[bool]int{}
		alone := 0
		for i := range 200 {
			agent := script.Agent{Name: fmt.Sprint("node-", i), Labels: map[string]string{"zone": "a"}}
			var first bool
			for j, name := range names {
				c := script.Candidate{Version: script.Version{Number: 2}, Set: membership()}
				selects(&c)
				r := script.Release{Name: name, Active: script.Version{Number: 1}, Candidate: &c}
				runs := r.RunsOn(agent).Number == 2
				if how == "selection" && c.StepSelects(name, step, agent) != runs {
					t.Errorf("%s: %s runs %s: %t, and the step says otherwise", how, agent.Name, name, runs)
				}
				if j == 0 {
					first = runs
				} else if runs != first {
					t.Errorf("%s: %s runs the candidate of %s: %t, and of %s: %t", how, agent.Name, names[0], first, name, runs)
				}
			}
			ran[first]++
			if (script.Bucket(agent.Name, names[0]) < 1<<31) != first {
				alone++ // it would not run the candidate of the script by itself, or it would
			}
		}
		if ran[true] < 50 || ran[false] < 50 || alone == 0 {
			t.Errorf("%s: of 200 agents %d run the change set; %d go by its name", how, ran[true], alone)
		}
	}
}

func TestPlanOfARelease(t *testing.T) {
	r := script.Release{Settings: script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 1}, {Percent: 2}}}}}
	if got := len(r.Plan().Steps); got != 2 {
		t.Errorf("without a candidate the plan has %d steps", got)
	}
	r.Candidate = &script.Candidate{Version: script.Version{Number: 2}}
	if got := len(r.Plan().Steps); got != 2 {
		t.Errorf("of a candidate by itself the plan has %d steps", got)
	}
	r.Candidate.Set = membership()
	if got := len(r.Plan().Steps); got != 1 || r.NextStep().Percent != 10 {
		t.Errorf("of a change set the plan has %d steps, and the next is %+v", got, r.NextStep())
	}
}

func TestStagedValues(t *testing.T) {
	m := membership()
	for key, want := range map[string]bool{"flags": true, "prices/eu": true, "prices": false, "": false, "zzz": false} {
		v, ok := m.Staged(key)
		if ok != want || ok && v.Key != key {
			t.Errorf("%q: %+v, %v", key, v, ok)
		}
	}
	if _, ok := (*script.Membership)(nil).Staged("flags"); ok {
		t.Error("no change set stages a value")
	}
}

func TestMembershipValidate(t *testing.T) {
	digest := script.DigestOf([]byte("x"))
	for name, tt := range map[string]struct {
		change func(*script.Membership)
		good   bool
	}{
		"good":         {func(*script.Membership) {}, true},
		"no values":    {func(m *script.Membership) { m.Values = nil }, true},
		"empty value":  {func(m *script.Membership) { m.Values[0].Size = 0 }, true},
		"largest":      {func(m *script.Membership) { m.Values[0].Size = script.MaxValueBytes }, true},
		"no name":      {func(m *script.Membership) { m.Name = "" }, false},
		"no label":     {func(m *script.Membership) { m.Name = "Cart" }, false},
		"no digest":    {func(m *script.Membership) { m.Values[1].Digest = script.Digest{} }, false},
		"negative":     {func(m *script.Membership) { m.Values[1].Size = -1 }, false},
		"too large":    {func(m *script.Membership) { m.Values[1].Size = script.MaxValueBytes + 1 }, false},
		"out of order": {func(m *script.Membership) { slices.Reverse(m.Values) }, false},
		"twice":        {func(m *script.Membership) { m.Values[1].Key = m.Values[0].Key }, false},
		"many scripts": {func(m *script.Membership) { m.Scripts = make([]string, script.MaxChangeSetScripts+1) }, false},
		"many values": {func(m *script.Membership) {
			for i := range script.MaxChangeSetValues {
				m.Values = append(m.Values, script.StagedValue{Key: fmt.Sprintf("z%02d", i), Digest: digest})
			}
		}, false},
	} {
		m := membership()
		tt.change(m)
		err := m.Validate()
		if (err == nil) != tt.good || err != nil && script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSameMembership(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*script.Membership)
		same   bool
	}{
		"equal":           {func(*script.Membership) {}, true},
		"another attempt": {func(m *script.Membership) { m.Attempt++ }, false},
		"another set":     {func(m *script.Membership) { m.Name = "cart-3" }, false},
		"another content": {func(m *script.Membership) { m.Values[0].Digest[0]++ }, false},
		"fewer values":    {func(m *script.Membership) { m.Values = m.Values[:1] }, false},
	} {
		m := membership()
		tt.change(m)
		if m.Same(membership()) != tt.same || membership().Same(m) != tt.same {
			t.Errorf("%s: want %v", name, tt.same)
		}
		c := script.Candidate{Set: m}
		if c.Is(membership()) != (m.Name == "cart-2" && m.Attempt == 7) {
			t.Errorf("%s: the candidate is of the attempt: %v", name, c.Is(membership()))
		}
	}
	var none *script.Membership
	if none.Same(membership()) || membership().Same(none) || !none.Same(nil) {
		t.Error("a candidate by itself is the same as one of a change set")
	}
}

// TestContentsOfAChangeSet: an agent needs and keeps what is staged for as long as the candidate is
// there.
func TestContentsOfAChangeSet(t *testing.T) {
	old, next := script.Version{Number: 1, Digest: script.DigestOf([]byte("old")), Size: 3}, script.Version{Number: 2, Digest: script.DigestOf([]byte("new")), Size: 3}
	m := membership()
	r := script.Release{Active: old, Retained: []script.Version{old, next}, Candidate: &script.Candidate{Version: next, Set: m}}
	want := []script.Content{{old.Digest, 3}, {next.Digest, 3}, {m.Values[0].Digest, 2}, {m.Values[1].Digest, 2}}
	if got := slices.Collect(script.Object{Release: &r}.Contents); !slices.Equal(got, want) {
		t.Errorf("it needs %v, want %v", got, want)
	}
	kept := []script.Digest{old.Digest, next.Digest, m.Values[0].Digest, m.Values[1].Digest}
	if got := slices.Collect(script.Object{Release: &r}.Retained); !slices.Equal(got, kept) {
		t.Errorf("it keeps %v, want %v", got, kept)
	}
	for i, d := range kept {
		if r.Stages(d) != (i >= 2) {
			t.Errorf("%v is staged: %v", d, r.Stages(d))
		}
	}
	r.Candidate = nil
	if got := len(slices.Collect(script.Object{Release: &r}.Contents)); got != 1 {
		t.Errorf("without the candidate it needs %d contents", got)
	}
	if got := slices.Collect(script.Object{Release: &r}.Retained); !slices.Equal(got, kept[:2]) {
		t.Errorf("without the candidate it keeps %v", got)
	}
}
