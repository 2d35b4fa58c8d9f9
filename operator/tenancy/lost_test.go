package tenancy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fault is what becomes of writes.
type fault int

const (
	none   fault = iota
	denied       // the write is not done
	lost         // it is, and the answer is lost
)

// of returns what a write comes to that fails with err.
func (f fault) of(err error, write func() error) error {
	switch f {
	case denied:
		return err
	case lost:
		return errors.Join(write(), err)
	}
	return write()
}

var (
	errAPI  = errors.New("the API server does not answer")
	errAway = script.Errorf(script.Timeout, "", "the registry did not answer in time")
	acme    = client.ObjectKey{Name: "acme"}
	anyone  = access.Everybody("test")
	// invalid is a spec that the API server takes, and that cannot be applied.
	invalid = v1alpha1.ScriptTenantSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": "x"}}}
)

// world is an API server with the ScriptTenant acme, and a registry, whose answers get lost
// as told. The API server is not a real one, so that it is known when nothing more comes.
type world struct {
	t        *testing.T
	r        *reconciler
	api      client.Client // without faults
	registry *registry.Registry
	events   *events.FakeRecorder

	metadata fault                  // of the patches of finalizers
	status   fault                  // of those of the status
	settings fault                  // of the writes to the registry
	away     bool                   // the registry is
	cached   *v1alpha1.ScriptTenant // what the cache still has, if it is behind
}

func newWorld(t *testing.T, spec v1alpha1.ScriptTenantSpec) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newAcme("1", spec)).WithStatusSubresource(&v1alpha1.ScriptTenant{})
	for _, kind := range kinds.All() {
		builder = builder.WithIndex(kind.New(), tenantIndex, func(o client.Object) []string { return []string{kinds.Of(o).Spec.TenantID} })
	}
	api := builder.Build()
	w := &world{t: t, api: api, events: events.NewFakeRecorder(100), registry: registry.New(registry.Config{Store: memstore.New()})}
	between := interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.cached != nil {
				w.cached.DeepCopyInto(o.(*v1alpha1.ScriptTenant))
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.metadata.of(errAPI, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.status.of(errAPI, func() error { return c.SubResource(name).Patch(ctx, o, p, opts...) })
		},
	}
	w.r = &reconciler{client: interceptor.NewClient(api, between), registry: w, events: w.events, resync: time.Minute, now: time.Now, tracer: noop.Tracer{}}
	return w
}

func newAcme(uid types.UID, spec v1alpha1.ScriptTenantSpec) *v1alpha1.ScriptTenant {
	return &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: acme.Name, UID: uid, Generation: 1}, Spec: spec}
}

func (w *world) Tenant(ctx context.Context, tenant string) (script.Tenant, error) {
	if w.away {
		return script.Tenant{}, errAway
	}
	return w.registry.Tenant(ctx, anyone, tenant)
}

func (w *world) SetTenant(_ context.Context, _ string, settings *script.TenantSettings, by registryclient.DataWrite) (set script.Tenant, changed bool, err error) {
	if w.away {
		return script.Tenant{}, false, errAway
	}
	err = w.settings.of(errAway, func() error {
		set, changed = w.write(settings, by.Author)
		return nil
	})
	return set, changed, err
}

// write is author's write to the registry.
func (w *world) write(settings *script.TenantSettings, author string) (set script.Tenant, changed bool) {
	w.t.Helper()
	set, changed, err := w.registry.SetTenant(w.t.Context(), registry.SetTenant{Tenant: acme.Name, Settings: settings, Author: author, By: anyone})
	if err != nil {
		w.t.Fatal(err)
	}
	return set, changed
}

func (w *world) reconcile() error {
	_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: acme})
	return err
}

// passes reconciles twice: the second time there is nothing to do.
func (w *world) passes() {
	w.t.Helper()
	if err := errors.Join(w.reconcile(), w.reconcile()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fails() {
	w.t.Helper()
	if err := w.reconcile(); err == nil {
		w.t.Fatal("it did not fail")
	}
}

// expect checks how the events begin that came since it was asked last.
func (w *world) expect(when string, want ...string) {
	w.t.Helper()
	var told []string
	for len(w.events.Events) > 0 {
		_, event, _ := strings.Cut(<-w.events.Events, " ") // after its type
		told = append(told, event)
	}
	if !slices.EqualFunc(told, want, strings.HasPrefix) {
		w.t.Errorf("%s: the events are %q, want %q", when, told, want)
	}
}

// stored is what the API server has.
func (w *world) stored() *v1alpha1.ScriptTenant {
	w.t.Helper()
	st := &v1alpha1.ScriptTenant{}
	if err := w.api.Get(w.t.Context(), acme, st); err != nil {
		w.t.Fatal(err)
	}
	return st
}

// edit makes another spec, in another generation.
func (w *world) edit(spec v1alpha1.ScriptTenantSpec) {
	w.t.Helper()
	st := w.stored()
	st.Spec = spec
	st.Generation++ // as the API server does
	if err := w.api.Update(w.t.Context(), st); err != nil {
		w.t.Fatal(err)
	}
}

// newUser creates a LuaScript of the tenant.
func (w *world) newUser() *v1alpha1.LuaScript {
	w.t.Helper()
	ls := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "user"}, Spec: v1alpha1.LuaScriptSpec{TenantID: acme.Name}}
	if err := w.api.Create(w.t.Context(), ls); err != nil {
		w.t.Fatal(err)
	}
	return ls
}

