package registry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// choosePlan takes the plan of the request, or else the plan of the scripts: all that have one must have the
// same. A script without settings in the request has the plan of its release. Before the releases are known
// they are nil.
func (w *changeSetWrite) choosePlan(releases []script.Release) error {
	w.plan = script.Plan{}
	if w.req.Plan != nil {
		w.plan = *w.req.Plan
	} else {
		of := ""
		for i, p := range w.publications {
			var plan script.Plan
			switch {
			case p.settings != nil:
				plan = p.settings.Rollout
			case releases != nil && live(releases[i]):
				plan = releases[i].Settings.Rollout
			}
			switch {
			case plan.IsZero():
			case of == "":
				of, w.plan = w.req.Scripts[i].Name.String(), plan
			case !w.plan.Equal(plan):
				return script.Errorf(script.Invalid, "plan", "%s and %s have different rollout plans: a change set has one, so give it a plan of its own", of, w.req.Scripts[i].Name)
			}
		}
	}
	return w.validatePlan()
}

func (w *changeSetWrite) validatePlan() error {
	if len(w.plan.Steps) == 0 {
		w.plan.Steps = nil
	}
	if err := w.plan.Validate("plan"); err != nil {
		return err
	}
	if len(w.req.Scripts) == 0 && !w.plan.IsZero() {
		return script.Errorf(script.Invalid, "plan", "needs a script: without one, nothing tells whether the values work")
	}
	for i := range w.req.Scripts {
		if err := w.plan.ValidateAfter("plan", w.req.Scripts[i].Name); err != nil {
			return err
		}
	}
	return w.checkGates("plan", w.req.Tenant, w.plan)
}

// lookUp reads the record, which is replaced if it cannot be read. For a new one it finds an old record that
// makes room, if the tenant has too many.
func (w *changeSetWrite) lookUp(ctx context.Context) (err error) {
	w.drop = nil
	w.before, err = w.store.ChangeSet(ctx, w.req.Tenant, w.req.Name)
	if u, ok := errors.AsType[*Unreadable](err); ok {
		w.before = script.ChangeSet{Revision: u.Revision, Attempt: uint64(u.Revision)} // later than any that it was of
		return nil
	}
	if script.KindOf(err) != script.NotFound {
		return err
	}
	w.before = script.ChangeSet{}
	all, _, err := w.store.ChangeSets(ctx, w.req.Tenant)
	if err != nil || len(all) < script.MaxChangeSets {
		return err
	}
	slices.SortFunc(all, func(a, b script.ChangeSet) int { return a.ChangedAt.Compare(b.ChangedAt) })
	for _, set := range all {
		if set, err = w.asItIs(ctx, set); err != nil {
			return err
		}
		if set.State != script.ChangeSetOnTrial {
			w.drop = &set
			return nil
		}
	}
	return overQuota(script.Limit, "name", quotaUse{quotaChangeSets, int64(len(all)), script.MaxChangeSets}, "the tenant %s has %d change sets on trial: promote, abort or roll back some first", w.req.Tenant, len(all))
}

// mayReplace refuses to replace the record of a change set that is on trial with other scripts, because
// nobody could roll that one back. If the two share a script, the registry gives the rest of it up.
func (w *changeSetWrite) mayReplace(ctx context.Context) error {
	if w.before.State != script.ChangeSetOnTrial {
		return nil
	}
	for i, p := range w.req.Scripts {
		has := func(c script.ChangedScript) bool { return c.Name == p.Name.Script }
		if w.members[i] && slices.ContainsFunc(w.before.Scripts, has) {
			return nil
		}
	}
	set, err := w.asItIs(ctx, w.before)
	if err != nil || set.State != script.ChangeSetOnTrial {
		return err
	}
	names := make([]string, len(set.Scripts))
	for i, name := range set.ScriptNames() {
		names[i] = name.String()
	}
	return script.Errorf(script.Conflict, "name", "the change set %s is on trial with other scripts (%s): roll it back first, or name this one otherwise", set.FullName(), strings.Join(names, ", "))
}

// choose finds out which scripts are part of the change set, and whether it is live at once. If values
// change, and there are tests or a plan, all scripts prove themselves with the values. A script that does
// not differ gets a new version for that. One that the change set enables is part of it: it must not run before
// the others do.
func (w *changeSetWrite) choose(ctx context.Context, releases []script.Release, values bool) error {
	w.members, w.atOnce = make([]bool, len(releases)), true
	for i, cur := range releases {
		p := &w.publications[i]
		spec, err := p.spec(cur, w.specs(ctx))
		if err != nil {
			return err
		}
		newest, known := cur.Newest()
		p.anew = live(cur) && known && cur.Candidate == nil && !p.enables(cur) && cur.Active.Number == newest.Number && newest.SameVersion(p.version.With(spec))
		w.members[i] = !p.anew
		if w.members[i] || values {
			w.atOnce = w.atOnce && w.plan.IsZero() && len(spec.Tests) == 0
		}
	}
	for i := range w.members {
		w.members[i] = w.members[i] || values && !w.atOnce
		w.publications[i].anew = w.publications[i].anew && w.members[i]
	}
	return nil
}

// repeats reports whether an earlier, equal request made all candidates of the set, and they are on their
// way with the same staged values. If somebody has disabled a script since, the set begins anew and enables it.
func (w *changeSetWrite) repeats(releases []script.Release, set *script.Membership) bool {
	if set == nil || w.before.Fingerprint != w.fingerprint || w.before.State != script.ChangeSetOnTrial {
		return false
	}
	for i, cur := range releases {
		if !w.members[i] {
			continue
		}
		if !underway(cur) || !w.before.Has(cur.Candidate) || w.publications[i].enables(cur) {
			return false
		}
		for _, v := range set.Values {
			if staged, ok := cur.Candidate.Set.Staged(v.Key); !ok || staged != v {
				return false
			}
		}
	}
	return true
}
