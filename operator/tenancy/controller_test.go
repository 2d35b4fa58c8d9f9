package tenancy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// often is how often the registry is asked in tests that wait for it.
const often = 200 * time.Millisecond

func TestSettingsFollowTheSpec(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, Resync: often})
	st := newTenant(t, "acme", v1alpha1.ScriptTenantSpec{Isolation: "process", Limits: &v1alpha1.Limits{Timeout: new("1s")}})
	awaitReady(t, "acme", metav1.ConditionTrue, "Configured")
	awaitEvent(t, "acme", "Configured", "the registry has its settings")
	got := r.settings(t, "acme")
	want := script.TenantSettings{Isolation: script.IsolationProcess, Limits: script.Limits{Timeout: time.Second}}
	if got.Settings != want || !strings.Contains(got.Author, "operator:scripttenant/acme") {
		t.Errorf("got %+v", got)
	}

	change(t, st, func() { st.Spec.Isolation, st.Spec.Limits = "shared", nil })
	awaitReady(t, "acme", metav1.ConditionTrue, "Configured")
	if got := r.settings(t, "acme"); got.Settings != (script.TenantSettings{Isolation: script.IsolationShared}) {
		t.Errorf("after the change: %+v", got)
	}

	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, "acme")
	if got := r.settings(t, "acme"); got.Revision != 0 {
		t.Errorf("after the delete: %+v", got)
	}
	awaitEvent(t, "acme", "Deleted", "the registry no longer has its settings")
}

func TestWhatIsChangedBehindItsBackIsPutRight(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, Resync: often})
	newTenant(t, "acme", v1alpha1.ScriptTenantSpec{Concurrency: new(int32(3))})
	awaitReady(t, "acme", metav1.ConditionTrue, "Configured")
	want := r.settings(t, "acme").Settings
	other := want
	other.Concurrency = 1000
	for note, settings := range map[string]*script.TenantSettings{
		"its settings had been changed in the registry by eve: they are what the spec says again": &other,
		"its settings had been taken away in the registry: they are back":                         nil,
	} {
		set, _, err := r.Registry.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: settings, Author: "eve", By: everybody})
		if err != nil {
			t.Fatal(err)
		}
		awaitEvent(t, "acme", "Restored", note)
		await(t, func() error {
			if got := r.settings(t, "acme"); got.Settings != want || got.Revision <= set.Revision {
				return fmt.Errorf("not put right: %+v", got)
			}
			return nil
		})
	}
}

// A registry that comes back without what it had was away first.
func TestWhatIsLostInAnOutageIsRestored(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, Resync: often})
	st := newTenant(t, "lost", v1alpha1.ScriptTenantSpec{})
	awaitReady(t, "lost", metav1.ConditionTrue, "Configured")
	r.fails.Store(script.Errorf(script.Unavailable, "", "cannot reach the registry"))
	awaitReady(t, "lost", metav1.ConditionFalse, "RegistryUnavailable")
	if _, _, err := r.Registry.SetTenant(t.Context(), registry.SetTenant{Tenant: "lost", Author: "eve", By: everybody}); err != nil {
		t.Fatal(err)
	}
	r.fails.Store(nil)
	awaitTold(t, st, "Restored: its settings had been taken away in the registry: they are back")
}

func TestScriptsAreCountedAndProtected(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, Resync: time.Hour})
	shop := kube.Namespace(t, "shop", nil)
	labelled := kube.Namespace(t, "labelled", nil)
	stranger := kube.Namespace(t, "stranger", nil)
	st := newTenant(t, "acme", v1alpha1.ScriptTenantSpec{
		Isolation: "process", Namespaces: []string{shop},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "acme"}},
	})
	first := newScript(t, shop, "a", "acme")
	newScript(t, labelled, "b", "acme")
	newScript(t, stranger, "c", "acme")
	newScript(t, shop, "d", "beta")
	awaitScripts(t, "acme", 1)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: labelled}}
	change(t, ns, func() { ns.Labels = map[string]string{"team": "acme"} })
	awaitScripts(t, "acme", 2)
	firstVersionIs(t, first, v1alpha1.CandidateTesting) // on the agents, though none is active

	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	inUse := awaitReady(t, "acme", metav1.ConditionFalse, "InUse")
	want := fmt.Sprintf(`being deleted, when the tenant's scripts are: %s/b, %s/a (or set the annotation scriptorium.dev/abandon to "true")`, labelled, shop)
	if got := meta.FindStatusCondition(inUse.Status.Conditions, "Ready").Message; !sameNames(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	err := tenancy.Check(t.Context(), kube.Client, "acme", shop)
	if got := fmt.Sprint(err); got != "spec.tenantId: the ScriptTenant acme is being deleted" {
		t.Errorf("while it is deleted: %v", err)
	}
	if r.settings(t, "acme").Settings.Isolation != script.IsolationProcess {
		t.Error("scripts that run lost the process that they have to themselves")
	}
	// What was published stays protected when its namespace has lost the right.
	change(t, st, func() { st.Spec.Namespaces, st.Spec.NamespaceSelector = nil, nil })
	awaitScripts(t, "acme", 0)
	awaitReady(t, "acme", metav1.ConditionFalse, "InUse")
	if err := kube.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, "acme")
	if r.settings(t, "acme").Revision != 0 {
		t.Error("the settings stayed")
	}
}

