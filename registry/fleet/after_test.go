package fleet_test

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWhatARolloutComesAfter: a candidate waits for scripts whose latest version is not live, and
// for agents that could not activate them; and publish says so, and which of them wait for it.
func TestWhatARolloutComesAfter(t *testing.T) {
	b, lib := newBench(t), script.Name{Tenant: "acme", Script: "lib"}
	r := b.candidate(route, 11, 11, 0)
	r.Settings.Rollout.After = []script.Name{lib}
	b.apply(r)
	b.hear("n1", 11)
	check := func(when, want string, lacking int) {
		t.Helper()
		got, n := "", 0
		for _, c := range b.Candidacies() {
			if c.Release.Name == route && len(c.After) > 0 {
				got, n = c.After[0].Why, c.After[0].Lacking
			}
		}
		if got != want || n != lacking {
			t.Errorf("%s it waits because %q, and %d agents lack it; want %q, %d", when, got, n, want, lacking)
		}
		var warnings []string
		if want != "" {
			warnings = []string{"rollout.after: " + want}
		}
		if said, err := b.Unmet(t.Context(), "ann", route, r.Settings.Rollout); err != nil || !slices.Equal(said, warnings) {
			t.Errorf("%s publish warns %q, want %q; %v", when, said, warnings, err)
		}
	}
	check("at first", "acme/lib does not exist", 0)

	changed := func(revision script.Revision, change func(*script.Release)) {
		next := b.release(lib, revision)
		change(&next)
		b.apply(next)
	}
	changed(12, func(*script.Release) {})
	check("when an agent has yet to activate it", "", 1)
	b.hear("n1", 12)
	check("when it is live", "", 0)
	without := b.report("n1", 12)
	without.Failures = []fleet.Failure{{Name: lib, Revision: 12, Err: script.Errorf(script.Unavailable, "disk", "it is full")}}
	b.Heard(without)
	check("when an agent could not activate it", "", 1)
	b.hear("n1", 12)
	changed(13, func(r *script.Release) { r.Candidate = b.candidate(lib, 13, 13, 0).Candidate })
	check("on trial", "version 2 of acme/lib is not live yet", 0)
	changed(14, func(r *script.Release) {
		r.Candidate = b.candidate(lib, 13, 13, 0).Candidate
		r.Candidate.Failed = "no"
	})
	check("when it failed", "version 2 of acme/lib was given up", 0)
	changed(15, func(r *script.Release) {
		r.Candidate = b.candidate(lib, 13, 13, 0).Candidate
		r.Candidate.Frozen = "by ann"
	})
	check("frozen", "version 2 of acme/lib waits for the end of a freeze", 0)
	changed(16, func(r *script.Release) { r.Latest, r.Hold = 2, &script.Hold{Author: "ann"} })
	check("held", "acme/lib is held at version 1, and its latest is 2", 0)
	changed(17, func(r *script.Release) { r.Latest = 2; r.Pinned = true })
	b.hear("n1", 17)
	check("pinned by its manifest", "", 0)
	changed(18, func(r *script.Release) { r.Enabled = false })
	check("disabled", "acme/lib is disabled", 0)
	changed(19, func(r *script.Release) { r.Deleted = true })
	check("deleted", "acme/lib does not exist", 0)
	b.Apply(registry.Transaction{Revision: 20, Unreadable: []registry.Unreadable{{Key: "releases/acme/lib", Revision: 20}}})
	check("unreadable", "the record of acme/lib cannot be read", 0)

	changed(21, func(r *script.Release) { r.Settings.Rollout.After = []script.Name{{Tenant: "acme", Script: "third"}} })
	third := b.release(script.Name{Tenant: "acme", Script: "third"}, 22)
	third.Settings.Rollout.After = []script.Name{lib, route}
	b.apply(third)
	said, err := b.Unmet(t.Context(), "ann", route, r.Settings.Rollout)
	if want := []string{"rollout.after: acme/lib comes after acme/route itself: if both have a candidate, neither becomes live"}; err != nil || !slices.Equal(said, want) {
		t.Errorf("in a circle publish warns %q, want %q; %v", said, want, err)
	}
}
