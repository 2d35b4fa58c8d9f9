package validate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// TestThePagesExamples applies what docs/kubernetes.md shows, as a dry run, and gives its
// values to the chart.
func TestThePagesExamples(t *testing.T) {
	makeNamespace(t, "kube-system", nil)
	makeNamespace(t, namespace, nil)
	markdown, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	applied, rendered := 0, 0
	for _, text := range page.Blocks(string(markdown), "yaml") {
		switch {
		case strings.HasPrefix(text, "apiVersion: cert-manager.io/"):
			rendered++
			certificates(t, parse(t, text))
		case strings.HasPrefix(text, "apiVersion: "):
			for _, o := range parse(t, text) {
				applied++
				if isNamespaced(t, o) && o.GetNamespace() == "" {
					o.SetNamespace("default")
				}
				makeServiceAccount(t, "default")
				if err := apply(t, o); err != nil {
					t.Errorf("%s: %v", title(o), err)
				}
			}
		case strings.HasPrefix(text, "# kustomization.yaml"):
			rendered++
			mine := overlay(kustomization(t, text))(t)
			for _, want := range []string{"registry.example.org/scriptorium/agentd:v1.2.3", "etcd: https://etcd-0.example.org:2379,https://etcd-1", "kind: ServiceMonitor"} {
				if !strings.Contains(mine, want) {
					t.Errorf("kustomize does not do with kustomization.yaml what the page says: no %s", want)
				}
			}
			monitored(t, "kustomization.yaml", parse(t, mine))
			if strings.Contains(mine, "etcd-0.etcd") {
				t.Error("the endpoints of kustomization.yaml do not replace those of production")
			}
		case strings.HasPrefix(text, "# mine.yaml"):
			rendered++
			mine := filepath.Join(t.TempDir(), "mine.yaml")
			if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := template("--values="+production, "--values="+mine)(t); !strings.Contains(out, "registry.example.org/scriptorium/agentd:v1.2.3") {
				t.Error("the chart does not do with mine.yaml what the page says")
			}
		}
	}
	if applied < 5 || rendered != 3 {
		t.Errorf("%d objects and %d files: are they written in another way?", applied, rendered)
	}
}

// published is where people who have not cloned this find the overlays.
var published = regexp.MustCompile(`https://github.com/scriptorium-dev/scriptorium//([\w/]+)\?ref=[\w.]+`)

// kustomization writes one that uses this tree, and returns its folder.
func kustomization(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Rel(folder, root)
	if err != nil {
		t.Fatal(err)
	}
	text = published.ReplaceAllString(text, there+"/$1")
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestTheChartsNotes: what they tell people to apply is taken, as it stands there.
func TestTheChartsNotes(t *testing.T) {
	notes, err := os.ReadFile(chart + "/templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(notes), "\nkubectl apply -f - <<END\n")
	text, _, found := strings.Cut(after, "\nEND\n") // a shell looks for it at the beginning of a line
	if !found {
		t.Fatal("NOTES.txt applies nothing that a shell would understand")
	}
	for _, o := range parse(t, text) {
		if err := apply(t, o); err != nil {
			t.Errorf("%s: %v", title(o), err)
		}
	}
}

// certificate is what there is to see of cert-manager's Certificate without its code.
type certificate struct {
	SecretName string   `json:"secretName"`
	CommonName string   `json:"commonName"`
	DNSNames   []string `json:"dnsNames"`
	IsCA       bool     `json:"isCA"`
	IssuerRef  struct {
		Name string `json:"name"`
	} `json:"issuerRef"`
}

// certificates holds cert-manager's objects against the chart that uses their Secrets:
// each pod finds its own, under the names that others call it by, and whom etcd lets
// write has another issuer than the rest.
func certificates(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	issuers, made := map[string]bool{}, map[string]certificate{}
	for _, o := range objects {
		if o.GetNamespace() != namespace {
			t.Errorf("%s is in the namespace %q", title(o), o.GetNamespace())
		}
		if o.GetKind() == "Issuer" {
			issuers[o.GetName()] = true
			continue
		}
		text, err := json.Marshal(o.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		var c certificate
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		made[c.SecretName] = c
	}
	wanted := []string{"scriptorium-admin-tls"}
	for _, p := range pods(t, parse(t, template("--set=bootstrap.certificates=false,webhook.certSecret=scriptorium-webhook-cert")(t))) {
		for _, v := range p.spec.Volumes {
			if v.Secret != nil && regexp.MustCompile("-(tls|etcd|cert)$").MatchString(v.Secret.SecretName) {
				wanted = append(wanted, v.Secret.SecretName)
			}
		}
	}
	called := map[string]string{ // a server's name; of a client, the access policy's
		"scriptorium-registry-tls": "scriptorium-registry", "scriptorium-etcd-tls": "scriptorium-etcd", "scriptorium-nats-tls": "scriptorium-nats",
		"scriptorium-webhook-cert": "scriptorium-operator." + namespace + ".svc", "scriptorium-registry-etcd": "registry",
		"scriptorium-operator-tls": "operator", "scriptorium-agent-tls": "agent", "scriptorium-admin-tls": "admin",
	}
	for _, name := range wanted {
		c, ok := made[name]
		if names := append(c.DNSNames, c.CommonName); !slices.Contains(names, called[name]) {
			t.Errorf("%s is for %q, and is called %q", name, names, called[name])
		}
		ofEtcd := name == "scriptorium-etcd-tls" || name == "scriptorium-registry-etcd"
		if !ok || c.IsCA || !issuers[c.IssuerRef.Name] || (c.IssuerRef.Name == "scriptorium-etcd") != ofEtcd {
			t.Errorf("%s: the page has %+v", name, c)
		}
		delete(made, name)
	}
	for name, c := range made {
		if !c.IsCA {
			t.Errorf("nobody uses %s", name)
		}
	}
}
