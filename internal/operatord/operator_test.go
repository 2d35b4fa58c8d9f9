package operatord_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
	"github.com/scriptorium-dev/scriptorium/deploy/observability/rules"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
	"github.com/scriptorium-dev/scriptorium/operator/webhook"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the libraries'
	os.Exit(m.Run())
}

// patience is how long a busy machine may take.
const patience = 2 * time.Minute

// eventually waits until what is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come true: %s", what)
		}
	}
}

// running is an operator that runs.
type running struct {
	*operatord.Operator
	stop func()
}

func start(t *testing.T, cfg operatord.Config) *running {
	t.Helper()
	o, err := operatord.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := o.Run(ctx); err != nil {
			t.Errorf("it ended: %v", err)
		}
	})
	r := &running{o, sync.OnceFunc(func() { cancel(); wg.Wait() })}
	t.Cleanup(r.stop)
	return r
}

func (r *running) leads() bool {
	select {
	case <-r.Leading():
		return true
	default:
		return false
	}
}

// get returns what the admin address answers.
func (r *running) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.AdminAddr().String()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestOperators: two of them in one process, of which one leads; the other goes on when
// it stops. A registry that is away makes them degraded, and no less.
func TestOperators(t *testing.T) {
	env := testenv.Start(t)
	state := t.TempDir()
	stack, err := local.Start(t.Context(), state, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stack.Stop(context.Background()) })
	namespace := env.Namespace(t, "operators", nil)
	cfg := operatord.Config{
		Kube: env.Config, Registry: stack.RegistryTarget(), AdminAddress: "127.0.0.1:0",
		LeaderElection: true, Namespace: namespace, DeleteWait: time.Minute,
		Log: slog.New(slog.DiscardHandler),
	}
	first := start(t, cfg)
	eventually(t, "the first leads", first.leads)
	eventually(t, "the fleet is noted", func() bool {
		var mark corev1.ConfigMap
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "scriptorium-fleet"}, &mark)
		known, _ := os.ReadFile(filepath.Join(state, "fleet"))
		return err == nil && mark.Data["id"] != "" && mark.Data["id"] == strings.TrimSpace(string(known))
	})
	second := start(t, cfg)
	eventually(t, "the second is ready", func() bool {
		code, body := second.get(t, "/readyz")
		return code == http.StatusOK && !strings.Contains(body, "degraded")
	})
	if second.leads() {
		t.Error("both lead")
	}

	tenant := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{namespace}}}
	if err := env.Client.Create(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	converges := func(name, source string) {
		t.Helper()
		ls := &v1alpha1.LuaScript{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.LuaScriptSpec{TenantID: "acme", Source: &source},
		}
		if err := env.Client.Create(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" converges", func() bool {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(ls), ls); err != nil {
				t.Fatal(err)
			}
			return meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionConverged)
		})
	}
	converges("one", "function handle() return 1 end")
	var metrics string
	eventually(t, "the metrics say that it converged", func() bool { // they do soon after the status
		_, metrics = first.get(t, "/metrics")
		return strings.Contains(metrics, "scriptorium_operator_converged_seconds_count 1")
	})
	for _, line := range []string{
		"scriptorium_operator_leader 1", "scriptorium_operator_fleet_watch_live 1", "scriptorium_operator_converged_seconds_count 1",
		`scriptorium_operator_registry_requests_total{outcome="ok",request="publish"} 1`,
		`controller_runtime_reconcile_total{controller="luascript"`, `workqueue_depth{controller="luascript"`, "process_cpu_seconds_total", "go_goroutines",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	checkNamedMetrics(t, metrics)
	if code, _ := first.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}

	first.stop()
	eventually(t, "the second leads", second.leads)
	converges("two", "function handle() return 2 end")

	if err := stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second is degraded", func() bool {
		code, body := second.get(t, "/readyz")
		return code == http.StatusOK && strings.Contains(body, "the registry cannot be watched")
	})
}

// namedMetric is one of the operator's in an expression.
var namedMetric = regexp.MustCompile(`\b(?:scriptorium_operator|controller_runtime|workqueue)_[a-z_]+`)

// checkNamedMetrics looks for the operator's metrics that dashboards and alerts name.
func checkNamedMetrics(t *testing.T, metrics string) {
	t.Helper()
	named := map[string]bool{}
	note := func(expr string) {
		for _, name := range namedMetric.FindAllString(expr, -1) {
			named[strings.TrimSuffix(name, "_bucket")] = true
		}
	}
	for _, a := range rules.Alerts() {
		note(a.Expression())
	}
	for _, d := range dashboards.All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					note(q.Expanded())
				}
			}
		}
	}
	delete(named, "scriptorium_operator_certificate_expiry_timestamp_seconds") // there are no certificates here
	if len(named) < 5 {
		t.Errorf("dashboards and alerts name only %v", named)
	}
	for name := range named {
		if !strings.Contains(metrics, "# HELP "+name+" ") {
			t.Errorf("dashboards or alerts name %s, which the operator does not have", name)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := operatord.New(operatord.Config{})
	if e := script.AsError(err); e == nil || e.Kind != script.Invalid || e.Field != "--registry" {
		t.Errorf("without a registry: %v", err)
	}
	dir := t.TempDir()
	key := filepath.Join(dir, "tls.key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = operatord.New(operatord.Config{Registry: "unix:/none", Webhook: &webhook.Config{CertDir: dir}})
	if e := script.AsError(err); e == nil || e.Field != "--webhook-cert-dir" || !strings.Contains(e.Message, "0644") {
		t.Errorf("with an open key of the webhook: %v", err)
	}
}

// TestCommand: what is wrong with flags is said before anything is reached.
func TestCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "/does/not/exist")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--registry", "unix:/x", "--log-format", "xml"}, "--log-format"},
		{[]string{"--registry", "unix:/x"}, "API server"},
		{[]string{"--no-such-flag"}, "no-such-flag"},
		{[]string{"extra"}, "extra"},
	} {
		cmd := operatord.Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(tt.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error %v, want one that names %s", tt.args, err, tt.want)
		}
	}
}
