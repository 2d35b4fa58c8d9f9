package script

import "slices"

// MaxAfter is how many scripts a plan waits for at most.
const MaxAfter = 10

// validateAfter looks at the names of the scripts that candidates wait for.
func (p Plan) validateAfter(field string) error {
	if len(p.After) > MaxAfter {
		return Errorf(Invalid, field, "%d scripts are too many: at most %d are allowed", len(p.After), MaxAfter)
	}
	for i, name := range p.After {
		if err := name.Validate(); err != nil {
			return Errorf(Invalid, elementOf(field, i), "%s is not a script's name: want tenant/name", quote(name.String()))
		}
		if slices.Contains(p.After[:i], name) {
			return Errorf(Invalid, elementOf(field, i), "%s is there twice", name)
		}
	}
	return nil
}

// ValidateAfter returns an Invalid error for a plan of the script that waits for the script itself,
// or for one of another tenant; field is the path of the plan.
func (p Plan) ValidateAfter(field string, of Name) error {
	for i, name := range p.After {
		switch at := elementOf(field+".after", i); {
		case name == of:
			return Errorf(Invalid, at, "%s cannot wait for itself", of)
		case name.Tenant != of.Tenant:
			return Errorf(Invalid, at, "%s is of another tenant: a script waits for scripts of its own tenant, %s", name, of.Tenant)
		}
	}
	return nil
}
