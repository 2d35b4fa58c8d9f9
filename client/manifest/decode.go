package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// decoder reads the documents of one file and collects their faults.
type decoder struct {
	file   string
	dir    string
	lines  []string
	alone  bool   // it names no files
	given  []byte // the source; nil if the manifest has it
	bytes  int    // of texts in JSON values
	faults []*Error
}

// The fields of each object. What a cluster adds by itself is read over.
var (
	documentFields = []string{"apiVersion", "kind", "metadata", "spec", "status"}
	metadataFields = []string{
		"name", "namespace", "labels", "annotations",
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
		"generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
	}
	specFields = []string{
		"tenantId", "runtime", "script", "source", "sourceFile", "artifact", "wasm", "rego", "entrypoint", "enabled", "version",
		"trigger", "onError", "log", "config", "limits", "revisionHistoryLimit", "rollout", "tests", "signature", "library",
	}
	sourceFields = []string{"script", "source", "sourceFile", "artifact"} // one of them
	limitFields  = []string{"instructions", "timeout", "sourceBytes", "resultBytes", "logBytes", "concurrency", "lua", "wasm", "stringBytes", "coroutines"}
	luaLimits    = []string{"stringBytes", "coroutines"}
	wasmLimits   = []string{"memory"}
	wasmFields   = []string{"reuse"}
	regoFields   = []string{"input", "target", "v0"}
)

func (d *decoder) manifest(n *yaml.Node) Manifest {
	m := Manifest{File: d.file, Line: n.Line}
	kind := Kind
	if v := valueOf(n, "kind"); v != nil && isScalar(v, "!!str") && v.Value == LuaKind {
		kind = LuaKind
	}
	if d.isOtherKind(n, kind) {
		return m
	}
	doc, ok := d.object(n, "", documentFields)
	if !ok {
		return m
	}
	d.constant(n, doc["apiVersion"], "apiVersion", APIVersion)
	d.constant(n, doc["kind"], "kind", kind)
	m.Name.Script = d.metadata(n, doc["metadata"], "the script's name")
	d.spec(n, doc["spec"], kind, &m)
	return m
}

// isOtherKind reports a document that is not of the kind at all, so that its
// fields are not reported one by one.
func (d *decoder) isOtherKind(n *yaml.Node, kind string) bool {
	if n.Kind != yaml.MappingNode {
		d.fault(n, "", "is %s, want a %s manifest", describe(n), kind)
		return true
	}
	v := valueOf(n, "kind")
	switch {
	case v == nil || !isScalar(v, "!!str") || v.Value == kind:
		return false
	case v.Value == ChangeSetKind:
		d.fault(v, "kind", "is %s: publish it by itself, with scriptctl changeset publish %s", ChangeSetKind, d.file)
	case v.Value == Kind || v.Value == LuaKind:
		d.fault(v, "kind", "is %s, want %s: name its file in spec.scripts of one, or publish it with scriptctl publish", v.Value, kind)
	default:
		d.fault(v, "kind", "is %.80q, want %s: keep other kinds in files of their own", v.Value, kind)
	}
	return true
}

func (d *decoder) constant(parent, n *yaml.Node, field, want string) {
	got, ok := d.requiredText(parent, n, field, want)
	if ok && got != want {
		d.fault(n, field, "is %.80q, want %s", got, want)
	}
}

// metadata returns the name in n; what says what it names.
func (d *decoder) metadata(parent, n *yaml.Node, what string) string {
	if n == nil {
		d.fault(parent, "metadata", "is missing: add metadata with a name")
		return ""
	}
	fields, ok := d.object(n, "metadata", metadataFields)
	if !ok {
		return ""
	}
	name := d.label(n, fields["name"], "metadata.name", what)
	if ns := fields["namespace"]; ns != nil {
		d.label(n, ns, "metadata.namespace", "")
	}
	for _, field := range []string{"labels", "annotations"} {
		d.texts(fields[field], "metadata."+field)
	}
	return name
}

func (d *decoder) spec(parent, n *yaml.Node, kind string, m *Manifest) {
	if n == nil {
		d.fault(parent, "spec", "is missing: add spec with a tenantId and a source")
		return
	}
	fields, ok := d.object(n, "spec", specFields)
	if !ok {
		return
	}
	m.fields = fieldPlaces(fields)
	m.Name.Tenant = d.label(n, fields["tenantId"], "spec.tenantId", "the tenant that owns the script")
	m.Engine = d.runtime(fields["runtime"], kind)
	m.Settings.Runtime = d.options(fields)
	m.Entrypoint = d.entrypoint(fields["entrypoint"], m.Engine)
	m.Enabled = d.boolean(fields["enabled"], "spec.enabled", true)
	m.Pin = d.number(fields["version"], "spec.version", 1<<53)
	m.Settings.HistoryLimit = int(d.number(fields["revisionHistoryLimit"], "spec.revisionHistoryLimit", script.MaxHistoryLimit))
	m.Settings.Trigger = d.trigger(fields["trigger"])
	m.Settings.OnError = d.onError(fields["onError"])
	m.Settings.Decisions = d.log(fields["log"])
	m.Settings.Limits = d.limits(fields["limits"])
	m.Settings.Config = d.config(fields["config"], "spec.config")
	m.Settings.Rollout = d.rollout(fields["rollout"], rolloutField, m.Name)
	m.Settings.Tests = d.tests(fields["tests"])
	d.library(fields, m)
	if n := fields["signature"]; n != nil {
		m.Signature, _ = d.text(n, signatureField)
	}
	d.checkEngine(n, fields, m)
	d.source(n, fields, m)
}

