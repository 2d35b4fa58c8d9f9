package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSetKind is what the document of a change set must say that it is.
const ChangeSetKind = "ChangeSet"

var (
	changeSetFields = fieldsOf[ChangeSetSpec]()
	valueFields     = fieldsOf[ChangeSetValue]() // one of them
)

const (
	scriptsField = "spec.scripts"
	valuesField  = "spec.values"
)

// ChangeSet is what its document states, with the manifests and the contents that it names. A client
// that publishes manifests together makes one without a document, and validates it.
type ChangeSet struct {
	File string // as given to LoadChangeSet; "" without a document
	Line int    // of File, from 1, where the document starts

	Tenant, Name string
	Scripts      []Manifest // in the order of spec.scripts and of their files
	Values       []Value    // in the order of the document
	// Rollout is the plan of all of it. With nil the plan of the scripts counts.
	Rollout *script.Plan

	paths  []string // spec.scripts
	fields map[string]place
}

// Value is the new content of a value in a change set.
type Value struct {
	Key     string
	Content []byte
}

// Publish returns the request for the change set.
func (c *ChangeSet) Publish() registryclient.ChangeSetRequest {
	req := registryclient.ChangeSetRequest{Tenant: c.Tenant, Name: c.Name, Plan: c.Rollout}
	for i := range c.Scripts {
		req.Scripts = append(req.Scripts, c.Scripts[i].Publish())
	}
	for _, v := range c.Values {
		req.Values = append(req.Values, registryclient.ValueContent(v))
	}
	return req
}

// LoadChangeSet reads the file of a change set, and the files that it names, which are in its folder
// or below it. It returns an error that joins an *Error for each fault of all of them. A change set
// may be empty: a draft is.
func LoadChangeSet(path string) (*ChangeSet, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseChangeSet(path, data, filepath.Dir(path))
}

// ParseChangeSet reads the change set in data. name stands for the file in errors, and dir is the
// folder that the files in it are relative to.
func ParseChangeSet(name string, data []byte, dir string) (*ChangeSet, error) {
	d, data, err := newDecoder(name, data, dir)
	if err != nil {
		return nil, err
	}
	n, err := d.onlyDocument(data, ChangeSetKind)
	if err != nil {
		return nil, err
	}
	set, faults := d.changeSet(n)
	if faults = append(d.sorted(), faults...); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return set, set.Validate()
}

// onlyDocument returns the only document of the file.
func (d *decoder) onlyDocument(data []byte, kind string) (only *yaml.Node, err error) {
	docs := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := docs.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF) && only != nil:
			return only, nil
		case errors.Is(err, io.EOF):
			return nil, &Error{File: d.file, Message: fmt.Sprintf("holds no document: want one %s", kind)}
		case err != nil:
			return nil, syntaxError(d.file, err)
		case len(doc.Content) == 0 || isNull(doc.Content[0]):
		case only != nil:
			n := doc.Content[0]
			return nil, &Error{File: d.file, Line: n.Line, Column: n.Column, Message: fmt.Sprintf("holds another document: keep a %s in a file of its own", kind)}
		default:
			only = doc.Content[0]
		}
	}
}

// changeSet reads the document. It returns the faults of the files that the document names.
func (d *decoder) changeSet(n *yaml.Node) (set *ChangeSet, faults []error) {
	set = &ChangeSet{File: d.file, Line: n.Line}
	if d.isOtherKind(n, ChangeSetKind) {
		return set, nil
	}
	doc, ok := d.object(n, "", documentFields)
	if !ok {
		return set, nil
	}
	d.constant(n, doc["apiVersion"], "apiVersion", APIVersion)
	d.constant(n, doc["kind"], "kind", ChangeSetKind)
	set.Name = d.metadata(n, doc["metadata"], "the change set's name")
	if doc["spec"] == nil {
		d.fault(n, "spec", "is missing: add spec with a tenantId")
		return set, nil
	}
	fields, ok := d.object(doc["spec"], "spec", changeSetFields)
	if !ok {
		return set, nil
	}
	set.fields = fieldPlaces(fields)
	set.fields["spec"] = place{line: doc["spec"].Line, column: doc["spec"].Column}
	set.Tenant = d.label(doc["spec"], fields["tenantId"], "spec.tenantId", "the tenant that owns the scripts")
	set.Scripts, set.paths, faults = d.members(fields["scripts"])
	set.Values = d.contents(fields["values"])
	if rollout := fields["rollout"]; rollout != nil {
		var names []script.Name
		for i := range set.Scripts {
			names = append(names, set.Scripts[i].Name)
		}
		set.Rollout = new(d.rollout(rollout, rolloutField, names...))
	}
	return set, faults
}

