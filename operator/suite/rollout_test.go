package suite_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// anyJSON is a JSON value of a spec.
func anyJSON(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// tested makes the script answer every call with n, with tests that check this, whatever
// else is in their requests and expectations.
func tested(n int) func(*spec) {
	return func(s *spec) {
		s.Script, s.Source = nil, new(fmt.Sprintf("function handle(r)\n  if type(r) == \"table\" and r.odd then error(r.odd.text) end\n  return %d\nend\n", n))
		s.Tests = []v1alpha1.Test{
			{Name: "alpha", Expect: anyJSON(fmt.Sprint(n))},
			{Name: "beta", Request: anyJSON(`{"odd": {"text": "<&>\u2028é", "n": 1.0, "none": null}}`), Error: new("SCRIPT")},
		}
	}
}

// reworded has the spec say the same in another way, which the operator reads anew.
func reworded(s *spec) {
	s.Script, s.Source = new(base64.StdEncoding.EncodeToString([]byte(*s.Source))), nil
}

// inSteps is a plan whose steps last for so long each, or for ten seconds if that is less.
func inSteps(pause string, percents ...int32) *v1alpha1.Rollout {
	r := &v1alpha1.Rollout{MaxErrorPercent: new(5.0)}
	for _, percent := range percents {
		r.Steps = append(r.Steps, v1alpha1.RolloutStep{Percent: percent, Pause: &pause})
	}
	return r
}

// reaches waits until the candidate of the spec is in the state, and the step.
func (w *world) reaches(ls *v1alpha1.LuaScript, state v1alpha1.CandidateState, step int32, more func(*v1alpha1.LuaScriptStatus) bool) *v1alpha1.LuaScript {
	w.t.Helper()
	return w.await(ls, fmt.Sprintf("%s, step %d", state, step), func(ls *v1alpha1.LuaScript) bool {
		if !is(ls, v1alpha1.ConditionPublished, metav1.ConditionTrue) || ls.Status.Candidate == nil {
			return false
		}
		c := ls.Status.Candidate
		return c.State == state && c.Step == step && (more == nil || more(&ls.Status))
	})
}

// givenUp waits until the candidate was given up with a reason that has the words, and
// checks what the status says of it.
func (w *world) givenUp(ls *v1alpha1.LuaScript, words ...string) *v1alpha1.LuaScript {
	w.t.Helper()
	ls = w.stalled(ls, words...)
	s := ls.Status
	if s.Phase != v1alpha1.PhaseError || s.Candidate == nil || s.Candidate.State != v1alpha1.CandidateFailed ||
		!is(ls, v1alpha1.ConditionPublished, metav1.ConditionTrue) || !is(ls, v1alpha1.ConditionConverged, metav1.ConditionFalse) {
		w.t.Errorf("given up: %+v", s)
	}
	w.told(ls, "CandidateFailed")
	return ls
}

// unmoved checks that nothing was published since the registry had that release, nor will
// be: what the operator has read is what it wants.
func (w *world) unmoved(name string, before script.Release) {
	w.t.Helper()
	after, err := w.release(name)
	if err != nil || after.Revision != before.Revision || after.Latest != before.Latest {
		w.t.Errorf("%s was at revision %d with %d versions, and is at %d with %d (%v)", name, before.Revision, before.Latest, after.Revision, after.Latest, err)
	}
}

// has reports whether the words are among all, in their order.
func has(all, words []string) bool {
	for _, word := range all {
		if len(words) > 0 && word == words[0] {
			words = words[1:]
		}
	}
	return len(words) == 0
}

// TestTests: a version that passes its tests runs; of one that does not nothing runs, the
// status says where and why, and the version before goes on.
func TestTests(t *testing.T) {
	w := start(t, 2)
	hold := w.addGated("held")
	ls := w.converged(w.create("route", 0, tested(1)))
	w.answers("route", 1)
	if s := ls.Status; s.Phase != v1alpha1.PhaseActive || s.ActiveVersion != 1 || s.Candidate != nil {
		t.Errorf("created: %+v", s)
	}
	if first, err := w.release("route"); err != nil || len(first.Settings.Tests) != 2 {
		t.Errorf("created: %+v, %v", first, err)
	}

	release := hold() // an agent that does not hear of it has not tested it
	ls = w.reaches(w.change(ls, tested(2)), v1alpha1.CandidateTesting, 0, func(s *v1alpha1.LuaScriptStatus) bool {
		return s.Candidate.Passed == 2
	})
	if s := ls.Status; s.Phase != v1alpha1.PhasePending || s.ActiveVersion != 1 || s.LatestVersion != 2 || s.Agents.Active != 3 ||
		!strings.Contains(message(ls, v1alpha1.ConditionReady), "version 2 is being tested: 2 of 3 agents have passed, waiting for held; version 1 goes on") {
		t.Errorf("tested: %+v", s)
	}
	w.answers("route", 1)
	release()
	ls = w.converged(ls)
	w.answers("route", 2)
	w.told(ls, "Promoted")

	bad := func(s *spec) {
		tested(3)(s)
		s.Tests[0].Expect = anyJSON(`"three"`)
	}
	ls = w.givenUp(w.change(ls, bad), "version 3 was given up", "tests[alpha]", `"three"`, "version 2 goes on; change the script or its tests")
	if s := ls.Status; s.ActiveVersion != 2 || s.LatestVersion != 3 || !strings.Contains(s.Candidate.Reason, "tests[alpha]") {
		t.Errorf("given up: %+v", s)
	}
	w.answers("route", 2)
	before, err := w.release("route")
	if err != nil {
		t.Fatal(err)
	}
	w.stopOperator()
	w.startOperator() // one that knows nothing leaves it as it is
	ls = w.givenUp(w.change(ls, reworded), "version 3 was given up")
	w.unmoved("route", before)

	// Tests that are right make a version, too.
	ls = w.converged(w.change(ls, tested(3)))
	w.answers("route", 3)
	if ls.Status.ActiveVersion != 4 || ls.Status.LatestVersion != 4 {
		t.Errorf("mended: %+v", ls.Status)
	}
	ls = w.givenUp(w.change(ls, func(s *spec) { s.Source = source(4) }), "version 5 was given up", "tests[")
	ls = w.converged(w.change(ls, tested(3))) // back to what it was
	w.answers("route", 3)
	if ls.Status.Candidate != nil || ls.Status.Phase != v1alpha1.PhaseActive {
		t.Errorf("reverted: %+v", ls.Status)
	}

	// Without tests there is nothing that it has to pass.
	before, err = w.release("route")
	if err != nil {
		t.Fatal(err)
	}
	ls = w.givenUp(w.change(ls, func(s *spec) { s.Script, s.Source = nil, source(6) }), "was given up", "tests[")
	ls = w.converged(w.change(ls, func(s *spec) { s.Tests = nil }))
	w.answers("route", 6)
	if s := ls.Status; s.Candidate != nil || s.Phase != v1alpha1.PhaseActive || s.ActiveVersion != int64(before.Latest)+2 || s.LatestVersion != s.ActiveVersion {
		t.Errorf("without tests: %+v", s)
	}
	w.deleted(ls)
}

// TestFirstVersionFails: of a script that never passed its tests nothing runs, and the
// status says so.
func TestFirstVersionFails(t *testing.T) {
	w := start(t, 2)
	ls := w.create("route", 0, func(s *spec) {
		tested(1)(s)
		s.Tests[0].Expect = anyJSON("2")
	})
	ls = w.givenUp(ls, "version 1 was given up", "tests[alpha]", "nothing of the script runs")
	if s := ls.Status; s.ActiveVersion != 0 || s.LatestVersion != 1 || s.Digest != "" || s.Agents == nil || s.Agents.Active != 0 || s.Agents.Summary != "0/2" {
		t.Errorf("given up: %+v", s)
	}
	w.fails("route", script.Disabled)
	ls = w.converged(w.change(ls, tested(2)))
	w.answers("route", 2)
	if s := ls.Status; s.ActiveVersion != 2 || s.Agents.Summary != "2/2" {
		t.Errorf("mended: %+v", s)
	}
}

// on returns how many agents answer with n.
func (w *world) on(name string, n int) (count int) {
	w.t.Helper()
	for i, agent := range w.agents {
		result, err := agent.Call(w.t.Context(), tenant+"/"+name)
		if err != nil {
			w.t.Errorf("agent-%d: %v", i+1, err)
		} else if string(result.Values[0]) == fmt.Sprint(n) {
			count++
		}
	}
	return count
}

// TestRollout: a version runs on some agents, then on all; a person can make it go faster,
// or take it back, with kubectl and with scriptctl, and the operator does not interfere.
func TestRollout(t *testing.T) {
	w := start(t, 2)
	ls := w.converged(w.create("route", 1, func(s *spec) {
		s.Rollout = inSteps("1h", 50)
		s.Rollout.MaxErrorPercent = nil
	}))
	if ls.Status.ActiveVersion != 1 { // the first has nothing to compare with
		t.Errorf("created: %+v", ls.Status)
	}
	ls = w.reaches(w.change(ls, func(s *spec) { s.Source = source(2) }), v1alpha1.CandidateRollingOut, 1, nil)
	w.told(ls, "RolloutStep")
	// A step that ends by itself, when its event cannot be missed any more.
	ls = w.converged(w.change(ls, func(s *spec) { s.Rollout.Steps[0].Pause = new("1s") }))
	w.answers("route", 2)
	// Those of one reason are one event that counts, with the time of the first.
	want := []string{"Published", "Converged", "RolloutStep", "Promoted"}
	w.eventually(fmt.Sprintf("events %v", want), func() bool { return has(w.sequence(ls), want) })

	halfway := func(n int) {
		t.Helper()
		ls = w.reaches(ls, v1alpha1.CandidateRollingOut, 1, func(s *v1alpha1.LuaScriptStatus) bool {
			return s.Candidate.Version == int64(n) && s.Candidate.Running == 1 && s.Agents != nil && s.Agents.Active == 1
		})
		c, said := ls.Status.Candidate, message(ls, v1alpha1.ConditionReady)
		if ls.Status.Phase != v1alpha1.PhasePending || c.Percent != 50 || c.Steps != 1 || ls.Status.Agents.Summary != "1/2" ||
			!strings.Contains(said, "runs on 1 of 2 agents (step 1 of 1) until 20") {
			t.Errorf("halfway: %q, %+v, %+v", said, ls.Status, c)
		}
		if count := w.on("route", n); count != 1 {
			t.Errorf("%d agents answer %d, want one", count, n)
		}
	}
	steer := func(s registryclient.Steering) {
		t.Helper()
		if _, _, err := w.registry.Steer(t.Context(), nameOf("route"), s, 0, registryclient.Write{Author: "ann", Note: "by hand", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	slowly := func(n int) {
		t.Helper()
		ls = w.change(ls, func(s *spec) { s.Script, s.Source, s.Rollout = nil, source(n), inSteps("1h", 50) })
		halfway(n)
	}
	slowly(3)
	steer(registryclient.Promote)
	ls = w.converged(ls)
	w.answers("route", 3)

	slowly(4)
	steer(registryclient.Abort)
	ls = w.givenUp(ls, "version 4 was given up", "ann", "by hand", "version 3 goes on")
	w.eventually("the version before is everywhere", func() bool { return w.on("route", 3) == 2 })
	before, err := w.release("route")
	if err != nil {
		t.Fatal(err)
	}
	ls = w.givenUp(w.change(ls, reworded), "version 4 was given up")
	w.unmoved("route", before)
	steer(registryclient.Retry)
	halfway(4)

	// A pin is a person's word: the old version at once, or the new one.
	ls = w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(3)) }))
	w.answers("route", 3)
	if s := ls.Status; s.Candidate != nil || s.ActiveVersion != 3 || s.LatestVersion != 4 {
		t.Errorf("pinned: %+v", s)
	}
	ls = w.change(ls, func(s *spec) { s.Version = nil })
	halfway(4)
	ls = w.converged(w.change(ls, func(s *spec) { s.Version = new(int64(4)) }))
	w.answers("route", 4)

	// Steps that are none any more let it through.
	ls = w.change(ls, func(s *spec) { s.Version = nil })
	slowly(5)
	ls = w.converged(w.change(ls, func(s *spec) { s.Rollout = nil }))
	w.answers("route", 5)
	w.deleted(ls)
}

