package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// comers are candidates that come after one script, which as many agents could not activate.
func comers(scripts, failing int) *fleet.Fleet {
	const agents = 1000
	f, lib := fleet.New(fleet.Config{}), script.Name{Tenant: "acme", Script: "lib"}
	releases := []script.Release{{Name: lib, Revision: 1, Active: script.Version{Number: 1}, Latest: 1, Enabled: true}}
	for i := range scripts {
		releases = append(releases, script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Revision: script.Revision(i + 2), Active: script.Version{Number: 1},
			Candidate: &script.Candidate{Version: script.Version{Number: 2}, Attempt: uint64(i + 2)},
			Settings:  script.Settings{Rollout: script.Plan{After: []script.Name{lib}}},
		})
	}
	head := script.Revision(scripts + 1)
	f.Reset(registry.State{Fleet: fleetID, Head: head, Releases: releases})
	for i := range agents {
		r := fleet.Report{Fleet: fleetID, Agent: fmt.Sprint("n", i), Incarnation: "1", Sequence: 1, Activated: head}
		if i < failing {
			r.Failures = []fleet.Failure{{Name: lib, Revision: head, Err: &script.Error{Kind: script.Unavailable, Message: "no"}}}
		}
		f.Heard(r)
	}
	return f
}

// TestManyComeAfterOne: a look at 4,000 candidates that come after one script does not look at the
// agents that could not activate it for each of them, and no lock is held for so long.
func TestManyComeAfterOne(t *testing.T) {
	const scripts = 4000
	look := func(f *fleet.Fleet) time.Duration {
		began := time.Now()
		if list := f.Candidacies(); len(list) != scripts {
			t.Fatalf("%d candidates", len(list))
		}
		return time.Since(began)
	}
	without, with := comers(scripts, 0), comers(scripts, 1000)
	none, all := look(without), look(with)
	for range 20 { // others are at work, too: the shortest looks count
		if all <= 5*none {
			return
		}
		none, all = min(none, look(without)), min(all, look(with))
	}
	t.Errorf("a look takes %v if all agents lack the script, and %v if none does", all, none)
}

// TestLongCircles: publish finds a circle of many scripts, and one beside many that are in none.
func TestLongCircles(t *testing.T) {
	b := newBench(t)
	name := func(kind string, i int) script.Name { return script.Name{Tenant: "acme", Script: fmt.Sprint(kind, i)} }
	var releases []script.Release
	add := func(of script.Name, after ...script.Name) {
		r := b.release(of, script.Revision(len(releases)+1))
		r.Settings.Rollout.After = after
		releases = append(releases, r)
	}
	const many = 5000
	for i := range many { // a ring, which route closes, and a tree
		next := name("ring", i+1)
		if i == many-1 {
			next = route
		}
		add(name("ring", i), next)
		add(name("tree", i), name("tree", 2*i+1), name("tree", 2*i+2))
	}
	add(name("both", 0), name("tree", 0), name("ring", many-2))
	b.reset(fleetID, script.Revision(len(releases)), releases...)
	for _, tt := range []struct {
		after script.Name
		want  bool
	}{{name("ring", 0), true}, {name("ring", many-1), true}, {name("both", 0), true}, {name("tree", 0), false}} {
		said, err := b.Unmet(t.Context(), "ann", route, script.Plan{After: []script.Name{tt.after}})
		if err != nil || (len(said) == 1) != tt.want {
			t.Errorf("%s: publish warns %q, %v; want it to: %v", tt.after, said, err, tt.want)
		}
	}
}

// TestADeletedScriptComesAfterNone: what its plan was makes no circle.
func TestADeletedScriptComesAfterNone(t *testing.T) {
	b, lib := newBench(t), script.Name{Tenant: "acme", Script: "lib"}
	r := b.release(lib, 1)
	r.Deleted, r.Settings.Rollout.After = true, []script.Name{route}
	b.reset(fleetID, 1, r)
	said, err := b.Unmet(t.Context(), "ann", route, script.Plan{After: []script.Name{lib}})
	if want := "rollout.after: acme/lib does not exist"; err != nil || len(said) != 1 || said[0] != want {
		t.Errorf("publish warns %q, %v; want %s", said, err, want)
	}
}
