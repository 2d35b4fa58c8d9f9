//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// expecting is a line of a spec: a test that wants hello to answer with the text.
func expecting(text string) string {
	return fmt.Sprintf("  tests: [{name: answers, request: {from: e2e}, expect: %q}]", text)
}

// status returns what a field of hello's status says.
func (w *world) status(t *testing.T, field string) string {
	t.Helper()
	return w.kubectl(t, "", "-n", kube.TestNamespace, "get", "luascript", hello, "-o", "jsonpath={.status."+field+"}")
}

// until waits as a person would who waits for something else than convergence.
func (w *world) until(t *testing.T, what string) {
	t.Helper()
	w.kubectl(t, "", "-n", kube.TestNamespace, "wait", "--for="+what, "--timeout=60s", "luascript/"+hello)
}

// givenUp waits until hello's newest version is given up for a reason that has the words, and
// checks that the version before is what each node runs, and what the status says.
func (w *world) givenUp(t *testing.T, before sight.State, words ...string) {
	t.Helper()
	w.until(t, "condition=Stalled")
	w.show(t, "-n", kube.TestNamespace, "get", "ls", hello, "-o", "wide")
	reason := w.status(t, "candidate.reason")
	for _, word := range words {
		if !strings.Contains(reason, word) {
			t.Errorf("the reason %q does not say %q", reason, word)
		}
	}
	got := fmt.Sprint(w.status(t, "phase"), " ", w.status(t, "candidate.state"), " ", w.status(t, "candidate.version"), " ", w.status(t, "activeVersion"))
	if want := fmt.Sprint("Error Failed ", w.latest, " ", before.Version); got != want {
		t.Errorf("phase, state, candidate and active version are %s, want %s", got, want)
	}
	w.everywhere(t, hello, before)
}

// nobodySaw checks that no call was answered by the version.
func (w *world) nobodySaw(t *testing.T, version uint64) {
	t.Helper()
	for _, g := range w.pods {
		for _, s := range w.report(t, g).Sights {
			if s.Of == tenant+"/"+hello && s.Version == version {
				t.Errorf("%s: version %d answered %q", g.Node, version, s.Content)
			}
		}
	}
}

func (w *world) testVersions(t *testing.T) {
	before := w.calls(t)
	answer := w.edit(t, expecting(fmt.Sprintf("answer %d", w.edits+1)))
	w.converged(t, hello)
	good := sight.State{Content: answer, Version: w.latest}
	w.everywhere(t, hello, good)

	answer = w.edit(t, expecting("something else"))
	w.givenUp(t, good, "tests[answers]", `"something else"`, answer)
	w.nobodySaw(t, w.latest)
	w.show(t, "-n", kube.TestNamespace, "get", "luascript", hello, "-o", "jsonpath={.status.candidate}")

	// The test was wrong, not the script: mended, it is another version, which runs.
	w.latest++
	w.kubectl(t, manifest(hello, w.source, expecting(answer)), "apply", "-f", "-")
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, "")
}

// half is how many nodes a step of 50 % takes.
func (w *world) half() int { return (len(w.pods) + 1) / 2 }

// runsOn returns the nodes on which the version answers, by what their gateways saw last.
func (w *world) runsOn(ctx context.Context, version uint64) (nodes []string, err error) {
	for _, g := range w.pods {
		report, err := w.cluster.Sights(ctx, g, 0, 0)
		if err != nil {
			return nil, err
		}
		if s, ok := last(report, hello); ok && s.Version == version {
			nodes = append(nodes, g.Node)
		}
	}
	return nodes, nil
}

func (w *world) rollOut(t *testing.T) {
	before := w.calls(t)
	old := w.latest
	answer := w.edit(t, "  rollout: {steps: [{percent: 50, pause: 30s}]}")
	w.until(t, fmt.Sprintf("jsonpath={.status.candidate.running}=%d", w.half()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kube.Until(ctx, func(ctx context.Context) error {
		on, err := w.runsOn(ctx, w.latest)
		if err != nil {
			return err
		}
		off, err := w.runsOn(ctx, old)
		if err == nil && (len(on) != w.half() || len(on)+len(off) != len(w.pods)) {
			err = fmt.Errorf("version %d answers on %v and version %d on %v, want the new one on %d of %d nodes", w.latest, on, old, off, w.half(), len(w.pods))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.show(t, "-n", kube.TestNamespace, "get", "ls", hello, "-o", "wide")
	if got := w.status(t, "activeVersion"); got != fmt.Sprint(old) {
		t.Errorf("the active version is %s in the step, want %d", got, old)
	}
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, "")
	for _, g := range w.pods {
		var seen uint64
		for _, s := range w.report(t, g).Sights {
			if s.Of != tenant+"/"+hello || s.Version < old {
				continue
			}
			if s.Version < seen {
				t.Errorf("%s: version %d answered after version %d", g.Node, s.Version, seen)
			}
			seen = s.Version
		}
	}
}

// rollOutFailing rolls out a version whose calls all fail.
func (w *world) rollOutFailing(t *testing.T) {
	before := w.calls(t)
	good := w.newest()
	w.latest++
	failing := manifest(hello, "function handle(request)\n  error('not today')\nend\n", "  rollout: {maxErrorPercent: 5, steps: [{percent: 50, pause: 1h}]}")
	w.kubectl(t, failing, "apply", "-f", "-")
	w.givenUp(t, good, "calls failed", "at most 5 %")
	touched := 0
	for node, after := range w.calls(t) {
		if n := after.Failed["SCRIPT"] - before[node].Failed["SCRIPT"]; n > 0 {
			touched++
			t.Logf("%s: %d calls failed before the version was given up", node, n)
		}
	}
	if touched != w.half() {
		t.Errorf("calls failed on %d nodes, want %d of %d", touched, w.half(), len(w.pods))
	}
	answer := w.edit(t)
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.show(t, "-n", kube.TestNamespace, "get", "events", "--field-selector=involvedObject.name="+hello)
}
