//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// TestEndToEnd is one story on one cluster: its parts follow each other.
func TestEndToEnd(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(func() { w.clean(t) })
	if !t.Run("install", w.install) || !t.Run("apply, and every node answers", w.apply) {
		return // the rest makes no sense without
	}
	t.Run("change under load, no call fails", w.changeUnderLoad)
	t.Run("a module and a policy on every node", w.engines)
	t.Run("a gateway in front of applications, no request fails", w.webGateway)
	t.Run("pin", w.pin)
	t.Run("roll back", w.rollBack)
	t.Run("a hold, whatever is applied", w.hold)
	t.Run("a broken script is refused", w.refuse)
	t.Run("a version that fails its tests runs nowhere", w.testVersions)
	t.Run("a rollout, half of the nodes first", w.rollOut)
	t.Run("a rollout whose calls fail", w.rollOutFailing)
	t.Run("a node that comes later gets everything", w.addNode)
	t.Run("an agent is killed", w.killAgent)
	t.Run("registries are deleted under load", w.deleteRegistries)
	t.Run("NATS is deleted under load", w.deleteNATS)
	t.Run("delete, and it is gone", w.delete)
	t.Run("uninstall leaves nothing", w.uninstall)
}

func (w *world) install(t *testing.T) {
	w.claim(t)
	if err := w.cluster.LoadImages(t.Context(), w.images); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.MakeTestNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.StartGateways(t.Context(), w.images, w.spec); err != nil {
		t.Fatal(err)
	}
	w.gatewaysWait(t)
	start := time.Now()
	if err := w.cluster.Install(t.Context(), w.images); err != nil {
		w.explain(t)
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
	w.refreshGateways(t)
	w.show(t, "get", "pods", "-A", "-o", "wide")
}

// gatewaysWait waits until a gateway is kept from starting where no agent has been.
func (w *world) gatewaysWait(t *testing.T) {
	t.Helper()
	const says = "/run/scriptorium is not a directory"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kube.Until(ctx, func(ctx context.Context) error {
		events, err := w.cluster.Kubectl(ctx, "", "-n", kube.TestNamespace, "get", "events", "--field-selector=reason=FailedMount", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(events, says) {
			err = fmt.Errorf("no gateway waits for %q: is that folder on the nodes from before? Events: %q", says, events)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("without agents, gateways wait: " + says)
}

// claim makes sure that nobody has Scriptorium on the cluster: what is there from now on
// is ours to remove.
func (w *world) claim(t *testing.T) {
	t.Helper()
	if left, err := w.cluster.Leftovers(t.Context()); err != nil || len(left) > 0 {
		t.Fatalf("Scriptorium is on this cluster: %v, %v", left, err)
	}
	w.claimed = true
}

func (w *world) apply(t *testing.T) {
	w.kubectl(t, fmt.Sprintf(`
apiVersion: scriptorium.dev/v1alpha1
kind: ScriptTenant
metadata: {name: %s}
spec: {namespaces: [%s]}
`, tenant, kube.TestNamespace), "apply", "-f", "-")
	w.kubectl(t, manifest(second, answering("the second")), "apply", "-f", "-")
	answer := w.edit(t)
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: 1})
	w.everywhere(t, second, sight.State{Content: "the second", Version: 1})
	w.show(t, "get", "ls", "-A")
	w.show(t, "-n", kube.TestNamespace, "describe", "luascript", hello)
}

func (w *world) changeUnderLoad(t *testing.T) {
	before := w.calls(t)
	const changes = 20
	for range changes {
		answer := w.edit(t)
		w.converged(t, hello)
		w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	}
	w.noneFailed(t, before, "")
	for _, g := range w.pods {
		var seen uint64
		for _, s := range w.report(t, g).Sights {
			if s.Of != tenant+"/"+hello || s.Failure != "" {
				continue
			}
			if s.Version != seen+1 {
				t.Errorf("%s saw version %d after %d", g.Node, s.Version, seen)
			}
			seen = s.Version
		}
	}
}

func (w *world) pin(t *testing.T) {
	before := w.calls(t)
	pinned := w.latest - 2
	w.kubectl(t, manifest(hello, w.source, fmt.Sprintf("  version: %d", pinned)), "apply", "-f", "-")
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: fmt.Sprintf("answer %d", pinned), Version: pinned})
	w.show(t, "-n", kube.TestNamespace, "get", "ls")

	// What comes meanwhile is published, and does not run.
	answer := w.edit(t, fmt.Sprintf("  version: %d", pinned))
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: fmt.Sprintf("answer %d", pinned), Version: pinned})

	w.kubectl(t, manifest(hello, w.source), "apply", "-f", "-")
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, "")
}

