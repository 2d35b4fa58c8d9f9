package registry

import (
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Gates are the sources that the steps of plans may ask. A gate.Sources is.
type Gates interface {
	// Check returns an Invalid error that names the field unless the tenant may ask the gate.
	Check(field, tenant string, g script.Gate) error
}

// noGates are those of a registry that has none.
type noGates struct{}

func (noGates) Check(field, tenant string, g script.Gate) error {
	return script.Errorf(script.Invalid, field, "the registry has no gate %s for tenant %s: it has no gates at all", g, tenant)
}

// gated refuses a publish whose plan asks what the registry does not have: its candidate would wait
// for ever. A plan that is there already is not looked at until it is for another version.
func (r *Registry) gated(a writeRequest, cur script.Release, d decision) error {
	next := &d.commit.Release
	if a.change != script.ChangePublish || !d.changed || d.commit.Publish == nil && cur.Plan().Equal(*next.Plan()) {
		return nil
	}
	for i, step := range next.Plan().Steps {
		if step.Gate.IsZero() {
			continue
		}
		if err := r.gates.Check(fmt.Sprintf("settings.rollout.steps[%d].gate", i), a.Name.Tenant, step.Gate); err != nil {
			return err
		}
	}
	return nil
}
