//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

// observe checks what an administrator sees of the script hello: its calls, its log, its records, its events, and what
// its tenant has used.
func (g *gated) observe(t *testing.T) {
	g.edits++
	g.latest++
	g.source = fmt.Sprintf("function handle(request)\n  log.info('seen %[1]d')\n  return 'answer %[1]d'\nend\n", g.edits)
	g.kubectl(t, manifest(hello, g.source, "  log: {decisions: {sample: 1}}"), "apply", "-f", "-")
	g.converged(t, hello)
	g.everywhere(t, hello, g.newest())
	ref := tenant + "/" + hello

	g.eventually(t, "top shows its calls", func() (string, bool) {
		_, out, _ := strings.Cut(g.admin.run(t, "top", ref, "--once"), "\n") // behind the command
		return out, strings.Contains(out, ref)
	})
	for _, pod := range g.pods {
		g.eventually(t, "logs has a line of "+pod.Node, func() (string, bool) {
			out := g.admin.run(t, "logs", ref, "--node", pod.Node, "--version", fmt.Sprint(g.latest), "--tail", "3")
			return out, strings.Contains(out, fmt.Sprintf("seen %d", g.edits))
		})
	}
	for pod := range g.componentPods(t, "agent") {
		g.eventually(t, "the decision log of "+pod+" has its calls", func() (string, bool) {
			out := g.kubectl(t, "", "-n", kube.SystemNamespace, "logs", pod, "--tail=50")
			return out, slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
				var record struct {
					Tenant, Script, Outcome string
					Version                 uint64
				}
				return json.Unmarshal([]byte(line), &record) == nil && record.Tenant == tenant && record.Script == hello && record.Version == g.latest && record.Outcome == "OK"
			})
		})
	}
	events := g.admin.run(t, "events", ref)
	t.Log(events)
	for _, want := range []string{"publish", "rollout", "hold", "incident 12"} {
		if !strings.Contains(events, want) {
			t.Errorf("the events lack %q", want)
		}
	}
	g.eventually(t, "usage counts the calls of the tenant", func() (string, bool) {
		_, out, _ := strings.Cut(g.admin.run(t, "usage", "--tenant", tenant, "--since", "2h"), "\n")
		return out, strings.Contains(out, tenant)
	})
	g.eventually(t, "Prometheus has its calls by outcome", func() (string, bool) {
		out, err := g.cluster.Query(t.Context(), fmt.Sprintf(`sum by (outcome) (scriptorium_script_calls_total{tenant=%q,script=%q})`, tenant, hello))
		return fmt.Sprint(out, err), strings.Contains(out, `"OK"`)
	})
	boards := g.kubectl(t, "", "-n", kube.SystemNamespace, "get", "configmaps", "-l", "grafana_dashboard=1", "-o", "name")
	if n := strings.Count(boards, "configmap/"); n < 5 {
		t.Errorf("there are the dashboards %q, want 5", boards)
	}
}
