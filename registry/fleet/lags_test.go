package fleet_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lag is a report of an agent on which the process of route's tenant lacks what is above a revision.
func (b *bench) lag(agent string, activated, above script.Revision) {
	r := b.report(agent, activated)
	r.Lags = map[string]script.Revision{route.Tenant: above}
	b.Heard(r)
}

// TestALag: an agent on which the tenant's process lags is neither active nor failed, and is waited for.
// That counts for the tenant's later releases alone.
func TestALag(t *testing.T) {
	b := newBench(t)
	cart, auth := script.Name{Tenant: "shop", Script: "cart"}, script.Name{Tenant: "acme", Script: "auth"}
	b.hear("b", 10)
	b.commit(auth, 11)
	b.commit(route, 12)
	b.commit(cart, 13)
	b.hear("a", 13)
	changed := b.Changed()
	b.lag("b", 13, 11)
	<-changed
	b.want("1/0/0 of 2", false, "b")
	if s := b.route(); s.Lagging != 1 || len(s.Failures) != 0 {
		t.Errorf("%+v", s)
	}
	for _, name := range []script.Name{cart, auth} {
		if s := b.Status(fleet.Filter{Tenant: name.Tenant, Script: name.Script}).Scripts[0]; !s.Converged || s.Lagging != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if got := len(b.converged); got != 2 {
		t.Errorf("converged: %v", b.converged)
	}
	b.pass(3 * time.Second)
	changed = b.Changed()
	b.hear("b", 13)
	<-changed
	b.want("2/0/0 of 2", true, "b")
	if b.took() != 3*time.Second {
		t.Errorf("it took %v, and was live when the lag ended", b.took())
	}

	b.commit(route, 14)
	b.hear("a", 14)
	b.lag("b", 14, 13)
	b.want("1/0/0 of 2", false, "b")
	b.pass(16 * time.Second)
	b.hear("a", 14)
	b.Sweep() // b is unknown: nobody waits for it
	b.want("1/0/1 of 2", true, "a")
	if b.took() < 0 {
		t.Error("it has not converged on the agents that are connected")
	}
	b.lag("b", 14, 13)
	b.want("1/0/0 of 2", false, "b")
	r := b.report("b", 14)
	r.Leaving = true
	b.Heard(r)
	b.want("1/0/0 of 1", true, "a")
}

// TestACandidateWaitsForALag, and is not given up for it. The process runs the active version meanwhile.
func TestACandidateWaitsForALag(t *testing.T) {
	b := newBench(t)
	above, below := aboveAndBelow(1)
	b.apply(b.candidate(route, 11, 11, half))
	b.trial(above[0], 11, 11, "")
	b.hear(above[0], 11)
	r := b.report(below[0], 11)
	r.Trials = []fleet.Trial{{Name: route, Version: 2, Attempt: 11}}
	r.Lags = map[string]script.Revision{route.Tenant: 10}
	b.Heard(r)
	c := b.Candidacies()[0]
	if c.Running != 0 || c.Members != 1 || c.Activated != 1 || c.Failure != nil {
		t.Errorf("while it lags: %+v", c)
	}
	s := b.route()
	if s.Active != 2 || s.Failed != 0 || s.Lagging != 1 || s.Trials.Running != 0 || s.Trials.Waiting != 1 || s.Trials.WaitingFor[0] != below[0] || s.Trials.WaitingWhy == "" {
		t.Errorf("while it lags: %+v, trials %+v", s, s.Trials)
	}
	r.Sequence, r.Lags = r.Sequence+1, nil
	b.sequence++
	b.Heard(r)
	if c := b.Candidacies()[0]; c.Running != 1 || c.Activated != 2 {
		t.Errorf("when it has it: %+v", c)
	}
	if s := b.route(); s.Active != 1 || s.Lagging != 0 || s.Trials.Running != 1 || s.Trials.Waiting != 0 {
		t.Errorf("when it has it: %+v, trials %+v", s, s.Trials)
	}
}

// TestWhatComesAfterALag waits for it, too.
func TestWhatComesAfterALag(t *testing.T) {
	b := newBench(t)
	cart := script.Name{Tenant: "shop", Script: "cart"}
	next := b.candidate(cart, 11, 11, 0)
	next.Settings.Rollout.After = []script.Name{route}
	b.Apply(registry.Transaction{Revision: 11, Releases: []script.Release{next}})
	b.lag("a", 11, 9)
	if c := b.Candidacies()[0]; len(c.After) != 1 || c.After[0].Lacking != 1 {
		t.Errorf("%+v", c.After)
	}
	b.hear("a", 11)
	if c := b.Candidacies()[0]; len(c.After) != 0 {
		t.Errorf("%+v", c.After)
	}
}
