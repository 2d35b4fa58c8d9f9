package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The webhook reports a pin to a missing version at once, as far as the status knows.
func TestPins(t *testing.T) {
	cleanUp(t)
	needTenant(t, "acme", "namespaces: [default]")
	ls := luaScript("default", "route", "acme", "function handle() return 4 end")
	if err := kube.Client.Create(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	status := v1alpha1.LuaScriptStatus{
		ObservedGeneration: ls.Generation, ActiveVersion: 4, LatestVersion: 4,
		History: []v1alpha1.VersionStatus{{Version: 4, Digest: script.DigestOf([]byte(*ls.Spec.Source)).String()}, {Version: 3, Digest: "x"}},
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue, Reason: "Published", ObservedGeneration: ls.Generation, LastTransitionTime: metav1.Now(),
	}
	const (
		lacks   = `The LuaScript "route" is invalid: spec.version: acme/route has no version %d: it retains 3, 4`
		behind  = "spec.version: version %d is none of those that the status tells of (3, 4), which may be behind: if there is none, the LuaScript will be Stalled"
		unknown = "spec.version: pins version %d, and a new script has none but its first: unless the registry has that version already, the LuaScript will be Stalled"
	)
	for name, is := range map[string]struct {
		known, fresh bool
		name         string
	}{
		"fresh": {true, true, "route"}, "behind": {true, false, "route"}, "nothing known": {false, false, "route"}, "new": {false, false, "other"},
	} {
		ls.Status = v1alpha1.LuaScriptStatus{}
		if is.known {
			ls.Status = status
		}
		if is.fresh {
			ls.Status.Conditions = []metav1.Condition{condition}
		}
		if err := kube.Client.Status().Update(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		for _, pin := range []int{1, 2, 3, 4, 5, 6} {
			for _, source := range []string{*ls.Spec.Source, "function handle() return 5 end"} {
				exists := pin == 3 || pin == 4 || pin == 5 && source != *ls.Spec.Source
				want := ""
				switch {
				case !is.known && pin > 1:
					want = fmt.Sprintf("Warning: "+unknown, pin)
				case is.known && !exists && is.fresh:
					want = fmt.Sprintf(lacks, pin)
				case is.known && !exists:
					want = fmt.Sprintf("Warning: "+behind, pin)
				}
				verb := "replace"
				if is.name != ls.Name {
					verb = "create"
				}
				spec := fmt.Sprintf("tenantId: acme\nsource: %s\nversion: %d", source, pin)
				_, stderr, _ := kube.Kubectl(t.Context(), manifest(is.name, spec), verb, "--dry-run=server", "-f", "-")
				if got := strings.TrimSpace(stderr); got != want {
					t.Errorf("%s, version %d: got  %s\nwant %s", name, pin, got, want)
				}
			}
		}
	}
}
