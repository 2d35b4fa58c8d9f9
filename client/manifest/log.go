package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// log returns what n says of decisions; nil for nothing.
func (d *decoder) log(n *yaml.Node) *script.Decisions {
	if n == nil {
		return nil
	}
	fields, ok := d.object(n, "spec.log", []string{"decisions"})
	if !ok || fields["decisions"] == nil {
		return nil
	}
	return d.decisions(fields["decisions"], "spec.log.decisions")
}

func (d *decoder) decisions(n *yaml.Node, path string) *script.Decisions {
	fields, ok := d.object(n, path, []string{"sample", "errors", "mask", "fields"})
	if !ok {
		return nil
	}
	before := len(d.faults)
	places := map[string]*yaml.Node{path + ".sample": fields["sample"]}
	list := func(name string) (texts []string) {
		field := path + "." + name
		places[field] = fields[name]
		for i, item := range d.list(fields[name], field) {
			at := fmt.Sprintf("%s[%d]", field, i)
			places[at] = item
			text, _ := d.text(item, at)
			texts = append(texts, text)
		}
		return texts
	}
	decisions := &script.Decisions{
		Sample: d.share(fields["sample"], path+".sample"), Errors: d.boolean(fields["errors"], path+".errors", false),
		Mask: list("mask"), Fields: list("fields"),
	}
	if len(d.faults) > before {
		return decisions
	}
	if fault := script.AsError(decisions.Validate(path)); fault != nil {
		d.fault(places[fault.Field], fault.Field, "%s", fault.Message)
	}
	return decisions
}

// share returns a number from 0 to 1, and 0 for an absent n.
func (d *decoder) share(n *yaml.Node, field string) (share float64) {
	if n == nil {
		return 0
	}
	if !isScalar(n, "!!float") && !isScalar(n, "!!int") || n.Decode(&share) != nil {
		d.fault(n, field, "is %s, want a number from 0 to 1, such as 0.01", describe(n))
	}
	return share
}
