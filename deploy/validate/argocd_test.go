package validate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// TestTheHealthChecksOfArgoCD: the command of docs/kubernetes.md adds them to what Argo CD's
// ConfigMap has.
func TestTheHealthChecksOfArgoCD(t *testing.T) {
	section, err := page.ReadSection("../../docs/kubernetes.md", "Argo CD")
	if err != nil {
		t.Fatal(err)
	}
	command, err := page.Find(page.Indented(section), "patch configmap")
	if err != nil {
		t.Fatal(err)
	}
	makeNamespace(t, "argocd", nil)
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "argocd-cm"},
		Data:       map[string]string{"url": "https://argocd.example.org"},
	}
	if err := env.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.Replace(command, " deploy/", " ../", 1))
	if _, _, err := env.Kubectl(t.Context(), "", args[1:]...); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	const prefix = "resource.customizations.health.scriptorium.dev_"
	if config.Data["url"] == "" || config.Data[prefix+"Script"] == "" || config.Data[prefix+"LuaScript"] == "" || config.Data[prefix+"ScriptTenant"] == "" {
		t.Errorf("argocd-cm has %q", config.Data)
	}
}
