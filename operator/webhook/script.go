package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/script"
)

// scripts validates the objects of one kind, which have the type T.
type scripts[T client.Object] struct {
	validator
	kind kinds.Kind
}

// ValidateCreate validates a new object.
func (s *scripts[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	return s.validate(ctx, s.kind, nil, kinds.Of(o))
}

// ValidateUpdate validates an object whose spec is another one now.
func (s *scripts[T]) ValidateUpdate(ctx context.Context, old, o T) (admission.Warnings, error) {
	before, ls := kinds.Of(old), kinds.Of(o)
	if !ls.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(before.Spec, ls.Spec) {
		return nil, nil
	}
	return s.validate(ctx, s.kind, before, ls)
}

// ValidateDelete lets everything go.
func (*scripts[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// validator is what looks at the objects of both kinds.
type validator struct {
	checkers map[string]engine.Checker
	advise   func(engine.Source) []*script.Error // of Lua; nil: there is no advice
	cached   client.Reader
	direct   client.Reader // asks the API server
	// turns bounds how many scripts are compiled at once: each may take a multiple of
	// its size of memory.
	turns chan struct{}
}

// validate validates ls, which was before once, if that is not nil.
func (v *validator) validate(ctx context.Context, kind kinds.Kind, before, ls *v1alpha1.LuaScript) (admission.Warnings, error) {
	c, err := v.compile(ctx, kind, ls)
	if err != nil {
		return nil, err
	}
	faults := c.faults
	tenant, denied, err := v.tenant(ctx, ls)
	var warnings admission.Warnings
	switch {
	case err != nil:
		warnings = append(warnings, fmt.Sprintf("spec.tenantId: could not be checked, the %s's conditions will say: %v", kind, err))
	case denied != nil:
		faults = append(spec.Faults{denied}, faults...)
	default:
		above, cut := aboveCeiling(tenant, &c.wanted, kind, before)
		faults, warnings = append(faults, above...), append(warnings, cut...)
	}
	missing, doubtful := checkPin(kind, before, ls, &c.wanted)
	if missing != nil {
		faults = append(faults, missing)
	}
	if len(faults) > 0 {
		return warnings, refusal(string(kind), ls.Name, faults)
	}
	if before == nil {
		warnings = append(warnings, v.rivals(ctx, kind, ls)...)
	}
	warnings = append(append(append(warnings, c.advice...), doubtful...), warnOfRollout(&c.wanted.Settings)...)
	return append(warnings, warnOfPin(kind, before, ls)...), nil
}

// advice warns of what in the source is probably not meant.
func (v *validator) advice(w *spec.Wanted) (warnings admission.Warnings) {
	if v.advise == nil || w.Engine != script.EngineLua {
		return nil
	}
	const most = 5
	advice := v.advise(engine.Source{Code: w.Source, Entrypoint: w.Entrypoint})
	for _, e := range advice[:min(most, len(advice))] {
		warnings = append(warnings, w.SourceField+": "+spec.Words(e))
	}
	if more := len(advice) - most; more > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: and %d more like these", w.SourceField, more))
	}
	return warnings
}

// compiled is what a spec comes to by itself.
type compiled struct {
	wanted spec.Wanted
	faults spec.Faults
	advice admission.Warnings // if there are no faults
}

// compile looks at the spec itself. All that reads the source is done in one turn.
func (v *validator) compile(ctx context.Context, kind kinds.Kind, ls *v1alpha1.LuaScript) (c compiled, err error) {
	select {
	case v.turns <- struct{}{}:
		defer func() { <-v.turns }()
	case <-ctx.Done():
		return c, ctx.Err()
	}
	var ok bool
	c.wanted, err = spec.Check(v.checkers, kind, ls)
	if c.faults, ok = spec.AllFaults(err); !ok {
		return c, err
	}
	if len(c.faults) == 0 {
		c.advice = v.advice(&c.wanted)
	}
	return c, nil
}

// tenant returns the object's tenant, or why it may not be that. The cache may not
// have heard of a ScriptTenant, or of a namespace, that was applied along with the
// object: a refusal comes from the API server alone.
func (v *validator) tenant(ctx context.Context, ls *v1alpha1.LuaScript) (t *v1alpha1.ScriptTenant, denied *script.Error, err error) {
	for _, reader := range []client.Reader{v.cached, v.direct} {
		if t, err = tenancy.Find(ctx, reader, ls.Spec.TenantID, ls.Namespace); err == nil {
			return t, nil, nil
		}
	}
	if script.KindOf(err) == script.Denied {
		return nil, script.AsError(err), nil
	}
	return nil, nil, err
}

// aboveCeiling returns what is more than the tenant may have, as far as it is new, and
// warns of what is not.
func aboveCeiling(t *v1alpha1.ScriptTenant, w *spec.Wanted, kind kinds.Kind, before *v1alpha1.LuaScript) (faults spec.Faults, warnings admission.Warnings) {
	settings, err := spec.TenantSettings(t)
	if err != nil {
		return nil, nil //nolint:nilerr // its own conditions say so
	}
	limits, source := w.AboveCeiling(settings.Limits)
	var was spec.Wanted
	if before != nil {
		was, _ = spec.From(kind, before) // what can be read of it
	}
	if before == nil || was.Settings.Limits != w.Settings.Limits {
		faults = append(faults, limits...)
	} else {
		for _, fault := range limits {
			warnings = append(warnings, fmt.Sprintf("%s: %s; agents cut it down to that", fault.Field, fault.Message))
		}
	}
	if before == nil || string(was.Source) != string(w.Source) {
		faults = append(faults, source...)
	}
	return faults, warnings
}

// scriptIndex is the index of objects by the scripts that they are.
const scriptIndex = "script"

func scriptKey(ls *v1alpha1.LuaScript) string {
	return script.Name{Tenant: ls.Spec.TenantID, Script: ls.Name}.String()
}

// rivals warns of objects in other namespaces, or of the other kind, that are the same script: one of
// them alone can be. Which one it is the registry decides.
func (v *validator) rivals(ctx context.Context, kind kinds.Kind, ls *v1alpha1.LuaScript) admission.Warnings {
	for _, other := range kinds.All() {
		list, err := other.List(ctx, v.cached, client.MatchingFields{scriptIndex: scriptKey(ls)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			continue
		}
		for _, rival := range list {
			if other != kind || rival.Namespace != ls.Namespace {
				return admission.Warnings{fmt.Sprintf("metadata.name: %s: the one that was published first owns it, and the other one will stay Stalled",
					spec.Rival(other.Owner(rival.Namespace, rival.Name), script.Name{Tenant: ls.Spec.TenantID, Script: ls.Name}))}
			}
		}
	}
	return nil
}
