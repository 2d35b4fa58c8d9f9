package schema_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/schema"
)

const root = "../.."

func compile(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{}
	for _, name := range schema.Names() {
		text, ok := schema.Of(name)
		if !ok {
			t.Fatalf("there is no schema %s", name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, doc); err != nil {
			t.Fatal(err)
		}
		if all[name], err = c.Compile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// validate returns what the schema has against the documents of a text.
func validate(s *jsonschema.Schema, text string) error {
	docs := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		if err := docs.Decode(&node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		asTexts(&node)
		var doc any
		if err := node.Decode(&doc); err != nil {
			return err
		}
		if doc == nil {
			continue
		}
		if err := s.Validate(doc); err != nil {
			return err
		}
	}
}

// asTexts makes texts of timestamps, as editors read them.
func asTexts(n *yaml.Node) {
	if n.Tag == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		asTexts(child)
	}
}

// kindOf returns the name of the schema for a file or a block of a page; "" if there is none.
func kindOf(name, text string) string {
	switch {
	case manifest.IsTestFile(name) || regexp.MustCompile(`(?m)^cases:`).MatchString(text):
		return "test"
	case regexp.MustCompile(`(?m)^kind: (Script|LuaScript|ScriptTenant|ChangeSet)\b`).MatchString(text):
		return "manifest"
	case regexp.MustCompile(`(?m)^lint:`).MatchString(text):
		return "project"
	}
	return ""
}

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesAreValid: what examples and pages show is valid.
func TestExamplesAreValid(t *testing.T) {
	all := compile(t)
	seen := map[string]int{}
	check := func(name, text string) {
		t.Helper()
		kind := kindOf(name, text)
		if kind == "" {
			return
		}
		seen[kind]++
		if err := validate(all[kind], text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	for _, dir := range []string{"examples", "docs"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".yaml":
				check(path, string(text))
			case ".md":
				for _, m := range block.FindAllStringSubmatch(string(text), -1) {
					check(filepath.Base(path), m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range schema.Names() {
		if seen[kind] == 0 {
			t.Errorf("there is no example of a %s file", kind)
		}
	}
}

const head = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: a}\nspec:\n  tenantId: acme\n  source: x\n"

// TestMistakes: a misspelled or forgotten field is an error, and what scriptctl accepts is none.
func TestMistakes(t *testing.T) {
	all := compile(t)
	const set = "apiVersion: scriptorium.dev/v1alpha1\nkind: ChangeSet\nmetadata: {name: a}\nspec: {tenantId: acme, "
	for kind, texts := range map[string]map[string]bool{
		"manifest": {
			head: true,
			head + "  limits: {instructions: 1000}\n  config: {any: {thing: 1}}\n": true,
			head + "  rollout: {failureLimit: 5%, steps: [{percent: 10}]}\n":       true,
			head + "  rollout: {failureLimit: 2, steps: [{percent: 10}]}\n":        true,
			strings.Replace(head, "source: x", "sourceFile: a.lua", 1):             true,
			strings.Replace(head, "tenantId", "tenantID", 1):                       false,
			strings.Replace(head, "source: x", "sourcefile: x", 1):                 false,
			strings.Replace(head, "{name: a}", "{name: a, lables: {}}", 1):         false,
			strings.Replace(head, "{name: a}", "{}", 1):                            false,
			strings.Replace(head, "LuaScript", "LuaScrip", 1):                      false,
			strings.Replace(head, "LuaScript", "Script", 1) + "  runtime: rego\n":  true,
			head + "  runtime: lua\n":                                              true,
			head + "  runtime: rego\n":                                             false,
			strings.Replace(head, "v1alpha1", "v1", 1):                             false,
			head + "  sourceFile: a.lua\n":                                         false,
			head + "  limits: {instruction: 1000}\n":                               false,
			head + "  limits: {instructions: many}\n":                              false,
			head + "  rollout: {steps: [{percents: 10}]}\n":                        false,
			head + "  tests: [{name: a, expects: 1}]\n":                            false,
			head + "specs: {}\n":                                                   false,
			set + "values: {k: {text: x}}, scripts: [a.yaml]}":                     true,
			set + "values: {k: {txt: x}}}":                                         false,
			set + "rollout: {step: []}}":                                           false,
		},
		"test": {
			"cases: [{name: a}]": true,
			"cases: [{name: a, request: null, error: SCRIPT, now: 2026-01-31T12:00:00.5Z}]":      true,
			"cases: [{name: a, error: {kind: LIMIT, line: 3}, values: {a: b}, results: [1, 2]}]": true,
			"cases: []":                                      false,
			"case: [{name: a}]":                              false,
			"cases: [{name: a, expects: 1}]":                 false,
			"cases: [{expect: 1}]":                           false,
			"cases: [{name: a, error: BOOM}]":                false,
			"cases: [{name: a, error: {kin: LIMIT}}]":        false,
			"cases: [{name: a, values: {a: 1}}]":             false,
			"cases: [{name: a, gateway: {url: /}}]":          false,
			"cases: [{name: a}]\ndefaults: {value: {a: b}}":  false,
			"cases: [{name: a}]\ndefaults: {values: {a: b}}": true,
		},
		"project": {
			"lint: {rules: {W009: off, unused-local: error}}": true,
			"lint: {rule: {W009: off}}":                       false,
			"lint: {rules: {W999: off}}":                      false,
			"lint: {rules: {W009: loud}}":                     false,
			"lints: {}":                                       false,
		},
	} {
		for text, valid := range texts {
			if err := validate(all[kind], text); (err == nil) != valid {
				t.Errorf("%s: %v\n%s", kind, err, text)
			}
		}
	}
}
