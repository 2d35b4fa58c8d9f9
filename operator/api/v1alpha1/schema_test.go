package v1alpha1_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// definitions returns the CustomResourceDefinitions of the API server, as it understood
// them.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := env.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 3 {
		t.Fatalf("there are %d definitions, want 3", len(list.Items))
	}
	return list.Items
}

// fields returns the schema of each field of spec and status by its path; the fields
// of a list's items are those of the list.
func fields(crd apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	var walk func(path string, schema apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if path != "" {
			all[path] = schema
			path += "."
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			schema = *schema.Items.Schema
		}
		for name, property := range schema.Properties {
			walk(path+name, property)
		}
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		walk(part, root.Properties[part])
	}
	return all
}

// TestDefinitionsAreAccepted: the API server has nothing against them.
func TestDefinitionsAreAccepted(t *testing.T) {
	for _, crd := range definitions(t) {
		for _, condition := range crd.Status.Conditions {
			want := apiextensionsv1.ConditionTrue
			if condition.Type == apiextensionsv1.NonStructuralSchema || condition.Type == apiextensionsv1.Terminating {
				want = apiextensionsv1.ConditionFalse
			}
			if condition.Status != want {
				t.Errorf("%s: %s is %s: %s", crd.Name, condition.Type, condition.Status, condition.Message)
			}
		}
	}
}
