package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// karmadaOperation is what a script of Karmada does.
type karmadaOperation struct {
	field      string // of spec.customizations
	name       string // of the script
	function   string
	output     string   // member of the output of a test
	second     string   // member for the second result; "" for none
	parameters []string // members of a test
}

// karmadaOperations are all operations, by their names in tests.
var karmadaOperations = map[string]karmadaOperation{
	"InterpretReplica":    {"replicaResource", "replicas", "GetReplicas", "replica", "requires", []string{"desiredObj"}},
	"InterpretComponent":  {"componentResource", "components", "GetComponents", "components", "", []string{"desiredObj"}},
	"ReviseReplica":       {"replicaRevision", "revise", "ReviseReplica", "", "", []string{"desiredObj", "inputReplicas"}},
	"Retain":              {"retention", "retain", "Retain", "retained", "", []string{"desiredObj", "observedObj"}},
	"AggregateStatus":     {"statusAggregation", "aggregate", "AggregateStatus", "aggregatedStatus", "", []string{"desiredObj", "statusItems"}},
	"InterpretStatus":     {"statusReflection", "status", "ReflectStatus", "status", "", []string{"observedObj"}},
	"InterpretHealth":     {"healthInterpretation", "health", "InterpretHealth", "healthy", "", []string{"observedObj"}},
	"InterpretDependency": {"dependencyInterpretation", "dependencies", "GetDependencies", "dependencies", "", []string{"desiredObj"}},
}

// karmadaDoc is a customization, or a test of one.
type karmadaDoc struct {
	Kind string `json:"kind"`
	Spec struct {
		Target         karmadaTarget `json:"target"`
		Customizations map[string]struct {
			Script string `json:"luaScript"`
		} `json:"customizations"`
	} `json:"spec"`

	Name      string                     `json:"name"`
	Operation string                     `json:"operation"`
	Output    map[string]json.RawMessage `json:"output"`
}

// karmadaTarget is a kind of resources.
type karmadaTarget struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (t karmadaTarget) script(op karmadaOperation) string {
	group, _, _ := strings.Cut(t.APIVersion, "/")
	return label(group, t.Kind, op.name)
}

// karmadaPart is one document of a file.
type karmadaPart struct {
	file string
	node *yaml.Node
	text []byte // as JSON
	doc  karmadaDoc
}

// Karmada reads a folder with ResourceInterpreterCustomizations of Karmada, and tests with an operation and an output.
func Karmada(dir, tenant string) (*Bundle, error) {
	b, err := inFolder(dir, tenant)
	if err != nil {
		return nil, err
	}
	defer b.close()
	parts, err := b.karmadaParts(dir)
	if err != nil {
		return nil, err
	}
	scripts := map[string]*Script{}
	for _, p := range parts {
		if p.doc.Kind == "ResourceInterpreterCustomization" {
			b.karmadaScripts(&p, scripts)
		}
	}
	for _, p := range parts {
		if p.doc.Operation != "" {
			b.karmadaTest(&p, scripts)
		}
	}
	if len(scripts) == 0 && len(b.Left) == 0 {
		return nil, script.Errorf(script.NotFound, dir, "has no ResourceInterpreterCustomization")
	}
	return b, nil
}

// karmadaParts returns the documents of all YAML files below the folder.
func (b *Bundle) karmadaParts(dir string) (parts []karmadaPart, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml" {
			return err
		}
		data, err := b.read(path)
		if err != nil {
			b.leave(path, 0, "cannot be read: %v", err)
			return nil
		}
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		for {
			p := karmadaPart{file: path, node: &yaml.Node{}}
			if err := decoder.Decode(p.node); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				b.leave(path, 0, "is no YAML: %v", err)
				return nil
			}
			text, err := yaml.Marshal(p.node)
			if err == nil {
				p.text, err = kyaml.YAMLToJSON(text)
			}
			if err == nil && json.Unmarshal(p.text, &p.doc) == nil { // else it is something else
				parts = append(parts, p)
			}
		}
	})
	return parts, err
}

func (b *Bundle) karmadaScripts(p *karmadaPart, scripts map[string]*Script) {
	known := map[string]karmadaOperation{}
	for _, op := range karmadaOperations {
		known[op.field] = op
	}
	for _, field := range sortedKeys(p.doc.Spec.Customizations) {
		line := lineOfScript(p.node, field)
		op, ok := known[field]
		if !ok {
			b.leave(p.file, line, "there is no customization %s here", field)
			continue
		}
		name := p.doc.Spec.Target.script(op)
		if s := b.addSource(name, p.file, line, op.function, []byte(p.doc.Spec.Customizations[field].Script)); s != nil {
			scripts[name] = s
		}
	}
}

// lineOfScript returns the line in which the script of the customization begins.
func lineOfScript(doc *yaml.Node, field string) int {
	n := doc
	for _, name := range []string{"spec", "customizations", field, "luaScript"} {
		if n = member(n, name); n == nil {
			return 0
		}
	}
	return n.Line + 1 // the block begins in the line after
}

func member(n *yaml.Node, name string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func (b *Bundle) karmadaTest(p *karmadaPart, scripts map[string]*Script) {
	line := p.node.Line
	if at := member(p.node, "name"); at != nil {
		line = at.Line
	}
	op, ok := karmadaOperations[p.doc.Operation]
	if !ok {
		b.leave(p.file, line, "there is no operation %s here", p.doc.Operation)
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(p.text, &members); err != nil {
		b.leave(p.file, line, "is no test: %v", err)
		return
	}
	c := manifest.TestCase{Name: p.doc.Name, File: p.file, Line: line}
	var target karmadaTarget
	for _, name := range op.parameters {
		value := members[name]
		if name == "desiredObj" && value == nil {
			value = members["observedObj"]
		}
		if name == "statusItems" && value == nil {
			value = json.RawMessage("[]")
		}
		if value == nil {
			b.leave(p.file, line, "the test %q has no %s", p.doc.Name, name)
			return
		}
		if target.Kind == "" {
			_ = json.Unmarshal(value, &target) // else there is no such script
		}
		c.Args = append(c.Args, value)
	}
	s := scripts[target.script(op)]
	if s == nil {
		b.leave(p.file, line, "there is no script of %s %s for %s", target.APIVersion, target.Kind, p.doc.Operation)
		return
	}
	if err := p.expect(op, &c); err != nil {
		b.leave(p.file, line, "%v", err)
		return
	}
	s.addCase(c)
	for _, other := range sortedKeys(p.doc.Output) {
		if op.output != "" && other != op.output && other != op.second {
			b.leave(p.file, line, "%s returns no %s: this output of %q is not checked", op.function, other, p.doc.Name)
		}
	}
}

// expect makes the output of the test what the case expects.
func (p *karmadaPart) expect(op karmadaOperation, c *manifest.TestCase) error {
	output, second := p.doc.Output[op.output], p.doc.Output[op.second]
	switch {
	case op.output == "" && p.doc.Output != nil: // the output is the part of the object that is looked at
		return set(&c.Expect, p.doc.Output)
	case output == nil:
		return fmt.Errorf("the output of the test %q has no %s", p.doc.Name, cmp.Or(op.output, "member"))
	case second != nil:
		return set(&c.Results, []json.RawMessage{output, second})
	}
	c.Exactly = output
	return nil
}
