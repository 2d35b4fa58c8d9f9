package editions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// approval is what a step waits for that has no gate any more.
const approval = "step 1 needs an approval: scriptctl rollout approve acme/route"

// gated is a plan of two zones, each with a gate.
func gated(zones ...string) (plan script.Plan) {
	for _, zone := range zones {
		plan.Steps = append(plan.Steps, script.Step{Selector: script.AgentSelector("zone=" + zone), Gate: script.Gate{Kind: script.Webhook, Source: "ci"}})
	}
	return plan
}

// gates are the gates of the script's plan.
func gates(x script.Release) (n int) {
	for _, step := range x.Settings.Rollout.Steps {
		if !step.Gate.IsZero() {
			n++
		}
	}
	return n
}

// inStep reports whether the candidate is in the step.
func inStep(k int) func(script.Release) bool {
	return func(x script.Release) bool {
		return x.Candidate != nil && x.Candidate.Step == k && x.Candidate.Failed == ""
	}
}

// TestAgents: a gate and an order between scripts hold with agents of both editions. Their
// registries are of this one: what is upgraded first.
func TestAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.publish(route, 1, script.Plan{})
	r.publish(lib, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")

	// The zones of both, each first.
	version := 1
	next := func(first, second string, before, after *agentclient.Client) {
		version++
		w.hook.say(false)
		r.publish(route, version, gated(first, second))
		w.answers(before, fmt.Sprint(version))
		r.waits("gate webhook/ci: the build")
		if got := answer(t.Context(), after); got != fmt.Sprint(version-1) {
			t.Errorf("zone %s answers %s before the gate passes", second, got)
		}
		w.hook.say(true)
		w.answers(after, fmt.Sprint(version))
		r.live(route, uint64(version)) //nolint:gosec // it is small
	}
	next("a", "b", a, b)
	next("b", "a", b, a)

	// acme/lib waits for its gate, and so acme/route waits for acme/lib.
	w.hook.say(false)
	r.publish(lib, 2, gated("a"))
	version++
	r.publish(route, version, script.Plan{After: []script.Name{lib}})
	r.waits("version 2 of acme/lib is not live yet (rollout.after)")
	w.hook.say(true)
	w.answers(a, fmt.Sprint(version))
	w.answers(b, fmt.Sprint(version))
}

// TestOlderRegistries: agents of this edition work with registries of the one before, as after a
// downgrade of these.
func TestOlderRegistries(t *testing.T) {
	w := start(t)
	r := w.registry(older)
	a, b := w.agent(newer, "a", r), w.agent(older, "b", r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	r.publish(route, 2, script.Plan{Steps: []script.Step{{Selector: "zone=a", Approval: true}}})
	w.answers(a, "2")
	r.waits(approval)
	if _, _, err := r.Steer(t.Context(), route, registryclient.Approve, 0, byAnn); err != nil {
		t.Fatal(err)
	}
	w.answers(b, "2")
	if _, _, err := r.PutValue(t.Context(), beta, []byte("on"), byBob); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Publish(t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("function handle() return kv.get('beta') end"), Write: byAnn}); err != nil {
		t.Fatal(err)
	}
	// The plan is still there.
	w.answers(a, `"on"`)
	// A registry of that edition drops gates, and asks a person.
	r.publish(lib, 1, script.Plan{})
	r.publish(lib, 2, gated("a"))
	x := r.is(lib, "the candidate is in its step", inStep(1))
	if gates(x) != 0 || !x.Settings.Rollout.Steps[0].Approval {
		t.Errorf("the step is %+v, want an approval in the place of the gate", x.Settings.Rollout.Steps[0])
	}
}

// TestGatesWhileAnOlderRegistryLeads: the leader drops the gates of what it moves. Their steps wait
// for a person then, also when all registries are upgraded.
func TestGatesWhileAnOlderRegistryLeads(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	old.leads()
	r := w.registry(newer)
	a, b := w.agent(older, "a", old, r), w.agent(newer, "b", old, r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")
	w.hook.say(true) // it would pass, if anybody asked
	r.publish(route, 2, gated("a", "b"))
	w.answers(a, "2")
	old.waits(approval)
	r.waits(approval)
	if x := r.is(route, "the candidate is in its step", inStep(1)); gates(x) != 0 {
		t.Errorf("a move of an older registry keeps %d gates: docs/rollouts.md says that it drops them", gates(x))
	}
	old.stop()
	r.leads()
	r.waits(approval)
	if got := answer(t.Context(), b); got != "1" || w.hook.count() != 0 {
		t.Errorf("the other zone answers %s, and the webhook was asked %d times", got, w.hook.count())
	}

	// As the page says: publish the plan again after the upgrade.
	w.hook.say(false)
	r.publish(route, 2, gated("a", "b"))
	r.waits("gate webhook/ci: the build")
	w.hook.say(true)
	w.answers(b, "2")
	r.live(route, 2)
}

// TestGatesWhileAnOlderRegistryFollows: a candidate that waits for a gate does not pass while a
// registry that does not know gates leads, and passes by its gate when one leads that does.
func TestGatesWhileAnOlderRegistryFollows(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	r.leads()
	old := w.registry(older)
	a, b := w.agent(older, "a", r, old), w.agent(newer, "b", r, old)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")
	r.publish(route, 2, gated("a", "b"))
	r.waits("gate webhook/ci: the build")
	old.waits(approval)

	r.stop()
	old.leads()
	w.hook.say(true)
	asked := w.hook.count()
	r = w.registry(newer) // it follows
	r.is(route, "the candidate is in its step", inStep(1))
	_, _, err := r.Steer(t.Context(), route, registryclient.Approve, 0, byAnn)
	if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "needs no approval but its gate webhook/ci") {
		t.Errorf("an approval in the place of the gate: %v", err)
	}
	// Another script's way through that leader takes longer than a look at this one.
	old.publish(lib, 1, script.Plan{})
	old.publish(lib, 2, script.Plan{Steps: []script.Step{{Selector: "zone=a"}, {Selector: "zone=b"}}})
	old.live(lib, 2)
	if got := answer(t.Context(), b); got != "1" || w.hook.count() != asked {
		t.Errorf("the other zone answers %s, and the webhook was asked %d times more", got, w.hook.count()-asked)
	}

	old.stop()
	r.leads()
	w.answers(b, "2")
	r.live(route, 2)
	lines, err := r.History(t.Context(), route)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[:2] {
		if !strings.Contains(line.Note, "gate webhook/ci: the build") {
			t.Errorf("it went on because of %q, want the gate", line.Note)
		}
	}
}

// TestAnOlderRegistryWrites: any change that a client makes at a registry that does not know gates
// drops them, and their steps wait for a person.
func TestAnOlderRegistryWrites(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	r.leads()
	old := w.registry(older)
	a, b := w.agent(newer, "a", r, old), w.agent(older, "b", r, old)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")
	r.publish(route, 2, gated("a", "b"))
	r.waits("gate webhook/ci: the build")
	old.rewrites()
	w.hook.say(true)
	r.waits(approval)
	if x := r.is(route, "the candidate is in its step", inStep(1)); gates(x) != 0 {
		t.Errorf("the change keeps %d gates", gates(x))
	}
	if got := answer(t.Context(), b); got != "1" {
		t.Errorf("the other zone answers %s", got)
	}
}
