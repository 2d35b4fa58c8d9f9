package kinds_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
)

// TestKindsAreApart: an object of one kind is read, listed and changed as that kind, and not as the other.
func TestKindsAreApart(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	key := client.ObjectKey{Namespace: "default", Name: "route"}
	for _, kind := range kinds.All() {
		ls := &v1alpha1.LuaScript{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       v1alpha1.LuaScriptSpec{TenantID: kind.Lower()},
		}
		if err := c.Create(t.Context(), kind.Object(ls)); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range kinds.All() {
		ls, err := kind.Get(t.Context(), c, key)
		if err != nil || ls.Spec.TenantID != kind.Lower() {
			t.Errorf("%s: got %+v, %v", kind, ls.Spec, err)
		}
		before := ls.DeepCopy()
		ls.Spec.TenantID += "-changed"
		if err := c.Patch(t.Context(), kind.Object(ls), client.MergeFrom(kind.Object(before))); err != nil {
			t.Error(err)
		}
		list, err := kind.List(t.Context(), c)
		if err != nil || len(list) != 1 || list[0].Spec.TenantID != kind.Lower()+"-changed" {
			t.Errorf("%s: the list has %+v, %v", kind, list, err)
		}
	}
}

// TestObjectsAreTheSameMemory: what is done to the one is done to the other.
func TestObjectsAreTheSameMemory(t *testing.T) {
	for _, kind := range kinds.All() {
		o := kind.New()
		kinds.Of(o).Name = "route"
		if o.GetName() != "route" {
			t.Errorf("%s: its name is %q", kind, o.GetName())
		}
	}
}

// TestOwners: an owner in the registry names an object, and back.
func TestOwners(t *testing.T) {
	for owner, want := range map[string]kinds.Kind{"script/default/route": kinds.Script, "luascript/default/route": kinds.LuaScript} {
		if got := want.Owner("default", "route"); got != owner {
			t.Errorf("%s owns as %q, want %q", want, got, owner)
		}
		if kind, object, ok := kinds.OfOwner(owner); kind != want || object != "default/route" || !ok {
			t.Errorf("%q is the %s %q, %t", owner, kind, object, ok)
		}
	}
	if _, object, ok := kinds.OfOwner("team-web"); ok {
		t.Errorf("team-web is the object %q", object)
	}
}
