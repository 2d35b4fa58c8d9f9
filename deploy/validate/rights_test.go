package validate_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestRoles: no role is without somebody, and nobody else has any.
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
		{"webhook.certSecret=mine,webhook.caBundle=-----BEGIN CERTIFICATE-----", false},
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

// TestNoOtherRights: who has a token for the API server may do these things with it. More of
// them need a place in docs/kubernetes.md as well.
func TestNoOtherRights(t *testing.T) {
	want := map[string]map[string]string{
		"ClusterRole/scriptorium-operator": {
			"namespaces":                           "get list watch",
			"scripts.scriptorium.dev":              "get list patch watch",
			"scripts/status.scriptorium.dev":       "patch",
			"luascripts.scriptorium.dev":           "get list patch watch",
			"luascripts/status.scriptorium.dev":    "patch",
			"scripttenants.scriptorium.dev":        "get list patch watch",
			"scripttenants/status.scriptorium.dev": "patch",
			"events.events.k8s.io":                 "create patch",
			"validatingwebhookconfigurations.admissionregistration.k8s.io scriptorium-operator": "get patch",
		},
		"Role/scriptorium-operator": {
			"events":                       "create patch",
			"configmaps":                   "create",
			"configmaps scriptorium-fleet": "get",
			"leases.coordination.k8s.io":   "create",
			"leases.coordination.k8s.io scriptorium-operator": "get update",
			"secrets scriptorium-webhook-tls":                 "get update",
		},
		"Role/scriptorium-bootstrap": {"secrets": "create"},
	}
	for _, name := range []string{
		"access", "admin-tls", "agent-nats", "agent-tls", "ca", "etcd-ca", "etcd-tls", "nats-tls", "nats-users", "operator-tls", "registry-etcd", "registry-nats", "registry-tls", "signing", "trust",
	} {
		want["Role/scriptorium-bootstrap"]["secrets scriptorium-"+name] = "get"
	}
	for _, name := range []string{"admin-tls", "agent-tls", "etcd-tls", "nats-tls", "operator-tls", "registry-etcd", "registry-tls"} {
		want["Role/scriptorium-bootstrap"]["secrets scriptorium-"+name] = "get update"
	}
	for _, way := range renderings(t) {
		got := map[string]map[string]string{}
		for _, o := range parse(t, way.make(t)) {
			if o.GetKind() == "Role" || o.GetKind() == "ClusterRole" {
				got[title(o)] = verbsOf(into[rbacv1.Role](t, o.Object).Rules)
			}
		}
		for role, may := range got {
			for what, verbs := range may {
				if want[role][what] != verbs {
					t.Errorf("%s: %s may %s %s, want %q", way.name, role, verbs, what, want[role][what])
				}
			}
		}
	}
}

// verbsOf returns the verbs by what they are for.
func verbsOf(rules []rbacv1.PolicyRule) map[string]string {
	verbs := map[string][]string{}
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					what := strings.TrimSpace(strings.TrimSuffix(resource+"."+group, ".") + " " + name)
					verbs[what] = append(verbs[what], r.Verbs...)
				}
			}
		}
	}
	may := map[string]string{}
	for what, all := range verbs {
		slices.Sort(all)
		may[what] = strings.Join(all, " ")
	}
	return may
}
