// Command generate writes the JSON Schemas of internal/schema. Run it in the root of the tree.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/project"
	"github.com/scriptorium-dev/scriptorium/script"
)

func main() {
	all, err := generate()
	for name, text := range all {
		if err == nil {
			err = os.WriteFile(filepath.Join("internal", "schema", name+".json"), text, 0o644) //nolint:gosec // a file of the tree
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// object is a JSON object.
type object = map[string]any

// generate returns the schemas of the tree around the working directory, by their names.
func generate() (map[string][]byte, error) {
	g := &generator{}
	g.reflector.DoNotReference, g.reflector.Anonymous = true, true
	g.reflector.Mapper = func(t reflect.Type) *jsonschema.Schema {
		if t == reflect.TypeFor[yamlv3.Node]() {
			return &jsonschema.Schema{} // any value
		}
		return nil
	}
	for _, dir := range []string{"client/manifest", "internal/project"} {
		if err := g.reflector.AddGoComments("github.com/scriptorium-dev/scriptorium", dir, jsonschema.WithFullComment()); err != nil {
			return nil, err
		}
	}
	manifests, err := g.manifests()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for name, s := range map[string]object{"manifest": manifests, "test": g.tests(), "project": g.projects()} {
		s["$schema"] = "http://json-schema.org/draft-07/schema#"
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			return nil, err
		}
		all[name] = text.Bytes()
	}
	return all, g.err
}

type generator struct {
	reflector jsonschema.Reflector
	err       error // the first one
}

// of returns the schema of the type of a value.
func (g *generator) of(value any) (s object) {
	text, err := json.Marshal(g.reflector.Reflect(value))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	g.err = cmp.Or(g.err, err)
	return s
}

// properties returns those at the names.
func properties(s object, names ...string) object {
	for _, name := range names {
		s = s["properties"].(object)[name].(object)
		if items, ok := s["items"].(object); ok {
			s = items
		}
	}
	return s["properties"].(object)
}

func (g *generator) tests() object {
	s := g.of(&manifest.TestDocument{})
	fields := properties(s, "cases")
	whole := fields["error"].(object)
	fields["error"] = object{"description": whole["description"], "oneOf": []any{properties(s, "cases", "error")["kind"], whole}}
	return s
}

func (g *generator) projects() object {
	s := g.of(&project.Document{})
	s["properties"].(object)["project"].(object)["type"] = "string"
	levels := object{}
	for _, r := range lint.Rules {
		level := object{"description": r.Title, "enum": []any{project.Off, project.Warning, project.Error}}
		levels[r.Code], levels[r.Name] = level, level
	}
	rules := properties(s, "lint")["rules"].(object)
	maps.Copy(rules, object{"properties": levels, "additionalProperties": false})
	return s
}

// manifests returns the schema of a document of a manifest file: a Script, a LuaScript, a ScriptTenant or a ChangeSet.
func (g *generator) manifests() (object, error) {
	scripts, err := resource("scripts")
	if err != nil {
		return nil, err
	}
	tenants, err := resource("scripttenants")
	if err != nil {
		return nil, err
	}
	spec := properties(scripts, "spec")
	spec["sourceFile"] = object{"type": "string", "description": "A file with the source, beside the manifest. A Kubernetes cluster does not accept this field."}
	spec["artifact"] = object{"type": "string", "description": "A WebAssembly module or a bundle of policies: a file beside the manifest, or oci://...@sha256:... . A Kubernetes cluster accepts only the latter."}
	one := []any{}
	for _, name := range []string{"source", "script", "sourceFile", "artifact"} {
		one = append(one, object{"required": []any{name}})
	}
	scripts["properties"].(object)["spec"].(object)["oneOf"] = one
	set := g.of(&manifest.ChangeSetSpec{})
	set["properties"].(object)["rollout"] = spec["rollout"]
	sets := object{
		"type": "object", "description": set["description"], "properties": object{"spec": set},
	}
	lua := object{"properties": object{"spec": object{"properties": object{"runtime": object{"const": script.EngineLua}}}}}
	var kinds, alternatives []any
	for _, is := range []struct {
		kinds  []any
		schema object
	}{
		{[]any{manifest.Kind, manifest.LuaKind}, document(scripts)},
		{[]any{manifest.LuaKind}, lua},
		{[]any{"ScriptTenant"}, document(tenants)},
		{[]any{manifest.ChangeSetKind}, document(sets)},
	} {
		for _, kind := range is.kinds {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		alternatives = append(alternatives, object{
			"if":   object{"properties": object{"kind": object{"enum": is.kinds}}, "required": []any{"kind"}},
			"then": is.schema,
		})
	}
	return object{
		"type": "object", "required": []any{"apiVersion", "kind"}, "allOf": alternatives,
		"properties": object{"apiVersion": object{"const": manifest.APIVersion}, "kind": object{"enum": kinds}},
	}, nil
}

// document completes the schema of a kind by what all kinds have.
func document(s object) object {
	name := object{"type": "string", "description": "The name, a DNS label."}
	metadata := object{"name": name}
	for _, field := range manifest.MetadataFields() {
		if field != "name" {
			metadata[field] = true
		}
	}
	fields := s["properties"].(object)
	fields["apiVersion"], fields["kind"], fields["status"] = true, true, true
	fields["metadata"] = object{"type": "object", "properties": metadata, "required": []any{"name"}, "additionalProperties": false}
	s["required"], s["additionalProperties"] = []any{"metadata", "spec"}, false
	return s
}

// resource returns the schema of a CustomResourceDefinition, in which unknown fields are errors.
func resource(plural string) (object, error) {
	text, err := os.ReadFile(filepath.Join("deploy", "crd", "scriptorium.dev_"+plural+".yaml"))
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema object `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	return strict(crd.Spec.Versions[0].Schema.OpenAPIV3Schema).(object), nil
}

// strict makes a JSON Schema of a schema of Kubernetes.
func strict(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = strict(v[i])
		}
	case object:
		_, free := v["x-kubernetes-preserve-unknown-fields"]
		_, more := v["additionalProperties"]
		_, closed := v["properties"].(object)
		if closed && !free && !more {
			v["additionalProperties"] = false
		}
		for _, name := range slices.Collect(maps.Keys(v)) {
			switch {
			case len(name) > 2 && name[:2] == "x-", name == "format":
				delete(v, name)
			case name != "properties":
				v[name] = strict(v[name])
			}
		}
		if fields, ok := v["properties"].(object); ok {
			for name, field := range fields {
				fields[name] = strict(field)
			}
		}
	}
	return v
}