// members reads the manifests of the files that the list names.
func (d *decoder) members(n *yaml.Node) (all []Manifest, paths []string, faults []error) {
	items := d.list(n, scriptsField)
	if len(items) > script.MaxChangeSetScripts {
		d.fault(n, scriptsField, "%d are too many: a change set has at most %d scripts", len(items), script.MaxChangeSetScripts)
		return nil, nil, nil
	}
	for i, item := range items {
		field := fmt.Sprintf("%s[%d]", scriptsField, i)
		path, ok := d.text(item, field)
		if !ok {
			continue
		}
		if slices.Contains(paths, path) {
			d.fault(item, field, "%s is there twice: remove one", path)
			continue
		}
		paths = append(paths, path)
		data, ok := d.readBeside(item, field, path, "a manifest in the folder of the change set, or below it")
		if !ok {
			continue
		}
		file := filepath.Join(d.dir, filepath.FromSlash(path))
		manifests, err := Parse(file, data, filepath.Dir(file))
		if err != nil {
			faults = append(faults, err)
		} else if len(manifests) == 0 {
			d.fault(item, field, "%s holds no manifests: want %s documents", path, Kind)
		}
		all = append(all, manifests...)
	}
	return all, paths, faults
}

// contents reads the contents of the values.
func (d *decoder) contents(n *yaml.Node) (values []Value) {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, valuesField, "is %s, want contents by their keys, such as flags: {text: \"on\"}", describe(n))
		return nil
	}
	if count := len(n.Content) / 2; count > script.MaxChangeSetValues {
		d.fault(n, valuesField, "%d are too many: a change set has at most %d values", count, script.MaxChangeSetValues)
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field := valuesField + "." + key.Value
		if slices.ContainsFunc(values, func(v Value) bool { return v.Key == key.Value }) {
			d.fault(key, field, "is there twice: remove one")
			continue
		}
		if err := (script.ValueKey{Tenant: "t", Key: key.Value}).Validate(); err != nil {
			d.fault(key, valuesField, "%s", script.AsError(err).Message)
			continue
		}
		content, _ := d.content(n.Content[i+1], field)
		values = append(values, Value{Key: key.Value, Content: content})
	}
	return values
}

// content reads the content of one value.
func (d *decoder) content(n *yaml.Node, field string) (content []byte, ok bool) {
	fields, ok := d.object(n, field, valueFields)
	if !ok {
		return nil, false
	}
	if len(fields) != 1 {
		d.fault(n, field, "has %d contents: want one of file (a file beside the change set), text and json", len(fields))
		return nil, false
	}
	for name, value := range fields {
		at := field + "." + name
		if name == "json" {
			content = d.json(value, at)
			ok = content != nil
			break
		}
		text, isText := d.text(value, at)
		content, ok = []byte(text), isText
		if isText && name == "file" {
			content, ok = d.readBeside(value, at, text, "a file in the folder of the change set, or below it")
		}
	}
	if len(content) > script.MaxValueBytes {
		d.fault(n, field, "has %d bytes, at most %d are allowed", len(content), script.MaxValueBytes)
		return nil, false
	}
	return content, ok
}

// Validate checks what can be known without a registry: that all is of one tenant, that nothing is
// there twice, that no script is pinned, which plan holds, and the bounds. It returns an error that
// joins all faults.
func (c *ChangeSet) Validate() error {
	_, faults := dropDoubles(slices.Clone(c.Scripts))
	for i := range c.Scripts {
		m := &c.Scripts[i]
		if m.Name.Tenant != c.Tenant {
			faults = append(faults, m.faulty("spec.tenantId", "%s is not %s, the tenant of the change set: a transaction is for one tenant", m.Name.Tenant, c.Tenant))
		}
		if m.Pin != 0 {
			faults = append(faults, m.faulty("spec.version", "pins %s to version %d: leave it out, because the change set decides which version runs", m.Name, m.Pin))
		}
	}
	if n := len(c.Scripts); n > script.MaxChangeSetScripts {
		faults = append(faults, c.faulty(scriptsField, "%d are too many: a change set has at most %d scripts", n, script.MaxChangeSetScripts))
	}
	if n := len(c.Values); n > script.MaxChangeSetValues {
		faults = append(faults, c.faulty(valuesField, "%d are too many: a change set has at most %d values", n, script.MaxChangeSetValues))
	}
	if n := c.bytes(); n > script.MaxChangeSetBytes {
		faults = append(faults, c.faulty("spec", "has scripts and values of %d bytes together: a change set has at most %d (1 MiB): put large values by themselves, with scriptctl kv put", n, script.MaxChangeSetBytes))
	}
	return errors.Join(append(faults, c.validatePlan()...)...)
}

