package scriptorium_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// untilApproved is a plan of one step, which waits for an approval.
func untilApproved() script.Plan {
	return script.Plan{Steps: []script.Step{{Percent: 50, Approval: true}}}
}

// onTrial waits until that version of the script is in step 1, and its agents run it.
func (c *canaries) onTrial(name string, active, candidate uint64) script.Release {
	c.t.Helper()
	r := c.is(name, "is on trial", func(r *script.Release) bool {
		t := r.Candidate
		return r.Active.Number == active && t != nil && t.Version.Number == candidate && t.Failed == "" && t.Step == 1
	})
	c.waits(name, "step 1 needs an approval: scriptctl rollout approve acme/"+name)
	return r
}

// everywhere waits until all agents answer so.
func (c *canaries) everywhere(name, want string) {
	c.t.Helper()
	for agent := range c.agents {
		c.answersOf(agent, name, want)
	}
}

// publishes publishes a version of the script, and returns what the registry answers.
func (c *canaries) publishes(name string, version int, change func(*registryclient.PublishRequest)) registryclient.Published {
	c.t.Helper()
	p := registryclient.PublishRequest{Name: of(name), Source: []byte(returning(version)), Write: by}
	if change != nil {
		change(&p)
	}
	published, err := c.client.Publish(c.t.Context(), p)
	if err != nil {
		c.t.Fatalf("publish %s: %v", name, err)
	}
	return published
}

// wrote fails the test unless the write of the script was made.
func (c *canaries) wrote(_ script.Release, changed bool, err error) {
	c.t.Helper()
	if err != nil || !changed {
		c.t.Fatalf("changed: %v, %v", changed, err)
	}
}

// TestChangesDuringARollout: what each change does to a script whose version 2 is on trial, to one
// whose candidate was given up, and to one that does not exist yet.
func TestChangesDuringARollout(t *testing.T) {
	needs.Time(t, "starts six processes")
	needs.NoRace(t)
	t.Parallel()
	c := startGated(t, 2, "")
	steps := untilApproved()
	onTrial := []string{
		"replaced", "same", "limits", "tests", "config", "trigger", "replanned", "unplanned", "kept", "other", "itself", "unpinned", "lifted",
		"pinned", "held", "back", "deleted", "imported",
	}
	over := []string{"failed", "failed-plan", "failed-import"}
	for _, name := range append(onTrial, over...) {
		c.plan(name, 1, nil)
		c.plan(name, 2, &steps)
	}
	for _, name := range append(onTrial, over...) {
		c.onTrial(name, 1, 2)
	}
	for _, name := range over {
		c.steer(name, registryclient.Abort)
	}
	c.firstVersions(steps)
	c.otherVersions(steps)
	c.sameVersion()
	c.otherPlans(steps)
	c.pinsByManifest()
	c.heldScripts()
	c.goesBack()
	c.importsCandidates()
	if _, err := c.client.Delete(t.Context(), of("deleted"), by); err != nil {
		t.Fatal(err)
	}
	if r, err := c.client.Get(t.Context(), of("deleted")); script.KindOf(err) != script.NotFound {
		t.Errorf("deleted during a rollout: %+v, %v", r.Candidate, err)
	}
	for agent := range c.agents {
		await(t, agent+" runs no version of what was deleted", func() bool {
			return c.fault(agent, "deleted") == script.NotFound && c.fault(agent, "deleted@2") == script.NotFound
		})
	}
}

// fault is the kind of the error of a call on the agent.
func (c *canaries) fault(agent, ref string) script.Kind {
	c.t.Helper()
	return script.KindOf(c.call(agent, ref))
}

// firstVersions: one with tests runs nowhere before they pass, and then everywhere. One without is
// live at once.
func (c *canaries) firstVersions(steps script.Plan) {
	c.t.Helper()
	test := script.Test{Name: "the number", Expect: []byte("2")}
	c.plan("first", 1, &steps, test)
	if why := c.fails("first"); !strings.HasSuffix(why, "tests[the number]: want 2, got 1") {
		c.t.Errorf("a first version that fails: %s", why)
	}
	for agent := range c.agents {
		await(c.t, agent+" says why it does not run", func() bool {
			err := c.call(agent, "first")
			return script.KindOf(err) == script.Disabled && strings.Contains(err.Error(), "want 2, got 1")
		})
	}
	c.plan("first", 2, &steps, test)
	c.live("first", 2)
	c.everywhere("first", "2")
	c.plan("untested", 1, &steps)
	c.live("untested", 1)
	c.everywhere("untested", "1")
}

