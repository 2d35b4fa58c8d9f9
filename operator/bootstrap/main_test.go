package bootstrap_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/scriptorium-dev/scriptorium/operator/bootstrap"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

// env is what TestMain starts.
var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Run(m, func(e *testenv.Env) { env = e })) }

// place is a namespace of a test.
type place struct {
	t         *testing.T
	namespace string
	secrets   typedcorev1.SecretInterface
	opts      bootstrap.Options
}

func newPlace(t *testing.T) *place {
	t.Helper()
	core, err := typedcorev1.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	ns := env.Namespace(t, "bootstrap", nil)
	return &place{t: t, namespace: ns, secrets: core.Secrets(ns), opts: bootstrap.Options{
		Namespace: ns, DNSSuffix: "cluster.local",
		RegistryService: "scriptorium-registry", EtcdService: "scriptorium-etcd", NATSService: "scriptorium-nats",
	}}
}

// run runs it and returns the actions by Secret.
func (p *place) run() (map[string]bootstrap.Action, error) {
	p.t.Helper()
	changes, err := bootstrap.Run(p.t.Context(), p.secrets, p.opts)
	actions := map[string]bootstrap.Action{}
	for _, c := range changes {
		if before, twice := actions[c.Secret]; twice {
			p.t.Errorf("%s was %s and %s", c.Secret, before, c.Action)
		}
		actions[c.Secret] = c.Action
	}
	return actions, err
}

// must runs it without an error.
func (p *place) must() map[string]bootstrap.Action {
	p.t.Helper()
	actions, err := p.run()
	if err != nil {
		p.t.Fatal(err)
	}
	return actions
}

// all returns all Secrets by name.
func (p *place) all() map[string]corev1.Secret {
	p.t.Helper()
	list, err := p.secrets.List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	byName := map[string]corev1.Secret{}
	for _, s := range list.Items {
		byName[s.Name] = s
	}
	return byName
}

// change changes a Secret as a person would.
func (p *place) change(name string, change func(*corev1.Secret)) {
	p.t.Helper()
	s, err := p.secrets.Get(p.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		change(s)
		_, err = p.secrets.Update(p.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) remove(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if err := p.secrets.Delete(context.WithoutCancel(p.t.Context()), name, metav1.DeleteOptions{}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// with returns the Secrets that something was done to.
func with(actions map[string]bootstrap.Action, action bootstrap.Action) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		if actions[name] == action {
			names = append(names, name)
		}
	}
	return names
}
