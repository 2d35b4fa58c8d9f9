package validate_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/deploy/helm"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

// TestInstallUpgradeUninstall goes through the life of a release on an API server, and
// looks that each object is there, and gone in the end.
func TestInstallUpgradeUninstall(t *testing.T) {
	e := bare(t)
	release := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), needs.Program(t, "helm"), append(args, "--namespace="+namespace, "--kubeconfig="+e.Kubeconfig())...)
		cmd.Env = append(os.Environ(), helm.Env(t.TempDir())...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %q: %v\n%s", args, err, out)
		}
	}
	try, inProduction := parse(t, template()(t)), parse(t, template("--values="+production)(t))

	quickstart(t, e, release)
	present(t, e, try)
	rights(t, e)
	release("upgrade", "scriptorium", chart, "--values="+production)
	present(t, e, slices.DeleteFunc(slices.Clone(inProduction), isJob)) // the second Job has another name
	bringCertificate(t, e, release)
	release("uninstall", "scriptorium", "--wait=hookOnly")
	for _, o := range slices.Concat(try, inProduction) {
		kept := o.GetKind() == "CustomResourceDefinition"
		if there(t, e, o) != kept {
			t.Errorf("after uninstalling, %s is there: %t", title(o), !kept)
		}
	}
}

// bringCertificate has the webhook believed by a CA of somebody's own, where the operator has
// written its own before.
func bringCertificate(t *testing.T, e *testenv.Env, release func(...string)) {
	t.Helper()
	const configuration = "validatingwebhookconfiguration/scriptorium-operator"
	encoded := func(ca *certtest.CA) string {
		text, err := os.ReadFile(ca.File)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(text)
	}
	ca := certtest.NewCA(t)
	_, _, err := e.Kubectl(t.Context(), "", "patch", configuration, "--type=json", "--field-manager=operator",
		`--patch=[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+encoded(certtest.NewCA(t))+`"}]`)
	if err != nil {
		t.Fatal(err)
	}
	release("upgrade", "scriptorium", chart, "--values="+production, "--set=webhook.certSecret=mine", "--set-file=webhook.caBundle="+ca.File, "--force-conflicts")
	for i := range 2 {
		got, _, err := e.Kubectl(t.Context(), "", "get", configuration, fmt.Sprintf("--output=jsonpath={.webhooks[%d].clientConfig.caBundle}", i))
		if err != nil || got != encoded(ca) {
			t.Errorf("webhook %d is believed by %s, %v", i, got, err)
		}
	}
}

// quickstart runs the commands of the README that need no node; `make e2e` runs all. No
// pod ever starts on this API server, so that helm is not to wait for any.
func quickstart(t *testing.T, e *testenv.Env, release func(...string)) {
	t.Helper()
	section, err := page.ReadSection("../../README.md", "On Kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	installed, applied := false, false
	for _, command := range page.Transcript(section) {
		args := strings.Fields(command.Line)
		for i, arg := range args { // it is written for the top of the tree
			if strings.HasPrefix(arg, "deploy/") || strings.HasPrefix(arg, "examples/") {
				args[i] = "../../" + arg
			}
		}
		switch {
		case args[0] == "helm":
			installed = true
			release(slices.DeleteFunc(args[1:], func(arg string) bool { return arg == "--wait" })...)
		case args[0] == "kubectl" && args[1] == "apply":
			applied = true
			if _, _, err := e.Kubectl(t.Context(), "", args[1:]...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !installed || !applied {
		t.Fatal("README.md installs or applies nothing: is it written in another way?")
	}
}

// TestApplyAndDelete does the same with kubectl, and applies an overlay over the other.
func TestApplyAndDelete(t *testing.T) {
	e := bare(t)
	kubectl := func(args ...string) string {
		t.Helper()
		out, _, err := e.Kubectl(t.Context(), "", args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	try := parse(t, overlay(kustomize+"/try")(t))
	kubectl("apply", "-k", kustomize+"/try")
	present(t, e, try)
	for line := range strings.Lines(kubectl("apply", "-k", kustomize+"/try")) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			t.Errorf("applied again, and %s", line)
		}
	}
	kubectl("delete", "job", "scriptorium-bootstrap", "--namespace="+namespace) // as its time to live would
	kubectl("apply", "-k", kustomize+"/production")
	kubectl("delete", "-k", kustomize+"/production", "--wait=false")
	kubectl("delete", "-k", kustomize+"/try", "--wait=false", "--ignore-not-found")
	for _, o := range try {
		if o.GetKind() != "Namespace" && there(t, e, o) { // its controller removes that
			t.Errorf("after deleting, %s is there", title(o))
		}
	}
}

// bare returns an API without Scriptorium's definitions.
func bare(t *testing.T) *testenv.Env {
	t.Helper()
	e := testenv.Start(t)
	if err := e.Client.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}); err != nil {
		t.Fatal(err)
	}
	definitions := slices.DeleteFunc(parse(t, template()(t)), func(o *unstructured.Unstructured) bool { return o.GetKind() != "CustomResourceDefinition" })
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(definitions, func(o *unstructured.Unstructured) bool { return there(t, e, o) }), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// rights asks the API server what each service account may do.
func rights(t *testing.T, e *testenv.Env) {
	t.Helper()
	const ours = "scriptorium.dev"
	for _, tt := range []struct {
		who, verb, group, resource, namespace, name string
		may                                         bool
	}{
		{"operator", "watch", ours, "luascripts", "", "", true},
		{"operator", "watch", ours, "scripts", "", "", true},
		{"operator", "patch", ours, "scripts/status", "default", "x", true},
		{"operator", "delete", ours, "scripts", "default", "x", false},
		{"operator", "patch", ours, "luascripts/status", "default", "x", true},
		{"operator", "patch", ours, "scripttenants/status", "", "x", true},
		{"operator", "update", "coordination.k8s.io", "leases", namespace, "scriptorium-operator", true},
		{"operator", "update", "", "secrets", namespace, "scriptorium-webhook-tls", true},
		{"operator", "patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "scriptorium-operator", true},
		{"operator", "patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another", false},
		{"operator", "get", "", "secrets", namespace, "scriptorium-signing", false},
		{"operator", "create", "", "secrets", namespace, "", false},
		{"operator", "list", "", "secrets", namespace, "", false},
		{"operator", "get", "", "secrets", "default", "scriptorium-webhook-tls", false},
		{"operator", "delete", ours, "luascripts", "default", "x", false},
		{"operator", "create", ours, "luascripts", "default", "", false},
		{"operator", "create", "", "pods", namespace, "", false},
		{"operator", "patch", "", "namespaces", "", "default", false},
		{"bootstrap", "create", "", "secrets", namespace, "", true},
		{"bootstrap", "get", "", "secrets", namespace, "scriptorium-signing", true},
		{"bootstrap", "update", "", "secrets", namespace, "scriptorium-agent-tls", true},
		{"bootstrap", "update", "", "secrets", namespace, "scriptorium-signing", false},
		{"bootstrap", "get", "", "secrets", namespace, "another", false},
		{"bootstrap", "list", "", "secrets", namespace, "", false},
		{"bootstrap", "get", ours, "luascripts", "default", "x", false},
		{"registry", "get", "", "secrets", namespace, "scriptorium-signing", false},
		{"agent", "get", "", "secrets", namespace, "scriptorium-agent-tls", false},
		{"agent", "get", "", "nodes", "", "x", false},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":scriptorium-" + tt.who,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		}}
		resource, sub, _ := strings.Cut(tt.resource, "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: tt.verb, Group: tt.group, Resource: resource, Subresource: sub, Namespace: tt.namespace, Name: tt.name,
		}
		if err := e.Client.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tt.may {
			t.Errorf("%s may %s %s %s/%s: %t", tt.who, tt.verb, tt.resource, tt.namespace, tt.name, review.Status.Allowed)
		}
	}
}

func isJob(o *unstructured.Unstructured) bool { return o.GetKind() == "Job" }

func present(t *testing.T, e *testenv.Env, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if !there(t, e, o) {
			t.Errorf("%s is not there", title(o))
		}
	}
	kinds := map[string]bool{}
	for _, o := range objects {
		kinds[o.GetKind()] = true
	}
	for _, kind := range []string{"CustomResourceDefinition", "ClusterRole", "ValidatingWebhookConfiguration", "DaemonSet"} {
		if !kinds[kind] {
			t.Errorf("no %s among %q", kind, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

// there says whether an object is, and is not being deleted.
func there(t *testing.T, e *testenv.Env, o *unstructured.Unstructured) bool {
	t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(o.GroupVersionKind())
	err := e.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(o), got)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}