func (d *decoder) entrypoint(n *yaml.Node, engine string) string {
	if n == nil {
		return DefaultEntrypoint
	}
	name, ok := d.text(n, "spec.entrypoint")
	if !ok {
		return name
	}
	if e := script.AsError(script.CheckEntrypoint(engine, name)); e != nil {
		d.fault(n, "spec.entrypoint", "%s", e.Message)
	}
	return name
}

func (d *decoder) duration(n *yaml.Node, field string, most time.Duration) time.Duration {
	if n == nil {
		return 0
	}
	if !isScalar(n, "!!str") {
		d.fault(n, field, "is %s, want a duration such as 50ms", describe(n))
		return 0
	}
	t, err := time.ParseDuration(n.Value)
	if err != nil {
		d.fault(n, field, "%.80q is not a duration: want a number and a unit, such as 50ms", n.Value)
		return 0
	}
	if t <= 0 || t > most {
		d.fault(n, field, "%v is not above 0 and at most %v", t, most)
		return 0
	}
	return t
}

// fault reports what is wrong with the field that n holds.
func (d *decoder) fault(n *yaml.Node, field, format string, args ...any) {
	if strings.ContainsFunc(field, func(r rune) bool { return !unicode.IsPrint(r) }) {
		field = strconv.Quote(field) // a stranger's keys must not reach a terminal as they are
	}
	d.faults = append(d.faults, &Error{
		File: d.file, Line: n.Line, Column: n.Column, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// object returns the values of a mapping's fields by their names, and reports
// those that are not known, unless known is nil, or there twice. A null counts as absent.
func (d *decoder) object(n *yaml.Node, path string, known []string) (map[string]*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, want fields: %s", describe(n), strings.Join(known, ", "))
		return nil, false
	}
	fields := make(map[string]*yaml.Node, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field := key.Value
		if path != "" {
			field = path + "." + key.Value
		}
		if first, ok := seen[key.Value]; ok {
			d.fault(key, field, "is there twice, first in line %d: remove one", first)
			continue
		}
		seen[key.Value] = key.Line
		if known != nil && !slices.Contains(known, key.Value) {
			d.unknownField(key, field, known)
			continue
		}
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if !isNull(value) {
			fields[key.Value] = value
		}
	}
	return fields, true
}

func (d *decoder) unknownField(key *yaml.Node, field string, known []string) {
	if isScalar(key, "!!merge") {
		d.fault(key, "<<", "merge keys are not supported: write the fields out")
		return
	}
	for _, k := range known {
		if strings.EqualFold(k, key.Value) {
			d.fault(key, field, "is not a field: write it as %s", k)
			return
		}
	}
	d.fault(key, field, "is not a field; the fields here are %s", strings.Join(known, ", "))
}

// requiredText returns the text of n; what says what to write when it is absent.
func (d *decoder) requiredText(parent, n *yaml.Node, field, what string) (string, bool) {
	if n == nil {
		d.fault(parent, field, "is missing: add %s", what)
		return "", false
	}
	return d.text(n, field)
}

func (d *decoder) text(n *yaml.Node, field string) (string, bool) {
	if isScalar(n, "!!str") {
		return n.Value, true
	}
	if n.Kind == yaml.ScalarNode {
		d.fault(n, field, "is %s, want text: put it in quotes", describe(n))
	} else {
		d.fault(n, field, "is %s, want text", describe(n))
	}
	return "", false
}

func (d *decoder) label(parent, n *yaml.Node, field, what string) string {
	s, ok := d.requiredText(parent, n, field, what)
	if !ok {
		return ""
	}
	if err := script.ValidateLabel(field, s); err != nil {
		e, _ := errors.AsType[*script.Error](err)
		d.fault(n, field, "%s", e.Message)
	}
	return s
}

// texts returns a map of text to text, such as labels.
func (d *decoder) texts(n *yaml.Node, path string) map[string]string {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "is %s, want fields", describe(n))
		return nil
	}
	fields, _ := d.object(n, path, nil)
	texts := make(map[string]string, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		texts[key], _ = d.text(fields[key], path+"."+key)
	}
	return texts
}

func (d *decoder) boolean(n *yaml.Node, field string, absent bool) bool {
	if n == nil {
		return absent
	}
	if !isScalar(n, "!!bool") {
		d.fault(n, field, "is %s, want true or false", describe(n))
		return absent
	}
	return strings.EqualFold(n.Value, "true")
}

// number returns a number from 1 to most, and 0 for an absent n.
func (d *decoder) number(n *yaml.Node, field string, most uint64) uint64 {
	if n == nil {
		return 0
	}
	var v uint64
	if !isScalar(n, "!!int") || n.Decode(&v) != nil {
		d.fault(n, field, "is %s, want a whole number from 1 to %d", describe(n), most)
		return 0
	}
	if v < 1 || v > most {
		d.fault(n, field, "%d is not between 1 and %d; leave it out for the default", v, most)
		return 0
	}
	return v
}

func isScalar(n *yaml.Node, tag string) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == tag
}

func isNull(n *yaml.Node) bool { return isScalar(n, "!!null") }

// describe says what n is, for "is …, want …".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return fmt.Sprintf("the text %.80q", n.Value)
	case "!!int", "!!float":
		return fmt.Sprintf("the number %.80s", n.Value)
	case "!!bool":
		return "the boolean " + n.Value
	case "!!null":
		return "empty"
	case "!!timestamp":
		return fmt.Sprintf("the date %.80s", n.Value)
	}
	return "of the type " + n.ShortTag()
}
