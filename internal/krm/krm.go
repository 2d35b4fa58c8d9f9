// Package krm applies scripts to Kubernetes resources, offline: resources in, resources out. It reads and writes YAML
// documents, and the ResourceList of KRM functions, which kustomize and kpt run.
package krm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Resource is one resource of the input.
type Resource struct {
	node *yaml.Node // as written, with its comments
	// Name is "Kind namespace/name".
	Name string
	meta meta
}

// meta is how a resource is known.
type meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

func (m *meta) String() string {
	name := m.Metadata.Name
	if m.Metadata.Namespace != "" {
		name = m.Metadata.Namespace + "/" + name
	}
	return m.Kind + " " + name
}

// Input is what was read.
type Input struct {
	Resources []*Resource
	// Function is the functionConfig of a ResourceList as YAML; nil if there is none.
	Function []byte
	list     *yaml.Node // the ResourceList; nil for plain documents
}

const resourceList = "ResourceList"

// Read reads YAML documents. A List stands for its items. One document of kind ResourceList is the input of a KRM function.
func Read(r io.Reader) (*Input, error) {
	in := &Input{}
	decoder := yaml.NewDecoder(r)
	for n := 1; ; n++ {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return in, nil
		} else if err != nil {
			return nil, fmt.Errorf("document %d is no YAML: %w", n, err)
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		if err := in.add(doc.Content[0]); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (in *Input) add(n *yaml.Node) error {
	m, err := metaOf(n)
	if err != nil {
		return err
	}
	items := member(n, "items")
	switch {
	case m.Kind == resourceList && in.list == nil && len(in.Resources) == 0:
		in.list = n
		if config := member(n, "functionConfig"); config != nil {
			if in.Function, err = yaml.Marshal(config); err != nil {
				return err
			}
		}
	case m.Kind == resourceList:
		return errors.New("there is more than one ResourceList")
	case items == nil || items.Kind != yaml.SequenceNode:
		in.Resources = append(in.Resources, &Resource{node: n, Name: m.String(), meta: m})
		return nil
	}
	if items == nil {
		return nil
	}
	for i, item := range items.Content {
		m, err := metaOf(item)
		if err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
		in.Resources = append(in.Resources, &Resource{node: item, Name: m.String(), meta: m})
	}
	return nil
}

func metaOf(n *yaml.Node) (m meta, err error) {
	text, err := toJSON(n)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil || m.Kind == "" {
		return m, fmt.Errorf("line %d: this is no resource: want a document with apiVersion and kind", n.Line)
	}
	return m, nil
}

func toJSON(n *yaml.Node) ([]byte, error) {
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, err
	}
	return kyaml.YAMLToJSON(text)
}

func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// Function applies a script.
type Function struct {
	program *offline.Program
	script  *manifest.Manifest
	log     func(engine.Level, string)
}

// New returns the function of a script. log gets the lines that it logs.
func New(m *manifest.Manifest, log func(engine.Level, string)) (*Function, error) {
	if err := new(offline.Libraries).Resolve(m); err != nil {
		return nil, err
	}
	p, err := offline.Compile(engines.Offline(), &script.Edition{Version: script.Version{Engine: m.Engine, Entrypoint: m.Entrypoint}, Spec: m.Settings.Spec, Source: m.Source})
	if err != nil {
		return nil, m.Locate(err)
	}
	return &Function{p, m, log}, nil
}

// call runs the script with a resource: the argument, or the global obj if the script has no entrypoint. The result is nil
// if it returns nothing.
func (f *Function) call(ctx context.Context, r *Resource) ([]byte, error) {
	resource, err := toJSON(r.node)
	if err != nil {
		return nil, err
	}
	arg := resource
	if f.script.Entrypoint == "" {
		arg = fmt.Appendf(nil, `{"obj":%s}`, resource)
	}
	var result engine.Result
	now := time.Now()
	err = f.program.Run(ctx, &offline.Call{Name: f.script.Name, Args: [][]byte{arg}, Now: now, Seed: uint64(now.UnixNano()), Log: f.log}, &result) //nolint:gosec // any number
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, f.script.Locate(err))
	}
	if result.Len() == 0 || bytes.Equal(result.Value(0), []byte("null")) {
		return nil, nil
	}
	return exact(result.Value(0), resource)
}

// exact returns what a script made of a resource, with the digits of those of the resource's numbers that the script left as
// they were: a number in Lua has 53 bits.
func exact(result, resource []byte) ([]byte, error) {
	after, err := decoded(result)
	if err != nil {
		return nil, err
	}
	before, err := decoded(resource)
	if err != nil {
		return nil, err
	}
	if list, ok := after.([]any); ok {
		for i := range list {
			list[i] = restored(list[i], before)
		}
		return json.Marshal(list)
	}
	return json.Marshal(restored(after, before))
}

