//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// TestGates is one story on one cluster, with the chart: a version comes to the nodes zone by zone,
// if Prometheus finds no failed calls, and then somebody rolls it back and holds it.
func TestGates(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(func() { w.clean(t) })
	g := &gated{world: w, env: helmEnv(t), dir: t.TempDir()}
	if !t.Run("install the chart, with zones, a Prometheus and gates", g.install) {
		return // the rest makes no sense without
	}
	t.Run("a gate holds a version in its zone until no call fails", g.rollOutByZone)
	t.Run("the operator respects a hold", g.hold)
	t.Run("the administrator observes calls and changes", g.observe)
	t.Run("uninstall leaves nothing", g.uninstall)
}

// gated is a world with zones and a Prometheus.
type gated struct {
	*world
	env   []string // of helm
	dir   string
	zones map[string]string
	admin *admin
}

// fails is how many calls fail per second on all agents, as Prometheus sees it.
const fails = `sum(rate(scriptorium_agent_calls_total{outcome="SCRIPT"}[5s]))`

func (g *gated) install(t *testing.T) {
	g.claim(t)
	g.zones = g.nodesOfZones(t)
	if err := g.cluster.LoadImages(t.Context(), g.images); err != nil {
		t.Fatal(err)
	}
	if err := g.cluster.MakeTestNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.cluster.StartGateways(t.Context(), g.images, g.spec); err != nil {
		t.Fatal(err)
	}
	g.kubectl(t, "", "create", "namespace", kube.SystemNamespace)
	const gates = `sources: [{name: main, prometheus: "http://prometheus.` + kube.TestNamespace + `:9090", insecurePlaintext: true, tenants: [` + tenant + `]}]`
	g.kubectl(t, "", "-n", kube.SystemNamespace, "create", "secret", "generic", "scriptorium-gates", "--from-literal=gates.yaml="+gates)
	g.helm(t, "helm install scriptorium deploy/helm/scriptorium -n "+kube.SystemNamespace+" --wait --set=gates.secret=scriptorium-gates"+
		" --set=etcd.persistence.enabled=false '--set=agent.allow={uid:10001=*}' '--set=agent.extraArgs={--metrics-tenants=*}'"+
		" '--set=agent.decisionLog={stdout}' --set=monitoring.dashboards.enabled=true "+strings.Join(g.images.Values(), " "))
	g.refreshGateways(t)
	if err := g.cluster.StartPrometheus(t.Context(), g.images, "agent", 8081); err != nil {
		t.Fatal(err)
	}
	g.admin = newAdmin(t, g.world, g.dir)
	g.show(t, "get", "pods", "-A", "-o", "wide")
	t.Log(g.admin.run(t, "agents"))
}

