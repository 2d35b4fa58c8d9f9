package validate_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestLint runs helm lint, in which a warning is an error.
func TestLint(t *testing.T) {
	for _, values := range []string{"values.yaml", "values-production.yaml"} {
		if out, err := runHelm(t, "lint", "--strict", "--quiet", chart, "--values="+chart+"/"+values); err != nil {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
}

// TestValuesThatAreWrong are refused, and the message names the value.
func TestValuesThatAreWrong(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{"registry.replica=3", "replica"},
		{"registry.replicas=0", "replicas"},
		{"registry.replicas=many", "replicas"},
		{"agent.socketDir=run/scriptorium", "socketDir"},
		{"agent.allow={101=acme}", "allow"},
		{"agent.maxUnavailable=0", "maxUnavailable"},
		{"agent.maxUnavailable=10 %", "maxUnavailable"},
		{"agent.extraArgs={counter-metrics}", "extraArgs"},
		{"image.pullPolicy=Sometimes", "pullPolicy"},
		{"webhook.port=443", "port"},
		{"webhook.port=8080", "port"},
		{"networkPolicies.apiServerPorts={}", "apiServerPorts"},
		{"etcd.enabled=false", "etcd.endpoints"},
		{"nats.enabled=false", "nats.urls"},
		{"etcd.endpoints={http://etcd:2379}", "endpoints"},
		{"nats.urls={nats://nats:4222}", "urls"},
		{"operater.replicas=2", "operater"},
	} {
		if out, err := runHelm(t, "template", "scriptorium", chart, "--set="+tt.set); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want a refusal of %s\n%.200s", tt.set, err, tt.want, out)
		}
	}
}

// TestEveryValueIsExplained: the comments of values.yaml are what there is to read.
func TestEveryValueIsExplained(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for key := range values {
		if !strings.Contains(string(docs), "`"+key) {
			t.Errorf("docs/kubernetes.md does not mention the value %s", key)
		}
		if !regexp.MustCompile(`(?m)^# .*\n` + key + `:`).Match(text) {
			t.Errorf("values.yaml says nothing above %s", key)
		}
	}
}

// TestRoles: nobody may do everything to something, and no role is without somebody.
func TestRoles(t *testing.T) {
	for _, way := range renderings(t) {
		objects := parse(t, way.make(t))
		bound := map[string]bool{}
		for _, o := range objects {
			if strings.HasSuffix(o.GetKind(), "RoleBinding") {
				b := into[rbacv1.RoleBinding](t, o.Object) // a ClusterRoleBinding has the same fields
				bound[b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
				for _, s := range b.Subjects {
					if s.Kind != "ServiceAccount" || s.Namespace != namespace {
						t.Errorf("%s: %s is for %s %s/%s", way.name, title(o), s.Kind, s.Namespace, s.Name)
					}
				}
			}
		}
		for _, o := range objects {
			if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
				continue
			}
			if !bound[title(o)] {
				t.Errorf("%s: nobody has the %s", way.name, title(o))
			}
			role := into[rbacv1.Role](t, o.Object)
			for _, r := range role.Rules {
				secrets := o.GetKind() == "ClusterRole" && strings.Contains(strings.Join(r.Resources, " "), "secrets")
				if all := strings.Join(r.APIGroups, "") + strings.Join(r.Resources, "") + strings.Join(r.Verbs, ""); strings.Contains(all, "*") || secrets {
					t.Errorf("%s: %s: %v is too much", way.name, title(o), r)
				}
			}
		}
	}
}

// TestRightsForTheWebhook: who keeps no certificate has no right to a Secret.
func TestRightsForTheWebhook(t *testing.T) {
	for _, tt := range []struct {
		set  string
		want bool
	}{
		{"webhook.enabled=true", true},
		{"webhook.enabled=false", false},
		{"webhook.certSecret=mine", false},
	} {
		secrets, configurations, leases := false, false, false
		for _, o := range parse(t, template("--set="+tt.set)(t)) {
			if o.GetName() != "scriptorium-operator" || !strings.HasSuffix(o.GetKind(), "Role") {
				continue
			}
			for _, r := range into[rbacv1.Role](t, o.Object).Rules {
				secrets = secrets || slices.Contains(r.Resources, "secrets")
				configurations = configurations || slices.Contains(r.Resources, "validatingwebhookconfigurations")
				leases = leases || slices.Contains(r.Resources, "leases")
			}
		}
		if secrets != tt.want || configurations != tt.want || !leases {
			t.Errorf("%s: the operator has secrets %t, webhooks %t, leases %t", tt.set, secrets, configurations, leases)
		}
	}
}
