// Package kinds lets the rest of the operator work on one Go type for the two kinds that a script has in
// Kubernetes: a Script is a *v1alpha1.LuaScript there, too, beside its Kind.
//
// The two have the same fields, so that Go converts a pointer to the one into a pointer to the other, and
// nothing is copied. What the API server, the cache and events get and give are objects of the right type.
package kinds

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Kind is a kind of objects that are scripts, as manifests have it.
type Kind string

// The kinds.
const (
	Script    Kind = "Script"
	LuaScript Kind = "LuaScript" // for Lua alone
)

// All returns the kinds. Which of two objects of one script has it does not depend on their order.
func All() []Kind { return []Kind{Script, LuaScript} }

// Lower is the kind in lower case, as owners and logs have it.
func (k Kind) Lower() string { return strings.ToLower(string(k)) }

// Owner is who an object of the kind is, as the owner of its script in the registry.
func (k Kind) Owner(namespace, name string) string {
	prefix := script.LuaScriptOwner
	if k == Script {
		prefix = script.ScriptOwner
	}
	return prefix + namespace + "/" + name
}

// OfOwner returns which object owns a script: its kind, and namespace/name. ok is false if the owner is no
// object.
func OfOwner(owner string) (k Kind, object string, ok bool) {
	if object, ok = strings.CutPrefix(owner, script.ScriptOwner); ok {
		return Script, object, true
	}
	object, ok = strings.CutPrefix(owner, script.LuaScriptOwner)
	return LuaScript, object, ok
}

// Object returns ls as an object of its kind: the same memory, of the type that schemes know.
func (k Kind) Object(ls *v1alpha1.LuaScript) client.Object {
	if k == Script {
		return (*v1alpha1.Script)(ls)
	}
	return ls
}

// New returns an empty object of the kind.
func (k Kind) New() client.Object { return k.Object(&v1alpha1.LuaScript{}) }

// Of returns an object of either kind as Go's one type: the same memory. Any other object is a mistake of
// the caller, which panics.
func Of(o runtime.Object) *v1alpha1.LuaScript {
	switch o := o.(type) {
	case *v1alpha1.Script:
		return (*v1alpha1.LuaScript)(o)
	case *v1alpha1.LuaScript:
		return o
	}
	panic(fmt.Sprintf("kinds: %T is no script", o))
}

// Get reads an object of the kind.
func (k Kind) Get(ctx context.Context, r client.Reader, key client.ObjectKey) (*v1alpha1.LuaScript, error) {
	ls := &v1alpha1.LuaScript{}
	return ls, r.Get(ctx, key, k.Object(ls))
}

// List reads the objects of the kind.
func (k Kind) List(ctx context.Context, r client.Reader, options ...client.ListOption) ([]*v1alpha1.LuaScript, error) {
	var list client.ObjectList = &v1alpha1.LuaScriptList{}
	if k == Script {
		list = &v1alpha1.ScriptList{}
	}
	if err := r.List(ctx, list, options...); err != nil {
		return nil, err
	}
	all := make([]*v1alpha1.LuaScript, 0, meta.LenList(list))
	err := meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, Of(o))
		return nil
	})
	return all, err
}
