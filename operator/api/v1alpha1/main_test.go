package v1alpha1_test

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/operator/testenv"
)

// env is a Kubernetes API that all tests share, each in a namespace of its own.
var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Run(m, func(e *testenv.Env) { env = e }))
}

const header = "apiVersion: scriptorium.dev/v1alpha1\n"

// object reads a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err == nil {
		err = u.UnmarshalJSON(text) // which keeps integers whole
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return u
}

// strict is how kubectl asks: a field that is not known is an error.
const strict = client.FieldValidation("Strict")

// create creates what a manifest says, in a namespace if its kind has them, and
// returns what the server made of it.
func create(t *testing.T, namespace, manifest string, opts ...client.CreateOption) (*unstructured.Unstructured, error) {
	t.Helper()
	u := object(t, manifest)
	if u.GetKind() != "ScriptTenant" {
		u.SetNamespace(namespace)
	}
	err := env.Client.Create(t.Context(), u, append(opts, strict)...)
	return u, err
}

// field returns a field of an object, nil if it is not there.
func field(u *unstructured.Unstructured, path ...string) any {
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		return err
	}
	return v
}
