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

// withKey returns the key of each call.
func withKey(key string) func(script.KeySource) string {
	return func(script.KeySource) string { return key }
}

func TestPersonalVersions(t *testing.T) {
	table := cache.NewTable()
	is := func(what, key, want string) {
		t.Helper()
		got := ""
		if r := table.Personal("acme/route", withKey(key)); r != nil {
			got = r.Name.Script
		}
		if got != want {
			t.Errorf("%s: %s runs %q, want %q", what, key, got, want)
		}
	}
	is("at first", "ann-1", "")
	ann, bob := personalOf("ann", "ann-1", nil), personalOf("bob", "bob-1", nil)
	table.Update([]*cache.Release{bob, ann}, nil)
	is("two", "ann-1", "route-dev-ann")
	is("two", "bob-1", "route-dev-bob")
	is("two", "", "")
	is("two", "ann-2", "")
	if r := table.Personal("acme/route@1", withKey("ann-1")); r != nil {
		t.Errorf("a call of a version runs %v", r.Name)
	}
	if r := table.Personal("other/route", withKey("ann-1")); r != nil {
		t.Errorf("a call of another tenant runs %v", r.Name)
	}
	if n := testing.AllocsPerRun(10, func() { table.Personal("acme/route", withKey("bob-1")) }); n > 1 { // the closure's
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
	last := table.Personal("acme/route", func(script.KeySource) string { asked++; return fmt.Sprint("key-", script.MaxPersonal) })
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