// decoded returns a JSON value with the digits of its numbers.
func decoded(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// restored returns the value with the numbers of before that stand in the same places and are equal as numbers of Lua.
func restored(v, before any) any {
	switch v := v.(type) {
	case map[string]any:
		old, _ := before.(map[string]any)
		for name := range v {
			v[name] = restored(v[name], old[name])
		}
	case []any:
		old, _ := before.([]any)
		if len(v) != len(old) { // then an element may be another one
			return v
		}
		for i := range v {
			v[i] = restored(v[i], old[i])
		}
	case json.Number:
		if old, ok := before.(json.Number); ok {
			x, errX := v.Float64()
			y, errY := old.Float64()
			if errX == nil && errY == nil && x == y {
				return old
			}
		}
	}
	return v
}

// Apply replaces each resource by what the script returns of it: one resource, a list of resources, or false for none.
// nil leaves it as it is, with its comments.
func (f *Function) Apply(ctx context.Context, in *Input) error {
	var all []*Resource
	for _, r := range in.Resources {
		result, err := f.call(ctx, r)
		if err != nil {
			return err
		}
		made, err := made(r, result)
		if err != nil {
			return err
		}
		all = append(all, made...)
	}
	in.Resources = all
	return nil
}

// made returns the resources of a result.
func made(r *Resource, result []byte) ([]*Resource, error) {
	switch {
	case result == nil:
		return []*Resource{r}, nil
	case bytes.Equal(result, []byte("false")):
		return nil, nil
	}
	items := []json.RawMessage{result}
	if result[0] == '[' {
		if err := json.Unmarshal(result, &items); err != nil {
			return nil, err
		}
	}
	var all []*Resource
	for _, item := range items {
		var m meta
		if json.Unmarshal(item, &m) != nil || m.Kind == "" || m.APIVersion == "" {
			return nil, fmt.Errorf("%s: the script returned %.80s: want a resource with apiVersion and kind, a list of resources, false to remove it, or nil to leave it", r.Name, item)
		}
		text, err := kyaml.JSONToYAML(item)
		if err != nil {
			return nil, err
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(text, &doc); err != nil {
			return nil, err
		}
		all = append(all, &Resource{node: doc.Content[0], Name: m.String(), meta: m})
	}
	return all, nil
}

// Write writes the resources: as documents, or in the ResourceList that was read.
func (in *Input) Write(w io.Writer) error {
	if in.list == nil && len(in.Resources) == 0 {
		return nil // an encoder without documents fails
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if in.list == nil {
		for _, r := range in.Resources {
			if err := encoder.Encode(r.node); err != nil {
				return err
			}
		}
		return encoder.Close()
	}
	items := &yaml.Node{Kind: yaml.SequenceNode}
	for _, r := range in.Resources {
		items.Content = append(items.Content, r.node)
	}
	for i := 0; i+1 < len(in.list.Content); i += 2 {
		if in.list.Content[i].Value == "items" {
			in.list.Content[i+1] = items
			return errors.Join(encoder.Encode(in.list), encoder.Close())
		}
	}
	in.list.Content = append(in.list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "items"}, items)
	return errors.Join(encoder.Encode(in.list), encoder.Close())
}

// Health is what a health check says of a resource, as in Argo CD.
type Health struct {
	Resource string `json:"resource"`
	Status   string `json:"status"`
	Message  string `json:"message,omitempty"`
}

// statuses are those that Argo CD knows.
var statuses = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

// Healths returns what the script says of each resource. A status that Argo CD does not know is an error: a misspelled
// "degraded" must not pass for a healthy resource.
func (f *Function) Healths(ctx context.Context, in *Input) ([]Health, error) {
	all := []Health{}
	for _, r := range in.Resources {
		result, err := f.call(ctx, r)
		if err != nil {
			return nil, err
		}
		var h Health
		if err := json.Unmarshal(result, &h); err != nil || h.Status == "" {
			return nil, fmt.Errorf("%s: the script returned %.80s: want a table with status and message", r.Name, cmp.Or(string(result), "nothing"))
		}
		if !slices.Contains(statuses, h.Status) {
			return nil, fmt.Errorf("%s: the script returned the status %.80q: want one of %s", r.Name, h.Status, strings.Join(statuses, ", "))
		}
		h.Resource = r.Name
		all = append(all, h)
	}
	return all, nil
}
