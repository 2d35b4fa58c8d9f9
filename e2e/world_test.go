//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

const (
	tenant = "e2e"
	hello  = "hello"
	second = "second"
)

// world is the cluster, and the gateway pods that call the scripts hello and second
// all the time.
type world struct {
	cluster *kube.Cluster
	images  kube.Images
	spec    kube.Gateways
	pods    []kube.Gateway
	claimed bool // see claim
	// latest version of hello that was published, as far as the tests know.
	latest uint64
	source string // of that
	edits  int
}

// patience is how long something may take that has no time limit of its own. Nothing
// that works takes nearly as long.
const patience = 2 * time.Minute

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster, err := kube.Connect(t.Context(), func(format string, args ...any) { t.Logf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		cluster: cluster,
		images:  kube.ImagesFromEnvironment(),
		spec: kube.Gateways{
			Namespace: kube.TestNamespace, Name: "gateway", Callers: 4, Interval: 10 * time.Millisecond,
			Scripts: []string{tenant + "/" + hello, tenant + "/" + second, tenant + "/" + module, tenant + "/" + policy},
		},
	}
}

// kubectl runs kubectl, which must succeed, and returns what it printed.
func (w *world) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := w.cluster.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// show puts what kubectl prints into the test's log.
func (w *world) show(t *testing.T, args ...string) {
	t.Helper()
	t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), w.kubectl(t, "", args...))
}

// answering returns the source of a script that answers with the text.
func answering(text string) string {
	return fmt.Sprintf("function handle(request)\n  return %q\nend\n", text)
}

// manifest returns a LuaScript. More are lines of its spec, indented by two spaces.
func manifest(name, source string, more ...string) string {
	lines := []string{
		"apiVersion: scriptorium.dev/v1alpha1",
		"kind: LuaScript",
		"metadata: {name: " + name + ", namespace: " + kube.TestNamespace + "}",
		"spec:",
		"  tenantId: " + tenant,
		"  source: |",
	}
	for line := range strings.Lines(source) {
		lines = append(lines, "    "+strings.TrimRight(line, "\n"))
	}
	return strings.Join(append(lines, more...), "\n") + "\n"
}

// edit gives hello a source that it never had, and returns what it answers then.
func (w *world) edit(t *testing.T, more ...string) string {
	t.Helper()
	w.edits++
	answer := fmt.Sprintf("answer %d", w.edits)
	w.source = answering(answer)
	w.latest++
	w.kubectl(t, manifest(hello, w.source, more...), "apply", "-f", "-")
	return answer
}

// newest is what calls see of the last edit.
func (w *world) newest() sight.State {
	return sight.State{Content: fmt.Sprintf("answer %d", w.edits), Version: w.latest}
}

// converged waits as a person would.
func (w *world) converged(t *testing.T, name string) {
	t.Helper()
	w.kubectl(t, "", "-n", kube.TestNamespace, "wait", "--for=condition=Converged", "--timeout=60s", "luascript/"+name)
}

// report returns what a gateway says.
func (w *world) report(t *testing.T, g kube.Gateway) sight.Report {
	t.Helper()
	report, err := w.cluster.Sights(t.Context(), g, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// last returns the last state of the script that the gateway saw.
func last(report sight.Report, name string) (sight.Sight, bool) {
	for _, s := range slices.Backward(report.Sights) {
		if s.Of == tenant+"/"+name {
			return s, true
		}
	}
	return sight.Sight{}, false
}

// everywhere waits until the last thing that each gateway saw of the script is the state.
// A Version of 0 is any.
func (w *world) everywhere(t *testing.T, name string, want sight.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, g := range w.pods {
		err := kube.Until(ctx, func(ctx context.Context) error {
			report, err := w.cluster.Sights(ctx, g, 0, 0)
			if err != nil {
				return err
			}
			got, ok := last(report, name)
			if want.Version == 0 {
				got.Version = 0
			}
			if !ok || got.State != want {
				return fmt.Errorf("the gateway on %s sees %+v of %s, want %+v", g.Node, got.State, name, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// calls returns how many calls of the first script each node's gateway made.
func (w *world) calls(t *testing.T) map[string]sight.Calls {
	t.Helper()
	counts := map[string]sight.Calls{}
	for _, g := range w.pods {
		counts[g.Node] = w.report(t, g).Calls[w.spec.Scripts[0]]
	}
	return counts
}

// noneFailed checks that since before no call failed, on all nodes but one, and that
// there were calls.
func (w *world) noneFailed(t *testing.T, before map[string]sight.Calls, but string) {
	t.Helper()
	for node, after := range w.calls(t) {
		was, known := before[node]
		if node == but || !known {
			continue
		}
		answered := after.Answered - was.Answered
		if answered == 0 {
			t.Errorf("%s: no calls", node)
		}
		if !maps.Equal(after.Failed, was.Failed) {
			t.Errorf("%s: %d calls answered, and failed ones went from %v to %v, the last: %s", node, answered, was.Failed, after.Failed, after.LastErr)
			continue
		}
		t.Logf("%s: %d calls answered, none failed", node, answered)
	}
}

// refreshGateways finds the gateway pods again, after nodes or pods came.
func (w *world) refreshGateways(t *testing.T) {
	t.Helper()
	pods, err := w.cluster.AwaitGateways(t.Context(), w.spec)
	if err != nil {
		t.Fatal(err)
	}
	w.pods = pods
}

// hook returns the command in an environment variable, which the test needs.
func hook(t *testing.T, name, does string) string {
	t.Helper()
	command := os.Getenv(name)
	if command == "" {
		needs.Skip(t, fmt.Sprintf("needs a command that can %s: set %s to one (see README.md)", does, name))
	}
	return command
}
