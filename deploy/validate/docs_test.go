package validate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
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
		case strings.HasPrefix(text, "# creds.yaml"):
			rendered++
			creds(t, text, string(markdown))
		case strings.HasPrefix(text, "# mine.values.yaml"):
			rendered++
			mine := filepath.Join(t.TempDir(), "mine.values.yaml")
			if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := template("--values=" + mine)(t); !strings.Contains(out, "--http-client-ca=") || !strings.Contains(out, "name: scriptorium-agent-http\n") {
				t.Error("the chart does not do with mine.values.yaml what the page says")
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
	// Without the first file mine.yaml is on top of the values for trying.
	if all, both := strings.Count(string(markdown), "-f mine.yaml"), strings.Count(string(markdown), "-f deploy/helm/scriptorium/values-production.yaml -f mine.yaml"); both < 2 || all != both {
		t.Errorf("mine.yaml is named %d times, and %d times behind values-production.yaml", all, both)
	}
	if applied < 5 || rendered != 5 {
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

// creds renders the values, and looks that registries and agents then show NATS the file of
// their Secret, and no password besides; and that the page has each flag of which not the
// last one wins.
func creds(t *testing.T, text, markdown string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "creds.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := map[string]*cobra.Command{"Deployment/scriptorium-registry": registryd.Command(), "DaemonSet/scriptorium-agent": agentd.Command()}
	for _, p := range pods(t, parse(t, template("--values="+production, "--values="+file)(t))) {
		cmd := commands[p.of]
		if cmd == nil {
			continue
		}
		c := p.spec.Containers[0]
		if err := cmd.ParseFlags(c.Args); err != nil {
			t.Fatal(err)
		}
		_, add, _ := strings.Cut(markdown, "where the last one wins (")
		add, _, _ = strings.Cut(add, " add to what is there)")
		cmd.Flags().Visit(func(f *pflag.Flag) {
			_, slice := f.Value.(pflag.SliceValue)
			if adds := slice || strings.HasPrefix(f.Value.Type(), "stringTo"); adds != strings.Contains(add, "`--"+f.Name+"`") {
				t.Errorf("%s: --%s adds to what is there: %t, and the page says something else", p.of, f.Name, adds)
			}
		})
		got := map[string]string{}
		for _, flag := range []string{"nats-user", "nats-password-file", "nats-creds"} {
			got[flag] = cmd.Flags().Lookup(flag).Value.String()
		}
		folder := "/etc/scriptorium/" + c.Name + "-nats"
		if diff := cmp.Diff(map[string]string{"nats-user": "", "nats-password-file": "", "nats-creds": folder + "/nats.creds"}, got); diff != "" {
			t.Errorf("%s with creds.yaml (-want +got):\n%s", p.of, diff)
		}
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder }) {
			t.Errorf("%s has no %s", p.of, folder)
		}
	}
}

// certificate is what there is to see of cert-manager's Certificate without its code.
type certificate struct {
	SecretName string   `json:"secretName"`
	CommonName string   `json:"commonName"`
	DNSNames   []string `json:"dnsNames"`
	IsCA       bool     `json:"isCA"`
	PrivateKey struct {
		RotationPolicy string `json:"rotationPolicy"`
	} `json:"privateKey"`
	IssuerRef struct {
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
	for _, p := range pods(t, parse(t, template("--set=bootstrap.certificates=false,webhook.certSecret=scriptorium-webhook-cert,webhook.annotations.x=y")(t))) {
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
		} else if c.PrivateKey.RotationPolicy != "Never" {
			t.Errorf("%s gets another key when it is renewed: what it has signed is not believed then", name)
		}
	}
}
