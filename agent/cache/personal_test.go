package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/script"
)

// personalOf returns a release that is the personal version of acme/route for the key.
func personalOf(who, key string, change func(*script.Release)) *cache.Release {
	v := script.Version{Number: 1, Digest: script.DigestOf([]byte(who))}
	r := script.Release{
		Name: script.Name{Tenant: "acme", Script: "route-dev-" + who}, Revision: 1, Active: v, Latest: 1, Enabled: true, Retained: []script.Version{v},
		Settings: script.Settings{Spec: script.Spec{Personal: &script.Personal{Of: "route", Key: key, Until: time.Now().Add(time.Hour)}}},
	}
	if change != nil {
		change(&r)
	}
	return cache.NewRelease(r)
}

var route = script.Name{Tenant: "acme", Script: "route"}

// live returns a release of acme/route.
func live(change func(*script.Release)) *cache.Release {
	v := script.Version{Number: 1, Digest: script.DigestOf([]byte("live"))}
	r := script.Release{Name: route, Revision: 1, Active: v, Latest: 1, Enabled: true, Retained: []script.Version{v}}
	if change != nil {
		change(&r)
	}
	return cache.NewRelease(r)
}

// withKey returns the key of each call.
func withKey(key string) func(script.KeySource) string {
	return func(script.KeySource) string { return key }
}

func TestPersonalVersions(t *testing.T) {
	table := cache.NewTable()
	is := func(what, key, want string) {
		t.Helper()
		got := ""
		if r := table.Personal(route, withKey(key)); r != nil {
			got = r.Name.Script
		}
		if got != want {
			t.Errorf("%s: %s runs %q, want %q", what, key, got, want)
		}
	}
	is("at first", "ann-1", "")
	table.Update([]*cache.Release{live(nil)}, nil)
	ann, bob := personalOf("ann", "ann-1", nil), personalOf("bob", "bob-1", nil)
	table.Update([]*cache.Release{bob, ann}, nil)
	is("two", "ann-1", "route-dev-ann")
	is("two", "bob-1", "route-dev-bob")
	is("two", "", "")
	is("two", "ann-2", "")
	if r := table.Personal(script.Name{Tenant: "acme", Script: "route@1"}, withKey("ann-1")); r != nil {
		t.Errorf("a call of a version runs %v", r.Name)
	}
	if r := table.Personal(script.Name{Tenant: "other", Script: "route"}, withKey("ann-1")); r != nil {
		t.Errorf("a call of another tenant runs %v", r.Name)
	}
	other := withKey("nobody's")
	if n := testing.AllocsPerRun(10, func() { table.Personal(route, other) }); n > 0 {
		t.Errorf("%v allocations", n)
	}

	table.Update([]*cache.Release{personalOf("ann", "ann-2", nil)}, nil)
	is("another key", "ann-1", "")
	is("another key", "ann-2", "route-dev-ann")
	table.Update([]*cache.Release{personalOf("ann", "ann-2", func(r *script.Release) { r.Enabled = false })}, nil)
	is("disabled", "ann-2", "")
	table.Update([]*cache.Release{personalOf("ann", "ann-2", func(r *script.Release) {
		r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec}
	})}, nil)
	is("not tested yet", "ann-2", "")
	table.Update([]*cache.Release{personalOf("ann", "ann-2", func(r *script.Release) { r.Settings.Personal.Until = time.Now() })}, nil)
	is("expired", "ann-2", "")
	table.Update([]*cache.Release{personalOf("ann", "ann-2", func(r *script.Release) { r.Settings.Personal = nil })}, nil)
	is("personal no more", "ann-2", "")
	table.Update(nil, []script.Name{bob.Name})
	is("deleted", "bob-1", "")
}