// otherVersions: a source, limits, tests, config and a trigger each make a version, which replaces the
// candidate and is tested first.
func (c *canaries) otherVersions(steps script.Plan) {
	c.t.Helper()
	c.plan("replaced", 3, &steps, script.Test{Name: "the number", Expect: []byte("4")})
	if why := c.fails("replaced"); !strings.HasSuffix(why, "tests[the number]: want 4, got 3") {
		c.t.Errorf("another version is given up: %s", why)
	}
	c.everywhere("replaced", "1")
	for name, spec := range map[string]script.Spec{
		"limits":  {Limits: script.Limits{Instructions: 2_000_000}},
		"tests":   {Tests: []script.Test{{Name: "the number", Expect: []byte("2")}}},
		"config":  {Config: []byte(`{"a": 1}`)},
		"trigger": {Trigger: script.Trigger{Event: "http-request"}},
	} {
		before := c.onTrial(name, 1, 2).Candidate.Attempt
		c.publishes(name, 2, func(p *registryclient.PublishRequest) { p.Settings = &script.Settings{Spec: spec, Rollout: steps} })
		if r := c.onTrial(name, 1, 3); r.Candidate.Attempt == before || len(c.notes(name, "advance 1/3 step 1 of 1")) != 1 {
			c.t.Errorf("other %s do not begin anew: %q", name, c.notes(name, ""))
		}
	}
	if r := c.onTrial("tests", 1, 3); r.Candidate.Spec.Tests == nil {
		c.t.Error("the tests are not those of the candidate")
	}
}

// sameVersion: to publish the same again changes nothing, and neither do a switch, an owner or a limit of
// the history change the candidate.
func (c *canaries) sameVersion() {
	c.t.Helper()
	for _, name := range []string{"same", "failed"} {
		before := c.is(name, "has a candidate", func(r *script.Release) bool { return r.Candidate != nil })
		if p := c.publishes(name, 2, nil); p.Changed || p.Release.Revision != before.Revision || (p.Release.Candidate.Failed != "") != (name == "failed") {
			c.t.Errorf("the same version of %s: %+v", name, p.Release)
		}
	}
	before := c.onTrial("kept", 1, 2).Candidate
	c.wrote(c.client.SetEnabled(c.t.Context(), of("kept"), false, by))
	c.wrote(c.client.SetEnabled(c.t.Context(), of("kept"), true, by))
	c.publishes("kept", 2, func(p *registryclient.PublishRequest) {
		p.Settings = &script.Settings{Rollout: untilApproved(), HistoryLimit: 20}
	})
	c.wrote(c.client.SetOwner(c.t.Context(), of("kept"), "ann", by))
	r := c.onTrial("kept", 1, 2)
	if is := r.Candidate; is.Attempt != before.Attempt || !is.Since.Equal(before.Since) || r.Settings.HistoryLimit != 20 || r.Owner != "ann" {
		c.t.Errorf("the candidate was %+v, and is %+v", before, is)
	}
	c.answersOf(c.canary("kept"), "kept", "2")
}

// otherPlans: another plan begins again, also what was given up. Without tests and steps it is live.
func (c *canaries) otherPlans(steps script.Plan) {
	c.t.Helper()
	for _, name := range []string{"replanned", "failed-plan"} {
		before := c.is(name, "has a candidate", func(r *script.Release) bool { return r.Candidate != nil }).Candidate.Attempt
		other := steps
		other.ProgressDeadline = time.Hour
		c.publishes(name, 2, func(p *registryclient.PublishRequest) { p.Settings = &script.Settings{Rollout: other} })
		if r := c.onTrial(name, 1, 2); r.Candidate.Attempt == before {
			c.t.Errorf("%s goes on in attempt %d", name, before)
		}
	}
	c.publishes("unplanned", 2, func(p *registryclient.PublishRequest) { p.Settings = &script.Settings{} })
	c.live("unplanned", 2)
	c.everywhere("unplanned", "2")
}