// isReady checks the reason of the condition Ready in the API server.
func (w *world) isReady(when, reason string) {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.stored().Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason {
		w.t.Errorf("%s: want %s: %+v", when, reason, c)
	}
}

// A fault has one event, whether or not the API server said that it has the status.
func TestAnswerToTheStatusIsLost(t *testing.T) {
	for _, becomes := range []fault{denied, lost} {
		w := newWorld(t, invalid)
		w.status = becomes
		w.fails()
		w.fails()
		w.expect("before it is known to be written")
		w.status = none
		w.passes()
		w.expect("written", "Refused spec.namespaceSelector")

		other := *invalid.DeepCopy()
		other.NamespaceSelector.MatchLabels = map[string]string{"another that is none": "x"}
		w.edit(other)
		w.status = becomes
		w.fails()
		w.status = none
		w.edit(invalid) // the fault of the last event is there again
		w.passes()
		w.expect("taken back")
		w.isReady("taken back", "Invalid")
	}
}

// What may have been written is written over, though it is not what the cache has.
func TestAnswerToTheStatusIsLostAndTheCacheIsBehind(t *testing.T) {
	w := newWorld(t, v1alpha1.ScriptTenantSpec{Namespaces: []string{"*"}})
	w.passes()
	w.cached = w.stored()
	user := w.newUser()
	w.away, w.status = true, lost
	w.fails()
	w.isReady("the registry is away", "RegistryUnavailable")
	if got := w.stored().Status.Scripts; got != 1 {
		t.Fatalf("%d scripts", got)
	}
	if err := w.api.Delete(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	w.away, w.status = false, none
	w.passes()
	w.isReady("it is back", "Configured")
	if got := w.stored().Status; len(got.Conditions) != 2 || got.Scripts != 0 {
		t.Errorf("not all of the status is what it was: %+v", got)
	}
}

// What was written is known, before the cache has it.
func TestCacheIsBehind(t *testing.T) {
	w := newWorld(t, v1alpha1.ScriptTenantSpec{})
	w.passes()
	w.cached = w.stored()
	w.away = true
	w.fails()
	w.isReady("the registry is away", "RegistryUnavailable")
	w.away = false
	w.passes()
	w.isReady("it is back", "Configured")

	w.cached = nil
	st := w.stored()
	st.Status.Conditions = nil
	if err := w.api.Status().Update(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	w.passes()
	w.isReady("the cache has what somebody else wrote since", "Configured")
}

// One event says that the settings are gone, or stay, also if the API server did not say
// that the ScriptTenant went.
func TestAnswerToTheFarewellIsLost(t *testing.T) {
	for _, reason := range []string{"Deleted", "Abandoned"} {
		for _, next := range []string{"gone", "held", "created anew", "gone, and the cache is behind", "not gone"} {
			w := newWorld(t, v1alpha1.ScriptTenantSpec{})
			w.passes()
			w.expect("created", "Configured")
			st := w.stored()
			if reason == "Abandoned" {
				st.Annotations = map[string]string{v1alpha1.AbandonAnnotation: "true"}
			}
			if next == "held" {
				st.Finalizers = append(st.Finalizers, "example.com/theirs")
			}
			if err := errors.Join(w.api.Update(t.Context(), st), w.api.Delete(t.Context(), st)); err != nil {
				t.Fatal(err)
			}
			last := w.stored()
			w.metadata = lost
			if next == "not gone" {
				w.metadata = denied
			}
			w.fails()
			w.expect("it is not known to be gone")
			w.metadata = none
			want := []string{reason}
			switch next {
			case "created anew":
				if err := w.api.Create(t.Context(), newAcme("2", v1alpha1.ScriptTenantSpec{Isolation: "process"})); err != nil {
					t.Fatal(err)
				}
				want = append(want, "Configured")
			case "gone, and the cache is behind":
				w.cached = last
				w.passes()
				w.cached = nil
			}
			w.passes()
			w.expect(reason+", "+next, want...)
		}
	}
}

// No event says that the settings ended, once they are back.
func TestFarewellIsTakenBack(t *testing.T) {
	w := newWorld(t, v1alpha1.ScriptTenantSpec{Namespaces: []string{"*"}})
	w.passes()
	if err := w.api.Delete(t.Context(), w.stored()); err != nil {
		t.Fatal(err)
	}
	w.metadata = denied
	w.fails()
	w.metadata = none
	w.newUser()
	w.passes()
	w.isReady("a script holds it", "InUse")
	st := w.stored()
	st.Finalizers = nil
	if err := w.api.Update(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	w.passes()
	w.expect("taken from the operator", "Configured", "Restored")
	if set, _ := w.Tenant(t.Context(), acme.Name); set.Revision == 0 {
		t.Error("the settings are gone")
	}
}

// Settings that were set have one event, whenever they reach the registry, and none if they
// never do.
func TestAnswerToSettingsIsLost(t *testing.T) {
	shared, process := v1alpha1.ScriptTenantSpec{Isolation: "shared"}, v1alpha1.ScriptTenantSpec{Isolation: "process"}
	named := process
	named.Namespaces = []string{"shop"}
	settings := script.TenantSettings{Isolation: script.IsolationProcess}
	lose := func(w *world, becomes fault) {
		w.settings = becomes
		w.fails()
		w.settings = none
	}
	tests := []struct {
		name string
		next func(*world)
		want []string
	}{
		{"it was done", func(w *world) { lose(w, lost) }, []string{"Configured"}},
		{"it was not", func(w *world) { lose(w, denied) }, []string{"Configured"}},
		{"it is done late", func(w *world) { lose(w, denied); lose(w, denied); w.write(&settings, "operator") }, []string{"Configured"}},
		{"it was done, and the registry is away then", func(w *world) { lose(w, lost); w.away = true; w.fails(); w.away = false }, []string{"Configured"}},
		{"it was done, and others undo it", func(w *world) { lose(w, lost); w.write(nil, "eve") }, []string{"Configured"}},
		{"it was done, and there is an edit of something else", func(w *world) { lose(w, lost); w.edit(named) }, []string{"Configured"}},
		{"it was done, and there is an edit", func(w *world) { lose(w, lost); w.edit(v1alpha1.ScriptTenantSpec{}) }, []string{"Configured"}},
		{"it was not, and the spec becomes what others set", func(w *world) {
			lose(w, denied)
			w.write(&script.TenantSettings{Isolation: script.IsolationShared, Concurrency: 3}, "eve")
			w.edit(v1alpha1.ScriptTenantSpec{Isolation: "shared", Concurrency: new(int32(3))})
		}, nil},
		{"it was not, and the edit is taken back", func(w *world) { lose(w, denied); w.edit(shared) }, nil},
	}
	for _, tt := range tests {
		w := newWorld(t, shared)
		w.passes()
		w.expect("created", "Configured")
		w.edit(process)
		tt.next(w)
		w.passes()
		w.expect("edited: "+tt.name, tt.want...)
	}
	for _, becomes := range []fault{lost, denied} {
		w := newWorld(t, process)
		lose(w, becomes)
		w.passes()
		w.expect("created", "Configured")
		w.write(&script.TenantSettings{Concurrency: 1000}, "eve")
		lose(w, becomes)
		w.passes()
		w.expect("changed by others", "Restored its settings had been changed in the registry by ")
		w.write(nil, "eve")
		lose(w, becomes)
		w.passes()
		w.expect("taken away by others", "Restored its settings had been taken away in the registry")
	}
}

// Nothing is kept of ScriptTenants that are gone, or of one that had the name of another.
func TestGoneIsForgotten(t *testing.T) {
	w := newWorld(t, v1alpha1.ScriptTenantSpec{})
	w.passes()
	w.expect("created", "Configured")
	w.edit(invalid)
	w.status = denied
	w.fails()
	w.status = none
	st := w.stored()
	st.Finalizers = nil
	if err := errors.Join(w.api.Update(t.Context(), st), w.api.Delete(t.Context(), st), w.api.Create(t.Context(), newAcme("2", invalid))); err != nil {
		t.Fatal(err)
	}
	w.passes()
	w.expect("created anew", "Refused")
	if err := w.api.Delete(t.Context(), w.stored()); err != nil {
		t.Fatal(err)
	}
	w.passes()
	w.expect("gone", "Deleted")
	kept := 0
	w.r.memories.Range(func(any, any) bool { kept++; return true })
	if kept > 0 {
		t.Errorf("%d are kept", kept)
	}
}
