package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

const triggerField = "spec.trigger"

func (d *decoder) trigger(n *yaml.Node) (t script.Trigger) {
	if n == nil {
		return t
	}
	fields, ok := d.object(n, triggerField, []string{"event", "priority", "match"})
	if !ok {
		return t
	}
	before := len(d.faults)
	t.Event = d.label(n, fields["event"], triggerField+".event", "the event that runs the script, such as pre-route")
	t.Priority = d.priority(fields["priority"])
	places := map[string]*yaml.Node{triggerField: n, triggerField + ".priority": fields["priority"]}
	t.Match = d.match(fields["match"], triggerField+".match", places)
	if len(d.faults) > before {
		return t
	}
	if fault := script.AsError(t.Validate(triggerField)); fault != nil {
		at := places[fault.Field]
		if at == nil {
			at = n
		}
		d.fault(at, fault.Field, "%s", fault.Message)
	}
	return t
}

func (d *decoder) priority(n *yaml.Node) (priority int) {
	if n == nil {
		return 0
	}
	if !isScalar(n, "!!int") || n.Decode(&priority) != nil {
		d.fault(n, triggerField+".priority", "is %s, want a number from %d to %d", describe(n), -script.MaxPriority, script.MaxPriority)
	}
	return priority
}

// match notes the places of what it reads.
func (d *decoder) match(n *yaml.Node, path string, places map[string]*yaml.Node) (m script.Match) {
	if n == nil {
		return m
	}
	fields, ok := d.object(n, path, []string{"hosts", "pathPrefixes", "methods", "headers"})
	if !ok {
		return m
	}
	places[path] = n
	list := func(name string) (texts []string) {
		field := path + "." + name
		places[field] = fields[name]
		items := d.list(fields[name], field)
		if fields[name] != nil && len(items) == 0 {
			d.fault(fields[name], field, "has no entries: leave it out, so that it excludes nothing, or add one")
		}
		for i, item := range items {
			at := fmt.Sprintf("%s[%d]", field, i)
			places[at] = item
			text, _ := d.text(item, at)
			texts = append(texts, text)
		}
		return texts
	}
	m = script.Match{Hosts: list("hosts"), PathPrefixes: list("pathPrefixes"), Methods: list("methods")}
	headers, field := fields["headers"], path+".headers"
	m.Headers = d.texts(headers, field)
	if headers != nil && len(m.Headers) == 0 {
		d.fault(headers, field, "has no entries: leave it out, so that it excludes nothing, or add one")
	}
	places[field] = headers
	for name := range m.Headers {
		places[field+"."+name] = valueOf(headers, name)
	}
	return m
}
