package worker

import (
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestInOrder(t *testing.T) {
	release := func(name string) script.Object {
		return script.Object{Release: &script.Release{Name: script.Name{Tenant: "acme", Script: name}}}
	}
	value := func(key string) script.Object {
		return script.Object{Value: &script.Value{Key: script.ValueKey{Tenant: "acme", Key: key}}}
	}
	asked := []script.Object{release("b"), value("y"), release("a"), {Tenant: &script.Tenant{Name: "acme"}}, value("x")}
	var got []string
	for _, o := range inOrder(asked) {
		got = append(got, o.Key())
	}
	want := []string{asked[3].Key(), asked[1].Key(), asked[4].Key(), asked[0].Key(), asked[2].Key()}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if asked[0].Release == nil {
		t.Error("the change itself is in another order")
	}
}
