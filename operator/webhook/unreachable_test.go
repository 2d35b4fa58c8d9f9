package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/script"
)

// unreachable is an API server that does not answer.
type unreachable struct{ client.Reader }

func (unreachable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server does not answer")
}

func (unreachable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the API server does not answer")
}

type checker struct{ engine.Checker }

func (checker) Check(engine.Source) error { return nil }

// What cannot be known is no refusal.
func TestUnreachableAPIServer(t *testing.T) {
	v := &scripts[*v1alpha1.LuaScript]{
		validator{checkers: map[string]engine.Checker{script.EngineLua: checker{}}, cached: unreachable{}, direct: unreachable{}, turns: make(chan struct{}, 1)},
		kinds.LuaScript,
	}
	ls := &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "route"},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: "acme", Source: new("x = 1")},
	}
	warnings, err := v.ValidateCreate(t.Context(), ls)
	const want = "spec.tenantId: could not be checked, the LuaScript's conditions will say: reading ScriptTenant acme: the API server does not answer"
	if err != nil || strings.Join(warnings, "\n") != want {
		t.Errorf("got %q, %v", warnings, err)
	}
	// What is wrong with it all the same is refused all the same.
	ls.Spec.Source = new("")
	if _, err := v.ValidateCreate(t.Context(), ls); err == nil || !strings.Contains(err.Error(), "spec.source: is empty") {
		t.Errorf("an empty source: %v", err)
	}
	// A turn that does not come in time is given up.
	v.turns <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.ValidateCreate(ctx, ls); !errors.Is(err, context.Canceled) {
		t.Errorf("without a turn: %v", err)
	}
}
