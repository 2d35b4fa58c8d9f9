package kubeforward_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/scriptorium-dev/scriptorium/internal/kubeforward"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
	"github.com/scriptorium-dev/scriptorium/script"
)

// kubeconfig writes one for the API server.
func kubeconfig(t *testing.T, c *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "c", AuthInfo: "u"}, "nobody": {Cluster: "c", AuthInfo: "none"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"u":    {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken},
			"none": {Token: "of-nobody"},
		},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCluster: the credentials come from the Secret, and each error says what to do. Connections need a kubelet.
func TestCluster(t *testing.T) {
	env := testenv.Start(t)
	core, err := typedcorev1.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	ns := env.Namespace(t, "forward", nil)
	for name, data := range map[string]map[string][]byte{
		kubeforward.DefaultSecret: {"ca.crt": []byte("CA"), "tls.crt": []byte("CERT"), "tls.key": []byte("KEY")},
		"of-ci":                   {"ca.crt": []byte("CA"), "token": []byte("secret\n")},
		"empty":                   {"ca.crt": []byte("CA")},
	} {
		if _, err := core.Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	file := kubeconfig(t, env.Config)
	open := func(o kubeforward.Options) *kubeforward.Cluster {
		t.Helper()
		o.Kubeconfig = file
		c, err := kubeforward.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tt := range map[string]struct {
		o    kubeforward.Options
		want kubeforward.Credentials
		kind script.Kind
		says string
	}{
		"certificate": {o: kubeforward.Options{Namespace: ns}, want: kubeforward.Credentials{CA: []byte("CA"), Cert: []byte("CERT"), Key: []byte("KEY")}},
		"token":       {o: kubeforward.Options{Namespace: ns, Secret: "of-ci"}, want: kubeforward.Credentials{CA: []byte("CA"), Token: "secret"}},
		"nothing":     {o: kubeforward.Options{Namespace: ns, Secret: "empty"}, kind: script.Invalid, says: "has neither tls.crt and tls.key nor token"},
		"no chart":    {o: kubeforward.Options{Namespace: "none"}, kind: script.NotFound, says: "is Scriptorium installed there?"},
		"nobody":      {o: kubeforward.Options{Namespace: ns, Context: "nobody"}, kind: script.Denied, says: "does not know you"},
	} {
		got, err := open(tt.o).Credentials(t.Context())
		if tt.says == "" && err != nil || tt.says != "" && (script.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if tt.says == "" && (string(got.CA) != string(tt.want.CA) || string(got.Cert) != string(tt.want.Cert) || string(got.Key) != string(tt.want.Key) || got.Token != tt.want.Token) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if _, err := open(kubeforward.Options{Namespace: ns}).Dial(t.Context()); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "no registry pod is ready") {
		t.Errorf("without a pod: %v", err)
	}
	if _, err := kubeforward.Open(kubeforward.Options{Kubeconfig: file, Context: "other"}); script.KindOf(err) != script.Invalid {
		t.Errorf("a context that there is not: %v", err)
	}
}
