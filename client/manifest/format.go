package manifest

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Form says how Format writes a manifest.
type Form struct {
	// Kind is Kind or LuaKind. If it is empty, Format keeps the kind of Previous, and without Previous it writes Kind.
	Kind string
	// Namespace of the object in Kubernetes; "" for none.
	Namespace string
	// Previous is the text that is edited: its comments, the order of its fields, and what it says besides the script stay. If
	// it is no manifest, it does not count.
	Previous []byte
	// WithoutSource leaves the source out.
	WithoutSource bool
}

// Format returns the YAML that Parse reads as m. It is an Invalid error if m has settings that no manifest has. Source lines
// are lines of a block, so that people can read them, unless the source is not text that YAML can hold so.
func Format(m *Manifest, f Form) ([]byte, error) {
	if m.Settings.Personal != nil {
		return nil, script.Errorf(script.Invalid, "settings.personal", "is not for manifests: a personal version is published by `scriptctl publish --as`")
	}
	old := previousNode(f.Previous)
	kind := f.kind(m, old)
	if kind == LuaKind && !inLua(m) {
		return nil, script.Errorf(script.Invalid, "engine", "is %.80q, and a %s is in Lua", m.Engine, LuaKind)
	}
	spec, err := specNode(m, f.WithoutSource)
	if err != nil {
		return nil, err
	}
	var metadata, document object
	metadata.add("name", text(m.Name.Script))
	metadata.add("namespace", text(f.Namespace))
	document.add("apiVersion", text(APIVersion))
	document.add("kind", text(kind))
	document.add("metadata", metadata.node())
	document.add("spec", spec)
	root := document.node()
	if old != nil {
		root = edited(old, root)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, script.Errorf(script.Invalid, "", "cannot be written as YAML: %w", err)
	}
	return out.Bytes(), encoder.Close()
}

func inLua(m *Manifest) bool { return m.Engine == "" || m.Engine == script.EngineLua }

// kind returns the kind that is written.
func (f Form) kind(m *Manifest, old *yaml.Node) string {
	if f.Kind != "" {
		return f.Kind
	}
	if old != nil && inLua(m) {
		if was := valueOf(old.Content[0], "kind"); was != nil && was.Value == LuaKind {
			return LuaKind
		}
	}
	return Kind
}

// specNode writes the fields in the order that people read them in, the source last.
func specNode(m *Manifest, withoutSource bool) (*yaml.Node, error) {
	var o object
	o.add("tenantId", text(m.Name.Tenant))
	if !inLua(m) {
		o.add("runtime", text(m.Engine))
	}
	switch {
	case m.Settings.Library:
		o.add("library", boolean(true))
	case m.Entrypoint != DefaultEntrypoint:
		o.add("entrypoint", scalar("!!str", m.Entrypoint))
	}
	if !m.Enabled {
		o.add("enabled", boolean(false))
	}
	o.add("version", whole(m.Pin))
	o.add("trigger", triggerNode(m.Settings.Trigger))
	o.add("onError", onErrorNode(m.Settings.OnError))
	o.add("log", logNode(m.Settings.Decisions))
	o.add("limits", limitsNode(m.Settings.Limits))
	o.addRuntime(m.Settings.Runtime)
	if !bytes.Equal(bytes.TrimSpace(m.Settings.Config), []byte("{}")) {
		if err := o.addJSON("config", "settings.config", m.Settings.Config); err != nil {
			return nil, err
		}
	}
	o.add("revisionHistoryLimit", whole(uint64(max(m.Settings.HistoryLimit, 0))))
	o.add("rollout", planNode(m.Settings.Rollout))
	tests, err := testNodes(m.Settings.Tests)
	if err != nil {
		return nil, err
	}
	o.add("tests", tests)
	o.add("signature", text(m.Signature))
	switch {
	case m.Settings.Artifact != "":
		o.add("artifact", text(m.Settings.Artifact))
	case !withoutSource:
		o.add(sourceNode(m.Source))
	}
	return o.node(), nil
}

// sourceNode returns the field and the value of a source.
func sourceNode(source []byte) (string, *yaml.Node) {
	if !utf8.Valid(source) || bytes.IndexByte(source, 0) >= 0 {
		return "script", scalar("!!str", base64.StdEncoding.EncodeToString(source))
	}
	n := scalar("!!str", string(source))
	if n.Style == 0 {
		n.Style = yaml.LiteralStyle
	}
	return "source", n
}

func triggerNode(t script.Trigger) *yaml.Node {
	if t.Event == "" {
		return nil
	}
	var o, match object
	o.add("event", text(t.Event))
	if t.Priority != 0 {
		o.add("priority", integer(t.Priority))
	}
	match.add("hosts", texts(t.Match.Hosts))
	match.add("pathPrefixes", texts(t.Match.PathPrefixes))
	match.add("methods", texts(t.Match.Methods))
	match.add("headers", labels(t.Match.Headers))
	o.add("match", match.node())
	return o.node()
}

func onErrorNode(e script.OnError) *yaml.Node {
	var o object
	o.add("policy", text(e.Policy))
	o.add("status", whole(uint64(max(e.Status, 0))))
	o.add("body", text(e.Body))
	return o.node()
}

// logNode keeps empty decisions: they record nothing, whatever the tenant's say.
func logNode(d *script.Decisions) *yaml.Node {
	if d == nil {
		return nil
	}
	var decisions, o object
	if d.Sample != 0 {
		decisions.add("sample", number(d.Sample))
	}
	if d.Errors {
		decisions.add("errors", boolean(true))
	}
	decisions.add("mask", texts(d.Mask))
	decisions.add("fields", texts(d.Fields))
	n := decisions.node()
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	}
	o.add("decisions", n)
	return o.node()
}

func limitsNode(l script.Limits) *yaml.Node {
	size := func(n int) *yaml.Node { return whole(uint64(max(n, 0))) }
	var o, lua, wasm object
	o.add("instructions", whole(l.Instructions))
	o.add("timeout", duration(l.Timeout))
	o.add("sourceBytes", size(l.SourceBytes))
	o.add("resultBytes", size(l.ResultBytes))
	o.add("logBytes", size(l.LogBytes))
	o.add("concurrency", size(l.Concurrency))
	lua.add("stringBytes", size(l.StringBytes))
	if l.Coroutines {
		lua.add("coroutines", boolean(true))
	}
	wasm.add("memory", size(l.WasmMemory))
	o.add("lua", lua.node())
	o.add("wasm", wasm.node())
	return o.node()
}

// addRuntime adds the options that one runtime alone has.
func (o *object) addRuntime(r script.Runtime) {
	var wasm, rego object
	if r.Wasm.Reuse {
		wasm.add("reuse", boolean(true))
	}
	rego.add("input", text(r.Rego.Input))
	rego.add("target", text(r.Rego.Target))
	if r.Rego.V0 {
		rego.add("v0", boolean(true))
	}
	o.add("wasm", wasm.node())
	o.add("rego", rego.node())
}

func testNodes(tests []script.Test) (*yaml.Node, error) {
	var list []*yaml.Node
	for i := range tests {
		t := &tests[i]
		var o object
		o.add("name", scalar("!!str", t.Name))
		field := "settings.tests." + t.Name
		if err := o.addJSON("request", field, t.Request); err != nil {
			return nil, err
		}
		if err := o.addJSON("expect", field, t.Expect); err != nil {
			return nil, err
		}
		o.add("error", text(strings.ToUpper(string(t.Error))))
		list = append(list, o.node())
	}
	return sequence(list), nil
}