// firstVersionIs gives ls the status of a first version that is not active yet, or never
// will be.
func firstVersionIs(t *testing.T, ls *v1alpha1.LuaScript, state v1alpha1.CandidateState) {
	t.Helper()
	ls.Status.Revision, ls.Status.LatestVersion = 7, 1
	ls.Status.Candidate = &v1alpha1.CandidateStatus{Version: 1, State: state}
	if err := kube.Client.Status().Update(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
}

// sameNames compares two lists of names in any order.
func sameNames(a, b string) bool {
	count := func(s string) map[string]int {
		n := map[string]int{}
		for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }) {
			n[word]++
		}
		return n
	}
	return fmt.Sprint(count(a)) == fmt.Sprint(count(b))
}

func awaitScripts(t *testing.T, tenant string, want int32) {
	t.Helper()
	await(t, func() error {
		st := &v1alpha1.ScriptTenant{}
		if err := kube.Client.Get(t.Context(), client.ObjectKey{Name: tenant}, st); err != nil {
			return err
		}
		if st.Status.Scripts != want || st.Status.ObservedGeneration != st.Generation {
			return fmt.Errorf("want %d scripts: %+v", want, st.Status)
		}
		return nil
	})
}

func TestRegistryIsDown(t *testing.T) {
	r := newRegistry()
	down := script.Errorf(script.Unavailable, "", "cannot reach the registry")
	r.fails.Store(down)
	run(t, tenancy.Config{Registry: r, DeleteWait: time.Hour})
	st := newTenant(t, "acme", v1alpha1.ScriptTenantSpec{})
	got := awaitReady(t, "acme", metav1.ConditionFalse, "RegistryUnavailable")
	if c := meta.FindStatusCondition(got.Status.Conditions, "Reconciling"); c == nil || c.Message != down.Message {
		t.Errorf("got %+v", got.Status)
	}
	r.fails.Store(nil)
	got = awaitReady(t, "acme", metav1.ConditionTrue, "Configured")
	if len(got.Status.Conditions) != 2 {
		t.Errorf("got %+v", got.Status)
	}

	r.fails.Store(down)
	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, "acme", metav1.ConditionFalse, "Deleting")
	r.fails.Store(nil)
	awaitGone(t, "acme")
	if r.settings(t, "acme").Revision != 0 {
		t.Error("the settings stayed")
	}
}

// The status reports a registry that hangs, and the operator waits for it no longer than for
// one that is down.
func TestRegistryHangs(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, DeleteWait: time.Second, Resync: often})
	st := newTenant(t, "acme", v1alpha1.ScriptTenantSpec{})
	awaitReady(t, "acme", metav1.ConditionTrue, "Configured")
	r.hangs.Store(true)
	awaitReady(t, "acme", metav1.ConditionFalse, "RegistryUnavailable")
	if err := kube.Client.Delete(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, "acme")
	awaitEvent(t, "acme", "Abandoned", "its settings may stay in the registry: the registry did not take them away for 1s: the registry did not answer in time")
}

// A ScriptTenant is settled when the registry has had its settings, and stays so, whatever
// becomes of later ones.
func TestSettled(t *testing.T) {
	r := newRegistry()
	r.fails.Store(script.Errorf(script.Denied, "", "operator lacks the role admin of acme"))
	run(t, tenancy.Config{Registry: r, Resync: often})
	st := newTenant(t, "acme", v1alpha1.ScriptTenantSpec{})
	if tenancy.Settled(st) || tenancy.Settled(awaitReady(t, "acme", metav1.ConditionFalse, "Refused")) {
		t.Error("it is settled before the registry had its settings")
	}
	r.fails.Store(nil)
	if !tenancy.Settled(awaitReady(t, "acme", metav1.ConditionTrue, "Configured")) {
		t.Error("it is not settled, and the registry has its settings")
	}
	change(t, st, func() {
		st.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": "x"}}
	})
	if !tenancy.Settled(awaitReady(t, "acme", metav1.ConditionFalse, "Invalid")) {
		t.Error("a later change that is wrong unsettles it")
	}
}

