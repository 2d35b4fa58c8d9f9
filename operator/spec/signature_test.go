package spec_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestSignature: what a pipeline signs in a manifest is what the operator publishes, whatever
// form the API server gives the JSON.
func TestSignature(t *testing.T) {
	const text = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec:
  tenantId: acme
  source: return 1
  config: {b: 1.0, a: "é<", big: 1e21, list: [2, 1]}
  tests: [{name: t, request: {z: 1, a: {}}, expect: {}}]
`
	manifests, err := manifest.Parse("route.yaml", []byte(text), ".")
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	by, err := publisher.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := publisher.Sign(t.Context(), manifests[0].Statement(), by)
	if err != nil {
		t.Fatal(err)
	}
	json := func(raw string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(raw)} }
	ls := &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "route"},
		Spec: v1alpha1.LuaScriptSpec{
			TenantID: "acme", Source: new("return 1"), Signature: &signature,
			Config: json(`{"list":[2,1], "big":1e+21,"b":1,"a":"é<"}`),
			Tests:  []v1alpha1.Test{{Name: "t", Request: json(`{"a":{},"z":1}`), Expect: json(`{}`)}},
		},
	}
	w, err := spec.From(kinds.LuaScript, ls)
	if err != nil || w.Publish().Signature != signature {
		t.Fatalf("%v, %+v", err, w.Publish())
	}
	ls.Spec.Source = new("return 2")
	_, err = spec.From(kinds.LuaScript, ls)
	if e := script.AsError(err); e == nil || e.Field != "spec.signature" || !strings.Contains(e.Message, "is of another source") {
		t.Errorf("of another source: %v", err)
	}
}
