package editions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// operator starts an operator of the edition.
func (w *world) operator(e edition) *daemon {
	w.t.Helper()
	return run(w.t, e.program("operator"), []string{"KUBECONFIG=" + env.Kubeconfig()},
		"--registry", w.link.Addr(), "--insecure-plaintext", "--leader-elect=false", "--webhook=false", "--admin-address=", "--delete-wait=5s")
}

// apply applies a LuaScript of acme/route, which returns the number, with lines of its rollout.
func (w *world) apply(namespace string, number int, rollout string) {
	w.t.Helper()
	text := fmt.Sprintf(`apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route, namespace: %s}
spec:
  tenantId: acme
  source: function handle() return %d end
  %s
`, namespace, number, rollout)
	if _, said, err := env.Kubectl(w.t.Context(), text, "apply", "-f", "-"); err != nil {
		w.t.Fatal(err, said)
	}
}

// says waits until the condition Ready of the LuaScript says this.
func (w *world) says(namespace, want string) {
	w.t.Helper()
	await(w.t, "the LuaScript says "+want, func() error {
		out, _, err := env.Kubectl(w.t.Context(), "", "-n", namespace, "get", "luascript", "route", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
		if err == nil && !strings.Contains(out, want) {
			err = errors.New("it says " + out)
		}
		return err
	})
}

// tenant has LuaScripts of the namespace be of acme, until the test ends.
func (w *world) tenant() (namespace string) {
	w.t.Helper()
	namespace = env.Namespace(w.t, "editions", nil)
	text := fmt.Sprintf(`{apiVersion: scriptorium.dev/v1alpha1, kind: ScriptTenant, metadata: {name: acme}, spec: {namespaces: [%s]}}`, namespace)
	if _, said, err := env.Kubectl(w.t.Context(), text, "apply", "-f", "-"); err != nil {
		w.t.Fatal(err, said)
	}
	return namespace
}

// remove removes what is in the Kubernetes API, while an operator runs.
func (w *world) remove(namespace string) {
	w.t.Helper()
	for _, args := range [][]string{{"-n", namespace, "delete", "luascript", "route", "--timeout=60s"}, {"delete", "scripttenant", "acme", "--timeout=60s"}} {
		if _, said, err := env.Kubectl(w.t.Context(), "", args...); err != nil {
			w.t.Fatal(err, said)
		}
	}
}

const gatedByZone = `rollout: {steps: [{selector: {zone: a}, gate: {webhook: ci}}, {selector: {zone: b}, gate: {webhook: ci}}]}`

// TestOperatorBeforeRegistry: an operator of this edition tells a registry of the one before of
// gates. That one waits for a person, and the operator does not begin the rollout again and again.
func TestOperatorBeforeRegistry(t *testing.T) {
	w := start(t)
	r := w.registry(older)
	a, b := w.agent(newer, "a", r), w.agent(older, "b", r)
	namespace := w.tenant()
	o := w.operator(newer)
	w.apply(namespace, 1, "")
	w.answers(a, "1")
	w.answers(b, "1")
	w.apply(namespace, 2, gatedByZone)
	w.answers(a, "2")
	r.waits(approval)
	w.says(namespace, approval)
	before := r.is(route, "the candidate is in its step", inStep(1))
	// A restart has the operator look at everything again.
	o.stop()
	w.operator(newer)
	if _, said, err := env.Kubectl(t.Context(), "", "-n", namespace, "patch", "luascript", "route", "--type=merge", "-p", `{"spec":{"revisionHistoryLimit":7}}`); err != nil {
		t.Fatal(err, said)
	}
	after := r.is(route, "the operator has looked again", func(x script.Release) bool { return x.Settings.HistoryLimit == 7 })
	if after.Candidate == nil || after.Candidate.Attempt != before.Candidate.Attempt || after.Candidate.Step != 1 {
		t.Errorf("the candidate went from %+v to %+v", before.Candidate, after.Candidate)
	}
	if got := answer(t.Context(), b); got != "1" {
		t.Errorf("the other zone answers %s", got)
	}

	// With the registry upgraded, the operator brings the gates back.
	r.stop()
	r = w.registry(newer)
	r.waits("gate webhook/ci: the build")
	w.says(namespace, "gate webhook/ci: the build")
	w.hook.say(true)
	w.answers(b, "2")
	r.live(route, 2)
	w.remove(namespace)
}

// TestRegistryBeforeOperator: an operator of the edition before does not know gates, and publishes
// the plan without them. That of this edition puts them back as soon as it runs: a candidate on its
// way begins again.
func TestRegistryBeforeOperator(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(newer, "a", r), w.agent(older, "b", r)
	namespace := w.tenant()
	o := w.operator(older)
	w.apply(namespace, 1, "")
	w.answers(a, "1")
	w.answers(b, "1")
	w.apply(namespace, 2, strings.Replace(gatedByZone, "gate", "pause: 1h, gate", 1))
	w.answers(a, "2")
	x := r.is(route, "the candidate is in its step", inStep(1))
	if gates(x) != 0 {
		t.Errorf("the plan has %d gates: docs/operating.md says that such an operator leaves them out", gates(x))
	}
	o.stop()
	w.operator(newer)
	r.is(route, "the gates are back", func(x script.Release) bool { return gates(x) == 2 && x.Candidate != nil && x.Candidate.Attempt > 1 })
	w.apply(namespace, 2, gatedByZone)
	r.waits("gate webhook/ci: the build")
	if got := answer(t.Context(), b); got != "1" {
		t.Errorf("the other zone answers %s", got)
	}
	w.hook.say(true)
	w.answers(b, "2")
	r.live(route, 2)
	w.remove(namespace)
}