// pinsByManifest: a publish may name a version that is retained, or its own, or none any more.
func (c *canaries) pinsByManifest() {
	c.t.Helper()
	pin := func(version uint64) func(*registryclient.PublishRequest) {
		return func(p *registryclient.PublishRequest) { p.Pin = &version }
	}
	c.publishes("other", 3, pin(1))
	c.live("other", 1)
	c.everywhere("other", "1")
	if _, err := c.client.Source(c.t.Context(), script.Ref{Name: of("other"), Version: 3}); err != nil {
		c.t.Errorf("the new version is not stored: %v", err)
	}
	c.publishes("itself", 3, pin(3))
	if r := c.onTrial("itself", 1, 3); !r.Pinned {
		c.t.Error("it is not pinned")
	}
	c.publishes("unpinned", 2, pin(1))
	c.live("unpinned", 1)
	c.publishes("unpinned", 2, pin(0))
	if r := c.onTrial("unpinned", 1, 2); r.Pinned {
		c.t.Error("it is pinned still")
	}
}

// heldScripts: a publish changes nothing that runs. When the hold is lifted, the latest version begins, if
// it does not run, or the one that the manifest names is live.
func (c *canaries) heldScripts() {
	c.t.Helper()
	ctx := c.t.Context()
	c.wrote(c.client.Pin(ctx, of("lifted"), 1, by))
	if p := c.publishes("lifted", 3, nil); p.Version.Number != 3 || p.Release.Active.Number != 1 || p.Release.Candidate != nil || p.Release.Hold == nil {
		c.t.Errorf("a publish to what is held: %+v", p.Release)
	}
	c.everywhere("lifted", "1")
	c.wrote(c.client.LiftHold(ctx, of("lifted"), by))
	c.onTrial("lifted", 1, 3)
	c.steer("lifted", registryclient.Promote)
	c.live("lifted", 3)
	c.wrote(c.client.Pin(ctx, of("lifted"), 0, by))
	c.wrote(c.client.LiftHold(ctx, of("lifted"), by))
	if r := c.is("lifted", "is not held", func(r *script.Release) bool { return r.Hold == nil }); r.Active.Number != 3 || r.Candidate != nil {
		c.t.Errorf("the latest version runs, and v%d has the candidate %+v", r.Active.Number, r.Candidate)
	}
	c.wrote(c.client.Pin(ctx, of("lifted"), 3, by))
	c.publishes("lifted", 3, func(p *registryclient.PublishRequest) { p.Pin = new(uint64(1)) })
	c.wrote(c.client.LiftHold(ctx, of("lifted"), by))
	c.live("lifted", 1)
	c.everywhere("lifted", "1")
}

// goesBack: a pin, a hold and a rollback end the candidate, and hold what is live at once.
func (c *canaries) goesBack() {
	c.t.Helper()
	ctx := c.t.Context()
	c.wrote(c.client.Pin(ctx, of("pinned"), 2, by))
	c.wrote(c.client.Pin(ctx, of("held"), 0, by))
	c.wrote(c.client.Rollback(ctx, of("back"), 0, by))
	for name, version := range map[string]string{"pinned": "2", "held": "1", "back": "1"} {
		if r, err := c.client.Get(ctx, of(name)); err != nil || r.Candidate != nil || r.Hold == nil {
			c.t.Errorf("%s has the candidate %+v, and the hold %+v; %v", name, r.Candidate, r.Hold, err)
		}
		c.everywhere(name, version)
	}
}

// importsCandidates: in another registry, a candidate begins again, and one that was given up stays so.
func (c *canaries) importsCandidates() {
	c.t.Helper()
	other := startGated(c.t, 1, "")
	if _, err := other.client.Import(c.t.Context(), registryclient.ImportOptions{Author: "ann"}, c.client.Export(c.t.Context(), "acme")); err != nil {
		c.t.Fatal(err)
	}
	before := c.onTrial("imported", 1, 2)
	r := other.onTrial("imported", 1, 2)
	if lines := other.notes("imported", "advance 1/2 step 1 of 1"); len(lines) == 0 || r.Candidate.Since.Equal(before.Candidate.Since) {
		c.t.Errorf("the candidate goes on as it was: %+v, %q", r.Candidate, lines)
	}
	other.answersOf("node-0", "imported", "2")
	if why := other.fails("failed-import"); why != "aborted by test" {
		c.t.Errorf("what was aborted is given up because of %s", why)
	}
	other.answersOf("node-0", "failed-import", "1")
}
