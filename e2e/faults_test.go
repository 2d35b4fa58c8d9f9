//go:build e2e

package e2e_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// componentPods returns the names of a component's pods, with the node each is on.
func (w *world) componentPods(t *testing.T, component string) map[string]string {
	t.Helper()
	out := w.kubectl(t, "", "-n", kube.SystemNamespace, "get", "pods", "-l", "app.kubernetes.io/component="+component,
		"-o", `jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName}{"\n"}{end}`)
	pods := map[string]string{}
	for line := range strings.FieldsSeq(out) {
		name, node, _ := strings.Cut(line, "=")
		pods[name] = node
	}
	if len(pods) == 0 {
		t.Fatalf("there are no pods of %s", component)
	}
	return pods
}

// kill deletes pods without giving them time to end.
func (w *world) kill(t *testing.T, pods ...string) {
	t.Helper()
	w.kubectl(t, "", append([]string{"-n", kube.SystemNamespace, "delete", "pod", "--grace-period=0", "--force"}, pods...)...)
}

func (w *world) killAgent(t *testing.T) {
	before, began := w.calls(t), time.Now()
	var node string
	for pod, on := range w.componentPods(t, "agent") {
		node = on
		t.Logf("killing %s on %s", pod, on)
		w.kill(t, pod)
		break
	}
	// A change while that node has no agent, or a new one that is only starting.
	answer := w.edit(t)
	if err := w.cluster.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, node)
	w.tellOutage(t, node, began)
}

// tellOutage logs how long calls failed on the node since then, and checks that what
// answers afterwards is no older than what answered before.
func (w *world) tellOutage(t *testing.T, node string, since time.Time) {
	t.Helper()
	i := slices.IndexFunc(w.pods, func(g kube.Gateway) bool { return g.Node == node })
	var version uint64
	var failing time.Time
	for _, s := range w.report(t, w.pods[i]).Sights {
		switch {
		case s.Of != tenant+"/"+hello:
		case s.Failure != "":
			if failing.IsZero() {
				failing = s.At
			}
		default:
			if s.At.After(since) && !failing.IsZero() {
				t.Logf("%s: calls were not answered for %v; version %d answered before, version %d after", node, s.At.Sub(failing), version, s.Version)
			}
			if s.At.After(since) && s.Version < version {
				t.Errorf("%s: version %d answered after version %d", node, s.Version, version)
			}
			version, failing = s.Version, time.Time{}
		}
	}
}

func (w *world) deleteRegistries(t *testing.T) { w.deleteUnderLoad(t, "registry") }

func (w *world) deleteNATS(t *testing.T) { w.deleteUnderLoad(t, "nats") }

// deleteUnderLoad kills all pods of a component, and makes changes meanwhile.
func (w *world) deleteUnderLoad(t *testing.T, component string) {
	t.Helper()
	before := w.calls(t)
	var pods []string
	for pod := range w.componentPods(t, component) {
		pods = append(pods, pod)
	}
	t.Logf("killing %v", pods)
	w.kill(t, pods...)
	for range 3 {
		w.edit(t)
	}
	if err := w.cluster.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.converged(t, hello)
	// Of edits that came while nobody could publish, the last one alone was.
	active := w.kubectl(t, "", "-n", kube.TestNamespace, "get", "luascript", hello, "-o", "jsonpath={.status.activeVersion}")
	version, err := strconv.ParseUint(active, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.latest = version
	w.everywhere(t, hello, w.newest())
	w.noneFailed(t, before, "")

	answer := w.edit(t)
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
}
