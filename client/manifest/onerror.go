package manifest

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

func (d *decoder) onError(n *yaml.Node) (e script.OnError) {
	if n == nil {
		return e
	}
	const path = "spec.onError"
	fields, ok := d.object(n, path, []string{"policy", "status", "body"})
	if !ok {
		return e
	}
	before := len(d.faults)
	if n := fields["policy"]; n != nil {
		if policy, ok := d.text(n, path+".policy"); ok {
			e.Policy = script.PolicyOf(policy)
		}
	}
	e.Status = d.onErrorStatus(fields["status"], path+".status")
	if n := fields["body"]; n != nil {
		e.Body, _ = d.text(n, path+".body")
	}
	if len(d.faults) > before {
		return e
	}
	if fault := script.AsError(e.Validate(path)); fault != nil {
		d.fault(fields[strings.TrimPrefix(fault.Field, path+".")], fault.Field, "%s", fault.Message)
	}
	return e
}

func (d *decoder) onErrorStatus(n *yaml.Node, field string) (status int) {
	if n == nil {
		return 0
	}
	if !isScalar(n, "!!int") || n.Decode(&status) != nil || status == 0 {
		d.fault(n, field, "is %s, want a status from %d to %d", describe(n), script.MinOnErrorStatus, script.MaxOnErrorStatus)
	}
	return status
}