func (c *ChangeSet) bytes() (total int) {
	for i := range c.Scripts {
		total += len(c.Scripts[i].Source) + len(c.Scripts[i].Settings.Document())
	}
	for _, v := range c.Values {
		total += len(v.Content)
	}
	return total
}

func (c *ChangeSet) validatePlan() (faults []error) {
	if c.Rollout != nil {
		if len(c.Scripts) == 0 && len(c.Values) > 0 && !c.Rollout.IsZero() {
			faults = append(faults, c.faulty(rolloutField, "needs a script: without one, nothing tells whether the values work"))
		}
		return faults
	}
	var first *Manifest
	for i := range c.Scripts {
		switch m := &c.Scripts[i]; {
		case m.Settings.Rollout.IsZero():
		case first == nil:
			first = m
		case !m.Settings.Rollout.Equal(first.Settings.Rollout):
			faults = append(faults, m.faulty(rolloutField, "differs from the plan of %s (%s): a change set has one plan: give it one of its own, by spec.rollout or --rollout",
				first.Name, position(first.File, first.fields[rolloutField].line, 0)))
		}
	}
	return faults
}

// faulty returns the fault of a field of the manifest.
func (m *Manifest) faulty(field, format string, args ...any) *Error {
	at, ok := m.fields[field]
	if !ok {
		at = place{line: m.Line, column: 1}
	}
	return &Error{File: m.File, Line: at.line, Column: at.column, Field: field, Message: fmt.Sprintf(format, args...)}
}

// faulty returns the fault of a field of the document, or, without one, of all of it.
func (c *ChangeSet) faulty(field, format string, args ...any) error {
	if c.File == "" {
		name := strings.TrimPrefix(strings.TrimPrefix(field, "spec"), ".")
		return script.Errorf(script.Invalid, name, format, args...)
	}
	at, ok := c.fields[field]
	if !ok {
		at = place{line: c.Line, column: 1}
	}
	return &Error{File: c.File, Line: at.line, Column: at.column, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Locate returns err with its place, as Manifest.Locate does: in a manifest if the error begins with
// the name of its script, and else where the plan is.
func (c *ChangeSet) Locate(err error) error {
	e, ok := errors.AsType[*script.Error](err)
	if !ok {
		return err
	}
	for i := range c.Scripts {
		m := &c.Scripts[i]
		if message, ok := strings.CutPrefix(e.Message, m.Name.String()+": "); ok {
			of := *e
			of.Message = message
			return m.Locate(&of)
		}
	}
	if rest, ok := strings.CutPrefix(e.Field, "plan"); ok {
		return c.locatePlan(rolloutField+rest, e, err)
	}
	return err
}

// locatePlan returns err, which is about the field of the plan, with its place: in the document, or
// else in the first manifest that has a plan.
func (c *ChangeSet) locatePlan(field string, e *script.Error, err error) error {
	if at, ok := c.fields[field]; ok {
		return &Error{File: c.File, Line: at.line, Column: at.column, Field: field, Message: e.Message, Err: err}
	}
	for i := range c.Scripts {
		if m := &c.Scripts[i]; c.Rollout == nil && !m.Settings.Rollout.IsZero() {
			if at, ok := m.fields[field]; ok {
				return m.inField(at, field, e.Message, err)
			}
			return err
		}
	}
	return err
}

// LoadRollout reads a file that holds a plan: what spec.rollout of a manifest holds.
func LoadRollout(path string) (script.Plan, error) {
	data, err := ReadFile(path)
	if err != nil {
		return script.Plan{}, err
	}
	d, data, err := newDecoder(path, data, filepath.Dir(path))
	if err != nil {
		return script.Plan{}, err
	}
	n, err := d.onlyDocument(data, "rollout plan")
	if err != nil {
		return script.Plan{}, err
	}
	plan := d.rollout(n, "rollout")
	return plan, errors.Join(d.sorted()...)
}
