package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
	"github.com/scriptorium-dev/scriptorium/operator/webhook"
)

// system is the operator's namespace.
const system = "scriptorium-system"

var kube *testenv.Env

// TestMain runs all tests with one API server, which calls one webhook.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, func(e *testenv.Env) {
		kube = e
		if err := serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}))
}

// serve starts an operator of nothing but the webhook, and has the API server call it. It
// returns when it does.
func serve(ctx context.Context) error {
	address, _, err := porttest.Reserve() // until this process ends
	if err != nil {
		return err
	}
	port := address.Port
	if err := prepare(ctx, webhook.DefaultConfiguration, port); err != nil {
		return err
	}
	as, err := operator(ctx)
	if err != nil {
		return err
	}
	mgr, err := newManager(as, webhook.Config{
		Checkers: engines.Checkers(), Advise: lint.Advise, Namespace: system, Host: "127.0.0.1", Port: port, Hosts: []string{"127.0.0.1"},
	})
	if err != nil {
		return err
	}
	go mgr.Start(ctx)
	return wait(ctx, asked)
}

// asked returns nil if the API server asks the webhook: a LuaScript that is refused says
// that all is well.
func asked() error {
	if err := kube.Client.Create(context.Background(), luaScript("default", "probe", "nobody", "x"), client.DryRunAll); err == nil {
		return errors.New("the webhook is not asked")
	}
	return nil
}

// operator is a user who has the roles that are made from the markers, and may nothing
// else.
func operator(ctx context.Context) (*rest.Config, error) {
	const role = "scriptorium-operator"
	if _, _, err := kube.Kubectl(ctx, "", "apply", "-f", filepath.Join("..", "..", "deploy", "rbac", "operator.yaml")); err != nil {
		return nil, err
	}
	who := []rbacv1.Subject{{Kind: "User", Name: "operator"}}
	err := errors.Join(
		kube.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: who, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		}),
		kube.Client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: role}, Subjects: who, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: role},
		}),
	)
	if err != nil {
		return nil, err
	}
	return kube.User("operator")
}

func newManager(as *rest.Config, cfg webhook.Config) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme: kube.Client.Scheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	_, err = webhook.Add(mgr, cfg)
	return mgr, err
}

// prepare makes the operator's namespace, its Secret, and the configuration as it is
// deployed but for the address: there is no network of pods.
func prepare(ctx context.Context, name string, port int) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}
	if err := client.IgnoreAlreadyExists(kube.Client.Create(ctx, ns)); err != nil {
		return err
	}
	c, err := deployed()
	if err != nil {
		return err
	}
	c.Name = name
	for i := range c.Webhooks {
		at := &c.Webhooks[i].ClientConfig
		at.URL = new(fmt.Sprintf("https://127.0.0.1:%d%s", port, *at.Service.Path))
		at.Service = nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: webhook.DefaultSecret}}
	return errors.Join(client.IgnoreAlreadyExists(kube.Client.Create(ctx, secret)), kube.Client.Create(ctx, c))
}

// deployed returns the configuration that is made from the package's markers.
func deployed() (*admissionv1.ValidatingWebhookConfiguration, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "webhook", "manifests.yaml"))
	if err != nil {
		return nil, err
	}
	c := &admissionv1.ValidatingWebhookConfiguration{}
	return c, yaml.UnmarshalStrict(text, c)
}

// wait waits until f returns nil, a minute at most.
func wait(ctx context.Context, f func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("after a minute: %w", err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func luaScript(namespace, name, tenant, source string) *v1alpha1.LuaScript {
	return &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: tenant, Source: &source},
	}
}