// TestErrorsWithoutSteps: kubectl says at once that a bound on calls needs steps.
func TestErrorsWithoutSteps(t *testing.T) {
	namespace := env.Namespace(t, "suite", nil)
	const manifest = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: route}\nspec: {tenantId: acme, source: return 1, rollout: {maxErrorPercent: 5}}\n"
	_, stderr, err := env.Kubectl(t.Context(), manifest, "apply", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(stderr, "spec.rollout.maxErrorPercent: ") || !strings.Contains(stderr, "needs steps") {
		t.Errorf("%v: %s", err, stderr)
	}
}

// TestPinOfWhatIsPublished: a version that is pinned by what publishes it passes its tests
// first, and is not made to run by the operator asking for it again.
func TestPinOfWhatIsPublished(t *testing.T) {
	w := start(t, 1)
	ls := w.converged(w.create("route", 0, tested(1)))
	ls = w.givenUp(w.change(ls, func(s *spec) {
		tested(2)(s)
		s.Version, s.Tests[0].Expect = new(int64(2)), anyJSON("1")
	}), "version 2 was given up")
	w.answers("route", 1)
	before, err := w.release("route")
	if err != nil || !before.Pinned {
		t.Fatalf("%+v, %v", before, err)
	}
	ls = w.givenUp(w.change(ls, reworded), "version 2 was given up")
	w.unmoved("route", before)
	ls = w.converged(w.change(ls, func(s *spec) {
		tested(2)(s)
		s.Version = new(int64(3)) // other tests are another version
	}))
	w.answers("route", 2)
	if ls.Status.ActiveVersion != 3 || *ls.Spec.Version != 3 {
		t.Errorf("%+v", ls.Status)
	}
}
