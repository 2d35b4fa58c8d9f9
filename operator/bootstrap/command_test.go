package bootstrap_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/scriptorium-dev/scriptorium/operator/bootstrap"
)

// command runs the command and returns what it wrote.
func command(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfig)
	var out bytes.Buffer
	cmd := bootstrap.Command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommand(t *testing.T) {
	p := newPlace(t)
	for _, step := range []struct {
		args []string
		line string // of each Secret
	}{
		{[]string{"--dry-run"}, `^made +secret/(\S+?)(: .+)? \(dry run\)$`},
		{nil, `^made +secret/(\S+?)(: .+)?$`},
		{[]string{"--dry-run"}, `^kept +secret/(\S+?)(: .+)? \(dry run\)$`},
		{nil, `^kept +secret/(\S+?)(: .+)?$`},
	} {
		out, err := command(t, env.Kubeconfig(), append(step.args, "--namespace", p.namespace)...)
		if err != nil {
			t.Fatalf("%v: %v", step.args, err)
		}
		var said []string
		for line := range strings.Lines(out) {
			found := regexp.MustCompile(step.line).FindStringSubmatch(strings.TrimSpace(line))
			if found == nil {
				t.Fatalf("%v: %q, want %s", step.args, line, step.line)
			}
			said = append(said, found[1])
		}
		slices.Sort(said)
		if want := slices.Sorted(maps.Keys(documented(t))); !slices.Equal(said, want) {
			t.Errorf("%v: said %v, want %v", step.args, said, want)
		}
		if there := len(p.all()); strings.Contains(step.line, "made") && len(step.args) > 0 && there != 0 {
			t.Errorf("a dry run made %d Secrets", there)
		}
		for _, s := range p.all() {
			for key, value := range s.Data {
				if strings.Contains(out, string(value)) {
					t.Errorf("it shows %s of %s", key, s.Name)
				}
			}
		}
	}
}

// TestSaysThatNATSHasToBeRestarted when its certificate was renewed.
func TestSaysThatNATSHasToBeRestarted(t *testing.T) {
	p := newPlace(t)
	p.opts.Now = func() time.Time { return time.Now().Add(-300 * day) }
	p.must()
	out, err := command(t, env.Kubeconfig(), "--namespace", p.namespace)
	if err != nil || !strings.Contains(out, "renewed  secret/scriptorium-nats-tls: it ended at ") || !strings.Contains(out, "restart scriptorium-nats") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCommandRefuses(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(nowhere, []byte(`{"kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x"}}], "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"no such namespace": {env.Kubeconfig(), []string{"--namespace", "nowhere"}, `namespaces "nowhere" not found`},
		"nobody answers":    {nowhere, nil, "connection refused"},
		"no kubeconfig":     {filepath.Join(t.TempDir(), "none"), nil, "find the API server"},
		"no namespace":      {env.Kubeconfig(), []string{"--namespace="}, "--namespace is empty"},
		"no registry":       {env.Kubeconfig(), []string{"--registry-service="}, "--registry-service is empty"},
		"an argument":       {env.Kubeconfig(), []string{"now"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command(t, tt.kubeconfig, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(err.Error(), tt.want) > 1 {
				t.Errorf("%v, want %q once\n%s", err, tt.want, out)
			}
		})
	}
}

// TestTheRoleIsEnough for all that it does, and for nothing else.
func TestTheRoleIsEnough(t *testing.T) {
	p := newPlace(t)
	role, err := os.ReadFile("../../deploy/rbac/bootstrap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.ReplaceAll(string(role), "namespace: scriptorium-system", "namespace: "+p.namespace)
	if _, _, err := env.Kubectl(t.Context(), here, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := env.Kubectl(t.Context(), "", "-n", p.namespace, "create", "rolebinding", "job", "--role=scriptorium-bootstrap", "--user=job-of-"+p.namespace); err != nil {
		t.Fatal(err)
	}
	config, err := env.User("job-of-" + p.namespace)
	if err != nil {
		t.Fatal(err)
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	job, all := *p, p.secrets
	job.secrets = core.Secrets(p.namespace)
	job.opts.Now = func() time.Time { return time.Now().Add(-300 * day) }
	if made := with(job.must(), bootstrap.Made); len(made) != len(documented(t)) {
		t.Errorf("made %v", made)
	}
	job.opts.Now = nil
	if renewed := with(job.must(), bootstrap.Renewed); len(renewed) != 7 {
		t.Errorf("renewed %v", renewed)
	}
	signing, err := all.Get(t.Context(), bootstrap.Signing, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"list": func() error { _, err := job.secrets.List(t.Context(), metav1.ListOptions{}); return err },
		"delete": func() error {
			return job.secrets.Delete(t.Context(), bootstrap.AgentTLS, metav1.DeleteOptions{})
		},
		"change the signing key": func() error {
			_, err := job.secrets.Update(t.Context(), signing, metav1.UpdateOptions{})
			return err
		},
		"read others' secrets": func() error {
			_, err := job.secrets.Get(t.Context(), "payroll", metav1.GetOptions{})
			return err
		},
		"reach another namespace": func() error {
			_, err := core.Secrets("default").Get(t.Context(), bootstrap.Signing, metav1.GetOptions{})
			return err
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", what, err)
		}
	}
}