func (w *world) rollBack(t *testing.T) {
	before := w.calls(t)
	older := w.latest - 1
	w.kubectl(t, "", "-n", kube.TestNamespace, "patch", "luascript", hello, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"version":%d}}`, older))
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: fmt.Sprintf("answer %d", older), Version: older})

	w.kubectl(t, "", "-n", kube.TestNamespace, "patch", "luascript", hello, "--type=json", "-p", `[{"op":"remove","path":"/spec/version"}]`)
	w.converged(t, hello)
	w.everywhere(t, hello, w.newest())
	w.noneFailed(t, before, "")
	w.show(t, "-n", kube.TestNamespace, "get", "events", "--field-selector=involvedObject.name="+hello)
}

// hold holds the version that runs: what is applied meanwhile is stored, and runs nowhere until the
// hold is lifted.
func (w *world) hold(t *testing.T) {
	before := w.calls(t)
	held := w.newest()
	annotate := func(annotation string) {
		w.kubectl(t, "", "-n", kube.TestNamespace, "annotate", "luascript", hello, annotation)
	}
	wait := func(condition string) {
		w.kubectl(t, "", "-n", kube.TestNamespace, "wait", "--for="+condition, "--timeout=60s", "luascript/"+hello)
	}
	annotate("scriptorium.dev/hold=incident 12")
	wait("condition=Held")
	answer := w.edit(t)
	wait("jsonpath={.status.phase}=Held")
	w.show(t, "-n", kube.TestNamespace, "get", "ls", hello, "-o", "wide")
	w.everywhere(t, hello, held)

	annotate("scriptorium.dev/hold-")
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, "")
}

func (w *world) refuse(t *testing.T) {
	before := w.calls(t)
	refused := []struct{ name, manifest, says string }{
		{"not Lua", manifest(hello, "function handle(request)\n  return (\nend\n"), "line"},
		{"no such tenant", strings.Replace(manifest("other", answering("x")), "tenantId: "+tenant, "tenantId: nobody", 1), "nobody"},
		{"a bad limit", manifest(hello, w.source, "  limits: {timeout: 1h}"), "spec.limits.timeout"},
	}
	for _, r := range refused {
		_, err := w.cluster.Kubectl(t.Context(), r.manifest, "apply", "-f", "-")
		if err == nil {
			t.Errorf("%s: kubectl apply took it", r.name)
			continue
		}
		t.Logf("%s: %v", r.name, err)
		if !strings.Contains(err.Error(), r.says) {
			t.Errorf("%s: the answer does not say %q", r.name, r.says)
		}
	}
	w.everywhere(t, hello, w.newest())
	w.noneFailed(t, before, "")
}

func (w *world) addNode(t *testing.T) {
	command := hook(t, "E2E_ADD_NODE", "add a node")
	nodes, err := w.cluster.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := w.calls(t)
	if _, err := w.cluster.Shell(t.Context(), command, fmt.Sprintf("NODES=%d", len(nodes)+1)); err != nil {
		t.Fatal(err)
	}
	more, err := w.cluster.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(more) <= len(nodes) {
		t.Fatalf("%q added no node: there are %v", command, more)
	}
	if err := w.cluster.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.refreshGateways(t)
	w.everywhere(t, hello, w.newest())
	w.everywhere(t, second, sight.State{Content: "the second", Version: 1})
	answer := w.edit(t)
	w.converged(t, hello)
	w.everywhere(t, hello, sight.State{Content: answer, Version: w.latest})
	w.noneFailed(t, before, "")
	w.show(t, "get", "ls", "-A")
}

func (w *world) delete(t *testing.T) {
	w.kubectl(t, "", "-n", kube.TestNamespace, "delete", "luascript", hello, "--timeout=60s")
	w.everywhere(t, hello, sight.State{Failure: "NOTFOUND"})
	w.everywhere(t, second, sight.State{Content: "the second", Version: 1})
}

// explain shows what a person would look at.
func (w *world) explain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "ls", "-A", "-o", "yaml"},
		{"-n", kube.SystemNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", kube.SystemNamespace, "logs", "--selector=app.kubernetes.io/part-of=scriptorium", "--all-containers", "--prefix", "--tail=40", "--max-log-requests=50"},
	} {
		out, err := w.cluster.Kubectl(ctx, "", args...)
		t.Logf("$ kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}
