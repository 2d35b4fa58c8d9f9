package editions_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// byKeys is a plan that ends with an approval of the candidate for almost all keys.
var byKeys = script.Plan{Steps: []script.Step{{By: script.ByKey, Percent: 99, Approval: true}}}

// ofKeys returns how many of the calls with different keys the agent answers with this.
func ofKeys(t *testing.T, a *agentclient.Client, want string) (n int) {
	t.Helper()
	for i := range keys {
		if answer(agentclient.ContextWithKey(t.Context(), fmt.Sprint("user-", i)), a) == want {
			n++
		}
	}
	return n
}

// keys are so many that one of them at least runs a candidate for almost all of them.
const keys = 20

// waitsForKeys waits until the candidate of acme/route waits for one agent of the edition before.
func (r *registry) waitsForKeys(agent string, of int) {
	r.t.Helper()
	want := fmt.Sprintf("1 of %d agents do not know steps by key: upgrade agentd there", of)
	await(r.t, "the candidate waits for "+agent, func() error {
		trials, err := r.trials()
		if err == nil && (trials.Why != want || fmt.Sprint(trials.WaitingFor) != fmt.Sprint([]string{agent})) {
			err = fmt.Errorf("it says %+v", trials)
		}
		return err
	})
}

// TestStepsByKeyWaitForOlderAgents: a step by key neither begins nor passes while there is an agent of the
// edition before, which runs the active version for all calls. It goes on once this is upgraded.
func TestStepsByKeyWaitForOlderAgents(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	w.answers(b, "1")
	r.publish(route, 2, byKeys)
	r.waitsForKeys("a", 2)
	r.is(route, "no step begins", inStep(0))
	for i, agent := range []*agentclient.Client{a, b} {
		if n := ofKeys(t, agent, "1"); n != keys {
			t.Errorf("agent %d: %d of %d keys run the active version", i, n, keys)
		}
	}
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	r.is(route, "the step begins", inStep(1))
	for i, agent := range []*agentclient.Client{a, b} {
		await(t, fmt.Sprintf("agent %d runs the candidate for keys", i), func() error {
			if n := ofKeys(t, agent, "2"); n == 0 {
				return fmt.Errorf("none of %d keys runs it", keys)
			}
			return nil
		})
		w.answers(agent, "1") // without a key
	}
	c := w.agent(older, "c", r)
	w.answers(c, "1")
	r.waitsForKeys("c", 3)
	if n := ofKeys(t, c, "1"); n != keys {
		t.Errorf("an older agent that joins: %d of %d keys run the active version", n, keys)
	}
	w.nodes["c"].stop()
	c = w.agent(newer, "c", r)
	await(t, "the upgraded agent runs the candidate for keys", func() error {
		if n := ofKeys(t, c, "2"); n == 0 {
			return fmt.Errorf("none of %d keys runs it", keys)
		}
		return nil
	})
	r.waits("step 1 needs an approval: scriptctl rollout approve acme/route")
	if _, _, err := r.Steer(t.Context(), route, registryclient.Approve, 0, byAnn); err != nil {
		t.Fatal(err)
	}
	r.live(route, 2)
	for _, agent := range []*agentclient.Client{a, b, c} {
		w.answers(agent, "2")
	}
}

// TestStepsByKeyWhileAnOlderRegistryLeads: it gives the candidate up, and takes no step by key for one by
// agents. Once it is upgraded, the version has to be published again.
func TestStepsByKeyWhileAnOlderRegistryLeads(t *testing.T) {
	w := start(t)
	old := w.registry(older)
	old.leads()
	r := w.registry(newer)
	a := w.agent(newer, "a", old, r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	r.publish(route, 2, byKeys)
	r.is(route, "the older registry gives the candidate up", func(x script.Release) bool { return x.Candidate != nil && x.Candidate.Failed != "" })
	if n := ofKeys(t, a, "1"); n != keys {
		t.Errorf("%d of %d keys run the active version", n, keys)
	}
	old.stop()
	r.leads()
	r.publish(route, 3, byKeys) // the older registry has lost what the step takes
	r.is(route, "the step begins", inStep(1))
}