// TestManyPersonalVersions: what a registry lets through beyond the bound costs nothing.
func TestManyPersonalVersions(t *testing.T) {
	table := cache.NewTable()
	var all []*cache.Release
	for i := range script.MaxPersonal + 1 {
		all = append(all, personalOf(fmt.Sprintf("p%02d", i), fmt.Sprint("key-", i), nil))
	}
	table.Update(all, nil)
	asked := 0
	table.Update([]*cache.Release{live(nil)}, nil)
	last := table.Personal(route, func(script.KeySource) string { asked++; return fmt.Sprint("key-", script.MaxPersonal) })
	if last != nil || asked != script.MaxPersonal {
		t.Errorf("the last runs %v, after %d lookups", last, asked)
	}
}

// TestPersonalIsKept: a release that comes back from the disk is personal, as it was.
func TestPersonalIsKept(t *testing.T) {
	ann := personalOf("ann", "ann-1", nil)
	again := cache.NewRelease(ann.Script())
	if !again.Personal.Equal(ann.Personal) || ann.Personal == nil {
		t.Errorf("came back as %+v, was %+v", again.Personal, ann.Personal)
	}
}

// TestPersonalOfWhatDoesNotRun: what disables a script, or deletes it, ends its personal versions, too, as in a chain.
func TestPersonalOfWhatDoesNotRun(t *testing.T) {
	table := cache.NewTable()
	table.Update([]*cache.Release{live(nil), personalOf("ann", "ann-1", nil)}, nil)
	is := func(what string, runs bool) {
		t.Helper()
		if r := table.Personal(route, withKey("ann-1")); (r != nil) != runs {
			t.Errorf("%s: a call with the key runs %v", what, r)
		}
	}
	is("live", true)
	table.Update([]*cache.Release{live(func(r *script.Release) { r.Enabled = false })}, nil)
	is("disabled", false)
	table.Update([]*cache.Release{live(func(r *script.Release) { r.Candidate = &script.Candidate{Version: r.Active} })}, nil)
	is("not tested yet", false)
	table.Update([]*cache.Release{live(nil)}, nil)
	is("enabled", true)
	table.Update(nil, []script.Name{route})
	is("deleted", false)
}

// TestPastPersonal: a process that is ahead of its agent runs what the agent has chosen.
func TestPastPersonal(t *testing.T) {
	table := cache.NewTable()
	table.KeepPast(2)
	ann := personalOf("ann", "ann-1", nil)
	table.Update([]*cache.Release{live(nil), ann}, nil)
	table.Update(nil, []script.Name{ann.Name})
	if got := table.Edition(ann.Name.String(), 1); got != ann {
		t.Errorf("the edition is %v", got)
	}
}

// BenchmarkPersonal compares calls with and without personal versions, and what a change of many takes.
func BenchmarkPersonal(b *testing.B) {
	none, some := cache.NewTable(), cache.NewTable()
	many := []*cache.Release{live(nil)}
	for i := range script.MaxPersonal {
		many = append(many, personalOf(fmt.Sprintf("p%02d", i), fmt.Sprint("key-", i), nil))
	}
	some.Update(many, nil)
	key, other := withKey("nobody's"), script.Name{Tenant: "acme", Script: "other"}
	for what, lookup := range map[string]func(){
		"none on the agent": func() { none.Personal(route, key) },
		"of other scripts":  func() { some.Personal(other, key) },
		"with another key":  func() { some.Personal(route, key) },
	} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lookup()
			}
		})
	}
	for i := range 10_000 {
		v := script.Version{Number: 1}
		many = append(many, cache.NewRelease(script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprintf("s%d-dev-ann", i)}, Revision: 1, Active: v, Enabled: true,
			Settings: script.Settings{Spec: script.Spec{Personal: &script.Personal{Of: fmt.Sprint("s", i), Key: "ann-12345678"}}},
		}))
	}
	b.Run("10,000 in one update", func(b *testing.B) {
		for b.Loop() {
			cache.NewTable().Update(many, nil)
		}
	})
}
