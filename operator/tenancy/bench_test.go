package tenancy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

var kube *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testenv.Run(m, func(e *testenv.Env) { kube = e }))
}

// fleetRegistry is a registry without the wire, that can be down or hang.
type fleetRegistry struct {
	*registry.Registry
	fails atomic.Pointer[script.Error]
	hangs atomic.Bool
}

var everybody = access.Everybody("test")

func newRegistry() *fleetRegistry {
	return &fleetRegistry{Registry: registry.New(registry.Config{Store: memstore.New()})}
}

func (r *fleetRegistry) Tenant(ctx context.Context, tenant string) (script.Tenant, error) {
	if err := r.fault(ctx); err != nil {
		return script.Tenant{}, err
	}
	return r.Registry.Tenant(ctx, everybody, tenant)
}

func (r *fleetRegistry) SetTenant(ctx context.Context, tenant string, settings *script.TenantSettings, w registryclient.DataWrite) (script.Tenant, bool, error) {
	if err := r.fault(ctx); err != nil {
		return script.Tenant{}, false, err
	}
	return r.Registry.SetTenant(ctx, registry.SetTenant{Tenant: tenant, Settings: settings, Author: w.Author, ExpectedRevision: w.ExpectedRevision, By: everybody})
}

// fault is why the registry does not answer; one that hangs says nothing until it was
// waited for long enough.
func (r *fleetRegistry) fault(ctx context.Context) error {
	if r.hangs.Load() {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		<-ctx.Done()
		return script.Errorf(script.Timeout, "", "the registry did not answer in time")
	}
	if e := r.fails.Load(); e != nil {
		return e
	}
	return nil
}

// settings are what the registry has.
func (r *fleetRegistry) settings(t *testing.T, tenant string) script.Tenant {
	t.Helper()
	got, err := r.Registry.Tenant(t.Context(), everybody, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// run runs a ScriptTenant controller until the test ends, and removes all that there is
// then.
func run(t *testing.T, cfg tenancy.Config) {
	t.Helper()
	runWith(t, cfg, interceptor.Funcs{})
}

// runWith is run with an API server that answers through between.
func runWith(t *testing.T, cfg tenancy.Config, between interceptor.Funcs) {
	t.Helper()
	mgr, err := ctrl.NewManager(kube.Config, ctrl.Options{
		Scheme: kube.Client.Scheme(), Logger: testr.New(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		NewClient: func(cfg *rest.Config, opts client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, opts)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, between), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tenancy.Setup(mgr, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		removeAll(t)
	})
}

func removeAll(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	var tenants v1alpha1.ScriptTenantList
	var scripts v1alpha1.LuaScriptList
	if err := errors.Join(kube.Client.List(ctx, &tenants), kube.Client.List(ctx, &scripts)); err != nil {
		t.Fatal(err)
	}
	remove := func(o client.Object) {
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := errors.Join(kube.Client.Patch(ctx, o, free), client.IgnoreNotFound(kube.Client.Delete(ctx, o))); err != nil {
			t.Error(err)
		}
	}
	for i := range tenants.Items {
		remove(&tenants.Items[i])
	}
	for i := range scripts.Items {
		remove(&scripts.Items[i])
	}
}

func create[T client.Object](t *testing.T, o T) T {
	t.Helper()
	if err := kube.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func newTenant(t *testing.T, name string, spec v1alpha1.ScriptTenantSpec) *v1alpha1.ScriptTenant {
	t.Helper()
	return create(t, &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

func newScript(t *testing.T, namespace, name, tenant string) *v1alpha1.LuaScript {
	t.Helper()
	return create(t, &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: tenant, Source: new("function handle() end")},
	})
}

// change changes o as the API server has it.
func change[T client.Object](t *testing.T, o T, f func()) {
	t.Helper()
	await(t, func() error {
		if err := kube.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		f()
		return kube.Client.Update(t.Context(), o)
	})
}

// await waits until f returns nil.
func await(t *testing.T, f func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after a minute: %v", err)
		}
	}
}

// awaitReady waits for the condition Ready of the tenant's spec to have this status and
// reason, and returns the ScriptTenant.
func awaitReady(t *testing.T, name string, status metav1.ConditionStatus, reason string) *v1alpha1.ScriptTenant {
	t.Helper()
	st := &v1alpha1.ScriptTenant{}
	await(t, func() error {
		if err := kube.Client.Get(t.Context(), client.ObjectKey{Name: name}, st); err != nil {
			return err
		}
		c := meta.FindStatusCondition(st.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != st.Generation || st.Status.ObservedGeneration != st.Generation {
			return fmt.Errorf("%s: want %s, %s: %+v", name, status, reason, st.Status)
		}
		return nil
	})
	return st
}

func awaitGone(t *testing.T, name string) {
	t.Helper()
	await(t, func() error {
		st := &v1alpha1.ScriptTenant{}
		err := kube.Client.Get(t.Context(), client.ObjectKey{Name: name}, st)
		if err == nil {
			return fmt.Errorf("%s is still there: %+v", name, st.Status)
		}
		return client.IgnoreNotFound(err)
	})
}

// awaitEvent waits for an event about the tenant.
func awaitEvent(t *testing.T, name, reason, note string) {
	t.Helper()
	await(t, func() error {
		var list eventsv1.EventList
		if err := kube.Client.List(t.Context(), &list); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Kind != "ScriptTenant" || e.Regarding.Name != name {
				continue
			}
			if e.Reason == reason && e.Note == note {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("no event %s: %s, but %q", reason, note, seen)
	})
}

// awaitTold waits for an event about st alone, not about others of its name.
func awaitTold(t *testing.T, st *v1alpha1.ScriptTenant, want string) {
	t.Helper()
	await(t, func() error {
		if got := eventsOf(t, st); !slices.Contains(got, want) {
			return fmt.Errorf("no event %s, but %q", want, got)
		}
		return nil
	})
}

// eventsOf returns the events about st alone, each as reason: note.
func eventsOf(t *testing.T, st *v1alpha1.ScriptTenant) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := kube.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range list.Items {
		if e.Regarding.UID == st.UID {
			told = append(told, e.Reason+": "+e.Note)
		}
	}
	return told
}