// helm runs a line, as a person would.
func (g *gated) helm(t *testing.T, line string) string {
	t.Helper()
	out, err := g.cluster.Shell(t.Context(), line, g.env...)
	t.Logf("$ %s\n%s", line, out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nodesOfZones returns the zone of each node. A node without one gets one of two, until the test
// ends.
func (g *gated) nodesOfZones(t *testing.T) map[string]string {
	t.Helper()
	nodes, err := g.cluster.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const label = "topology.kubernetes.io/zone" // agents have it as zone
	zones, distinct := map[string]string{}, map[string]bool{}
	for i, node := range nodes {
		zone := g.kubectl(t, "", "get", "node", node, "-o", `jsonpath={.metadata.labels.topology\.kubernetes\.io/zone}`)
		if zone == "" {
			zone = []string{"a", "b"}[min(i, 1)]
			g.kubectl(t, "", "label", "node", node, label+"="+zone)
			t.Cleanup(func() {
				_, _ = g.cluster.Kubectl(context.WithoutCancel(t.Context()), "", "label", "node", node, label+"-")
			})
		}
		zones[node], distinct[zone] = zone, true
	}
	if len(distinct) < 2 {
		t.Fatalf("the nodes %v are of one zone, and the test needs two", zones)
	}
	return zones
}

// rollOutByZone rolls out a version that fails because a value is wrong. The gate keeps it in the
// first zone, and lets it on when the value is rolled back.
func (g *gated) rollOutByZone(t *testing.T) {
	g.kubectl(t, fmt.Sprintf(`
apiVersion: scriptorium.dev/v1alpha1
kind: ScriptTenant
metadata: {name: %s}
spec: {namespaces: [%s]}
`, tenant, kube.TestNamespace), "apply", "-f", "-")
	g.kubectl(t, manifest(second, answering("the second")), "apply", "-f", "-")
	g.edit(t)
	g.converged(t, hello)
	old := g.newest()
	g.everywhere(t, hello, old)
	g.admin.run(t, "kv", "put", tenant+"/backend", "up", "--note", "it is there")
	g.admin.run(t, "kv", "put", tenant+"/backend", "down", "--note", "a mistake")

	first := g.zones[g.pods[0].Node]
	var others []string
	for _, zone := range g.zones {
		if zone != first && !slices.Contains(others, zone) {
			others = append(others, zone)
		}
	}
	slices.Sort(others)
	g.edits++
	g.latest++
	g.source = fmt.Sprintf("function handle(request)\n  if kv.get('backend') == 'down' then error('no backend') end\n  return 'answer %d'\nend\n", g.edits)
	plan := []string{
		"  rollout:", "    progressDeadline: 10m", "    steps:",
		fmt.Sprintf("    - {selector: {zone: %s}, pause: 10s, gate: {prometheus: main, max: 0, query: '%s'}}", first, fails),
	}
	for _, zone := range others {
		plan = append(plan, fmt.Sprintf("    - {selector: {zone: %s}, gate: {prometheus: main, max: 0, query: '%s'}}", zone, fails))
	}
	g.kubectl(t, manifest(hello, g.source, plan...), "apply", "-f", "-")

	// The version fails where it runs, and Prometheus says so.
	g.until(t, "jsonpath={.status.candidate.running}="+fmt.Sprint(g.in(first)))
	g.eventually(t, "the gate says why the version waits", func() (string, bool) {
		status := g.admin.run(t, "rollout", "status", tenant+"/"+hello)
		return status, strings.Contains(status, "waits:       gate prometheus/main: the value is ") && strings.Contains(status, "want at most 0")
	})
	t.Log(g.admin.run(t, "rollout", "status", tenant+"/"+hello))
	g.eventually(t, "so does the LuaScript", func() (string, bool) {
		message := g.status(t, `conditions[?(@.type=="Converged")].message`)
		return message, strings.Contains(message, "gate prometheus/main: the value is ")
	})
	g.show(t, "-n", kube.TestNamespace, "describe", "luascript", hello)
	// Whatever becomes of the registry, no other zone gets the version.
	g.kubectl(t, "", "-n", kube.SystemNamespace, "delete", "pod", "--selector=app.kubernetes.io/component=registry")
	if err := g.cluster.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.eventually(t, "the next registry asks too", func() (string, bool) {
		var all strings.Builder
		for pod := range g.componentPods(t, "registry") {
			metrics, err := g.cluster.Metrics(t.Context(), pod, 8080)
			fmt.Fprint(&all, metrics, err)
		}
		return "the metrics", strings.Contains(all.String(), `scriptorium_registry_gate_answers_total{result="wait",source="prometheus/main"}`)
	})
	for _, pod := range g.pods {
		seen, _ := last(g.report(t, pod), hello)
		if in := g.zones[pod.Node] == first; !in && seen.State != old || in && seen.Failure != "SCRIPT" {
			t.Errorf("%s, of zone %s, sees %+v", pod.Node, g.zones[pod.Node], seen.State)
		}
	}

	g.admin.run(t, "kv", "rollback", tenant+"/backend", "--note", "undo the mistake")
	t.Log(g.admin.run(t, "kv", "history", tenant+"/backend"))
	g.converged(t, hello)
	g.everywhere(t, hello, g.newest())
	explained := g.admin.run(t, "rollout", "explain", tenant+"/"+hello)
	t.Log(explained)
	if n := strings.Count(explained, "gate prometheus/main: the value is 0"); n < 1+len(others) {
		t.Errorf("the explanation names %d passes of the gate, want %d", n, 1+len(others))
	}
	for _, pod := range g.pods {
		failed := g.report(t, pod).Calls[tenant+"/"+hello].Failed["SCRIPT"]
		if in := g.zones[pod.Node] == first; in != (failed > 0) {
			t.Errorf("%s, of zone %s: %d calls failed", pod.Node, g.zones[pod.Node], failed)
		}
	}
}

// eventually waits until it is so, and says otherwise what there is.
func (g *gated) eventually(t *testing.T, what string, is func() (found string, ok bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := kube.Until(ctx, func(context.Context) error {
		if found, ok := is(); !ok {
			return errors.New(found)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// in returns how many nodes are of the zone.
func (g *gated) in(zone string) (n int) {
	for _, z := range g.zones {
		if z == zone {
			n++
		}
	}
	return n
}

// hold rolls back, by hand: what is applied afterwards is stored, and runs nowhere until the hold is
// lifted.
func (g *gated) hold(t *testing.T) {
	before := g.calls(t)
	undone := g.latest
	back := sight.State{Content: fmt.Sprintf("answer %d", g.edits-1), Version: g.latest - 1}
	t.Log(g.admin.run(t, "rollback", tenant+"/"+hello, "--note", "incident 12"))
	g.everywhere(t, hello, back)
	g.until(t, "condition=Held")

	held := func(stored uint64) {
		t.Helper()
		var message string
		g.eventually(t, "the LuaScript says what is stored", func() (string, bool) {
			message = g.status(t, `conditions[?(@.type=="Held")].message`)
			return message, strings.HasPrefix(message, fmt.Sprintf("version %d is stored, and does not run: ", stored))
		})
		for _, word := range []string{" via admin since ", `("incident 12")`, "scriptctl release"} {
			if !strings.Contains(message, word) {
				t.Errorf("the condition Held says %q, without %q", message, word)
			}
		}
		if phase := g.status(t, "phase"); phase != "Held" {
			t.Errorf("the phase is %s, want Held", phase)
		}
	}
	held(undone)
	answer := g.edit(t)
	held(g.latest)
	g.show(t, "-n", kube.TestNamespace, "get", "ls", hello, "-o", "wide")
	if stored := g.admin.run(t, "get", fmt.Sprintf("%s/%s@%d", tenant, hello, g.latest), "--source"); !strings.Contains(stored, answer) {
		t.Errorf("version %d is %s, want the one that was applied", g.latest, stored)
	}
	// A restart of the operator applies everything again.
	g.kubectl(t, "", "-n", kube.SystemNamespace, "delete", "pod", "--selector=app.kubernetes.io/component=operator")
	if err := g.cluster.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.kubectl(t, "", "-n", kube.TestNamespace, "annotate", "luascript", hello, "looked-at=again")
	held(g.latest)
	g.everywhere(t, hello, back)
	g.nobodySaw(t, g.latest)

	t.Log(g.admin.run(t, "release", tenant+"/"+hello))
	g.converged(t, hello)
	g.everywhere(t, hello, sight.State{Content: answer, Version: g.latest})
	g.eventually(t, "the LuaScript is not held", func() (string, bool) {
		message := g.status(t, `conditions[?(@.type=="Held")].message`)
		return message, message == ""
	})
	t.Log(g.admin.run(t, "history", tenant+"/"+hello))
	g.noneFailed(t, before, "")
}

func (g *gated) uninstall(t *testing.T) {
	g.kubectl(t, "", "-n", kube.TestNamespace, "delete", "luascripts", "--all", "--timeout=60s")
	agents := g.componentPods(t, "agent")
	g.admin.close()
	if err := g.cluster.RemoveTestNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.uninstallChart(t, g.helm)
	g.nothingLeft(t)
	g.removeFolders(t, agents)
}
