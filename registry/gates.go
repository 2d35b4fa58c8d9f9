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
	if a.change != script.ChangePublish || !d.changed || d.commit.Publish == nil && cur.Settings.Rollout.Equal(next.Settings.Rollout) {
		return nil
	}
	return r.checkGates("settings.rollout", a.Name.Tenant, next.Settings.Rollout)
}

// checkGates returns an Invalid error for the first gate of the plan that the tenant may not ask. field is the
// path of the plan.
func (r *Registry) checkGates(field, tenant string, plan script.Plan) error {
	for i, step := range plan.Steps {
		if step.Gate.IsZero() {
			continue
		}
		if err := r.gates.Check(fmt.Sprintf("%s.steps[%d].gate", field, i), tenant, step.Gate); err != nil {
			return err
		}
	}
	return nil
}