func TestGivingUp(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r, DeleteWait: 2 * time.Second})
	newTenant(t, "late", v1alpha1.ScriptTenantSpec{})
	awaitReady(t, "late", metav1.ConditionTrue, "Configured")
	hasty := newTenant(t, "hasty", v1alpha1.ScriptTenantSpec{Namespaces: []string{"*"}})
	awaitReady(t, "hasty", metav1.ConditionTrue, "Configured")
	newScript(t, "default", "user", "hasty")
	r.fails.Store(script.Errorf(script.Unavailable, "", "cannot reach the registry"))
	for _, name := range []string{"late", "hasty"} {
		if err := kube.Client.Delete(t.Context(), &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(t, "late")
	awaitEvent(t, "late", "Abandoned", "its settings may stay in the registry: the registry did not take them away for 2s: cannot reach the registry")
	awaitReady(t, "hasty", metav1.ConditionFalse, "InUse")
	change(t, hasty, func() { hasty.Annotations = map[string]string{v1alpha1.AbandonAnnotation: "true"} })
	awaitGone(t, "hasty")
}

func TestRefused(t *testing.T) {
	r := newRegistry()
	r.fails.Store(script.Errorf(script.Denied, "", "operator lacks the role admin of refused"))
	run(t, tenancy.Config{Registry: r, Resync: often})
	newTenant(t, "refused", v1alpha1.ScriptTenantSpec{})
	got := awaitReady(t, "refused", metav1.ConditionFalse, "Refused")
	if !meta.IsStatusConditionTrue(got.Status.Conditions, "Stalled") {
		t.Errorf("got %+v", got.Status)
	}
	awaitEvent(t, "refused", "Refused", "operator lacks the role admin of refused")
	r.fails.Store(nil) // somebody gave it the role: it finds out by itself
	awaitReady(t, "refused", metav1.ConditionTrue, "Configured")
}

// A fault in the status has one event, however long it takes to write the status.
func TestFaultIsToldOnce(t *testing.T) {
	var isAway atomic.Bool
	var refused atomic.Int32
	isAway.Store(true)
	runWith(t, tenancy.Config{Registry: newRegistry()}, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if isAway.Load() {
				refused.Add(1)
				return errors.New("the API server takes no status")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	st := newTenant(t, "untold", v1alpha1.ScriptTenantSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": "x"}},
	})
	await(t, func() error {
		if n := refused.Load(); n < 4 {
			return fmt.Errorf("%d attempts to write the status", n)
		}
		return nil
	})
	if got := eventsOf(t, st); len(got) != 0 {
		t.Errorf("before the status is written: %q", got)
	}
	isAway.Store(false)
	await(t, func() error {
		if got := eventsOf(t, st); len(got) != 1 {
			return fmt.Errorf("want one event: %q", got)
		}
		return nil
	})
}

// The status reports what the schema lets through, and no webhook was there to refuse, in
// the webhook's words.
func TestInvalid(t *testing.T) {
	r := newRegistry()
	run(t, tenancy.Config{Registry: r})
	newTenant(t, "odd", v1alpha1.ScriptTenantSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": "x"}},
	})
	got := awaitReady(t, "odd", metav1.ConditionFalse, "Invalid")
	const want = `spec.namespaceSelector: key: Invalid value: "not a key"`
	c := meta.FindStatusCondition(got.Status.Conditions, "Stalled")
	if c == nil || !strings.HasPrefix(c.Message, want) {
		t.Fatalf("got %+v", got.Status)
	}
	awaitEvent(t, "odd", "Refused", c.Message)
}

func TestCheck(t *testing.T) {
	t.Cleanup(func() { removeAll(t) })
	shop := kube.Namespace(t, "shop", nil)
	labelled := kube.Namespace(t, "labelled", map[string]string{"team": "acme"})
	newTenant(t, "acme", v1alpha1.ScriptTenantSpec{
		Namespaces:        []string{shop},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "acme"}},
	})
	for _, tt := range []struct{ tenant, namespace, want string }{
		{"acme", shop, ""},
		{"acme", labelled, ""},
		{"acme", "default", "spec.tenantId: the ScriptTenant acme does not let the namespace default act for it: have default added to its spec.namespaces, or use another tenant"},
		{"beta", shop, "spec.tenantId: there is no ScriptTenant beta: have one created whose spec.namespaces names " + shop},
	} {
		err := tenancy.Check(t.Context(), kube.Client, tt.tenant, tt.namespace)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want || script.KindOf(err) != script.Denied) {
			t.Errorf("%s, %s: got %v, want %s", tt.tenant, tt.namespace, err, tt.want)
		}
	}
	if err := tenancy.Check(t.Context(), kube.Client, "acme", "none"); err == nil || script.KindOf(err) == script.Denied {
		t.Errorf("a namespace that is not there: %v", err)
	}
}
