package v1alpha1_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, _, err := env.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout
}

// table returns the cells of what kubectl get printed; columns are two spaces apart.
func table(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, regexp.MustCompile(`\s{2,}`).Split(strings.TrimRight(line, " \n"), -1))
	}
	return rows
}

// TestColumns: kubectl get says at a glance what runs where.
func TestColumns(t *testing.T) {
	namespace := env.Namespace(t, "columns", nil)
	tenant, err := create(t, "", header+"kind: ScriptTenant\nmetadata: {name: columns}\nspec: {isolation: process}")
	if err != nil {
		t.Fatal(err)
	}
	defer remove(t, tenant)
	ls := &v1alpha1.LuaScript{}
	ls.Namespace, ls.Name = namespace, "route"
	ls.Spec = v1alpha1.LuaScriptSpec{TenantID: "columns", Source: new("return 1"), Version: new(int64(3))}
	if err := env.Client.Create(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	defer remove(t, ls)
	ls.Status = v1alpha1.LuaScriptStatus{
		Phase: v1alpha1.PhasePending, ActiveVersion: 3, LatestVersion: 5, Candidate: &v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut},
		Agents: &v1alpha1.AgentsStatus{Summary: "118/120", Desired: 120, Active: 118, Failed: 2},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Spreading",
			Message: "2 of 120 agents failed", LastTransitionTime: metav1.Now(),
		}},
	}
	if err := env.Client.Status().Update(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string // header and row, but for the age
	}{
		{
			[]string{"get", "ls", "-n", namespace},
			[]string{"NAME TENANT VERSION PINNED CANDIDATE ACTIVE READY STATUS AGE", "route columns 3 3 4 118/120 False Pending"},
		},
		{
			[]string{"get", "luascripts.scriptorium.dev", "-A", "--field-selector", "spec.tenantId=columns"},
			[]string{"NAMESPACE NAME TENANT VERSION PINNED CANDIDATE ACTIVE READY STATUS AGE", namespace + " route columns 3 3 4 118/120 False Pending"},
		},
		{
			[]string{"get", "luascript", "route", "-n", namespace, "-o", "wide"},
			[]string{"NAME TENANT VERSION PINNED CANDIDATE ACTIVE READY STATUS AGE REASON", "route columns 3 3 4 118/120 False Pending AGE 2 of 120 agents failed"},
		},
		{
			[]string{"get", "st", "columns"},
			[]string{"NAME ISOLATION SCRIPTS READY AGE", "columns process   "},
		},
	} {
		rows := table(kubectl(t, "", test.args...))
		if len(rows) != 2 {
			t.Errorf("kubectl %v: %d lines", test.args, len(rows))
			continue
		}
		if header := strings.Join(rows[0], " "); strings.Join(strings.Fields(header), " ") != test.want[0] {
			t.Errorf("kubectl %v: header %q, want %q", test.args, header, test.want[0])
		}
		row := strings.Join(rows[1], " ")
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(test.want[1])), "AGE", `\S+`))
		if !want.MatchString(row) {
			t.Errorf("kubectl %v: row %q, want %q", test.args, row, test.want[1])
		}
	}
	if all := kubectl(t, "", "get", "scriptorium", "-n", namespace, "-o", "name"); !strings.Contains(all, "luascript.scriptorium.dev/route") {
		t.Errorf("the category has %q", all)
	}
}

// TestExplain: kubectl explain has words for every field.
func TestExplain(t *testing.T) {
	for _, crd := range definitions(t) {
		for path, f := range fields(crd) {
			if f.Description == "" {
				t.Errorf("%s.%s: no description", crd.Spec.Names.Kind, path)
			}
		}
		parts := []string{"spec", "spec.limits", "status"}
		if crd.Spec.Names.Kind != "ScriptTenant" {
			parts = append(parts, "spec.rollout", "spec.rollout.steps", "spec.tests", "status.candidate", "status.agents")
		}
		for _, part := range parts {
			said := strings.Join(strings.Fields(kubectl(t, "", "explain", crd.Spec.Names.Singular+"."+part)), " ")
			for path, f := range fields(crd) {
				if name, ok := strings.CutPrefix(path, part+"."); ok && !strings.Contains(name, ".") {
					want := strings.Join(strings.Fields(f.Description), " ")
					if !strings.Contains(said, fmt.Sprintf("%s <", name)) || !strings.Contains(said, want) {
						t.Errorf("kubectl explain %s.%s does not say of %s: %s", crd.Spec.Names.Singular, part, name, want)
					}
				}
			}
		}
	}
}
