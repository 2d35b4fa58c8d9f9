package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// madeTogether is a transaction of several objects.
type madeTogether struct {
	tenant   string
	revision script.Revision
	keys     []string
}

// CommitTogether implements registry.Store, as Commit does.
func (t *truth) CommitTogether(ctx context.Context, c registry.Together) (script.Revision, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	revision, err := t.Store.CommitTogether(ctx, c)
	if err != nil {
		return 0, err
	}
	made := madeTogether{revision: revision}
	for _, commit := range c.Releases {
		r := commit.Release
		r.Revision = revision
		t.remember(r, commit.Entry.Note)
		made.tenant, made.keys = r.Name.Tenant, append(made.keys, wire.ReleaseKey(r.Name))
	}
	for _, commit := range c.Values {
		v := commit.Value
		v.Revision = revision
		t.objects.remember(script.Object{Value: &v})
		made.tenant, made.keys = v.Key.Tenant, append(made.keys, script.Object{Value: &v}.Key())
	}
	t.together = append(t.together, made)
	if half := halfOf(&c); half != "" {
		t.halves = append(t.halves, fmt.Sprintf("revision %d has half of a change set: %s", revision, half))
	}
	return revision, nil
}

// halfOf says what a change set that goes live lacks, or what one that is given up changes.
func halfOf(c *registry.Together) string {
	if c.Set == nil {
		return ""
	}
	active := map[string]uint64{}
	for _, commit := range c.Releases {
		active[commit.Release.Name.Script] = commit.Release.Active.Number
	}
	digests := map[string]script.Digest{}
	for _, commit := range c.Values {
		digests[commit.Value.Key.Key] = commit.Value.Digest
	}
	switch c.Set.State {
	case script.ChangeSetFailed, script.ChangeSetOnTrial:
		if len(c.Values) > 0 {
			return fmt.Sprintf("%s is %s, with values", c.Set.Name, c.Set.State)
		}
	case script.ChangeSetLive:
		for _, s := range c.Set.Scripts {
			if active[s.Name] != s.Version {
				return fmt.Sprintf("%s runs version %d, not %d", s.Name, active[s.Name], s.Version)
			}
		}
		for _, v := range c.Set.Values {
			if digests[v.Key] != v.Digest && v.Version != 0 {
				return fmt.Sprintf("the value %s is not there", v.Key)
			}
		}
	}
	return ""
}

// checkHalves finds out whether the registries have committed half of a change set.
func (w *world) checkHalves() {
	w.truth.mu.Lock()
	halves := w.truth.halves
	w.truth.halves = nil
	w.truth.mu.Unlock()
	for _, half := range halves {
		w.violate("%s", half)
	}
}

// checkTogether finds out whether the agent has half of a transaction. What comes from its disk after
// a crash, and what has drifted, may be half.
func (a *agent) checkTogether(p *process) {
	a.w.truth.mu.Lock()
	all := slices.Clone(a.w.truth.together)
	a.w.truth.mu.Unlock()
	for _, t := range all {
		if !a.tenants.Matches(t.tenant) {
			continue
		}
		there, lacking := "", ""
		for _, key := range t.keys {
			switch last, at := a.lastOf(key), p.Revision(key); {
			case a.isDrifted(key) || p.loaded[key] == t.revision || a.w.isSpoiled(key):
			case at == t.revision:
				there = key
			case at < t.revision && last == t.revision && a.w.isLive(key):
				lacking = fmt.Sprintf("%s of revision %d", key, at)
			}
		}
		if there != "" && lacking != "" {
			a.w.violate("%s has %s of revision %d, and %s, which goes live with it", a.name, there, t.revision, lacking)
		}
	}
}

// lastOf returns the revision of the last commit of the object.
func (a *agent) lastOf(key string) script.Revision {
	if isRelease(key) {
		last, _ := a.w.truth.asOf(nameOf(key), 1<<62)
		return last.revision
	}
	last, _ := a.w.truth.objects.asOf(key, 1<<62)
	return last.Revision()
}

func (a *agent) isDrifted(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.drifted[nameOf(key)] && isRelease(key) || a.driftedKeys[key]
}

// isLive reports whether the object was not deleted.
func (w *world) isLive(key string) bool {
	if isRelease(key) {
		last, _ := w.truth.asOf(nameOf(key), 1<<62)
		return !last.release.Deleted
	}
	last, ok := w.truth.objects.asOf(key, 1<<62)
	return ok && !last.Deleted()
}

// isSpoiled reports whether the record of the release cannot be read.
func (w *world) isSpoiled(key string) bool {
	if !isRelease(key) {
		return false
	}
	_, err := w.truth.Release(context.Background(), nameOf(key))
	return err != nil
}

// isHeld reports whether the agent cannot make the object of the revision live, since its transaction
// has changed a script, too, that the agent cannot compile.
func (a *agent) isHeld(tenant string, revision script.Revision) bool {
	return a.w.holds(tenant, revision, a.isBad)
}

// isHeld reports whether no agent can make the release live, as far as that shows by what is active.
func (w *world) isHeld(r script.Release) bool {
	return w.holds(r.Name.Tenant, r.Revision, func(other script.Release) bool { return badDigests()[other.Active.Digest] })
}

func (w *world) holds(tenant string, revision script.Revision, isBad func(script.Release) bool) bool {
	for _, name := range w.truth.names() {
		if last, _ := w.truth.asOf(name, 1<<62); name.Tenant == tenant && last.revision == revision && isBad(last.release) {
			return true
		}
	}
	return false
}

// ChangeSet implements registry.Store.
func (l *storeLink) ChangeSet(ctx context.Context, tenant, name string) (script.ChangeSet, error) {
	if _, err := l.pass(ctx); err != nil {
		return script.ChangeSet{}, err
	}
	return l.Store.ChangeSet(ctx, tenant, name)
}

// CommitTogether implements registry.Store.
func (l *storeLink) CommitTogether(ctx context.Context, c registry.Together) (script.Revision, error) {
	lost, err := l.pass(ctx)
	if err != nil {
		return 0, err
	}
	revision, err := l.Store.CommitTogether(ctx, c)
	if lost {
		return 0, errNoStore
	}
	return revision, err
}

// performSet publishes a change set, or rolls one back. What is acknowledged must have happened.
func (w *world) performSet(st step) {
	r := rand.New(rand.NewPCG(st.seed, 8))
	tenant, name := tenants[r.IntN(len(tenants))], fmt.Sprintf("set-%d", r.IntN(2))
	ask, what := w.newSet(r, tenant, name), fmt.Sprintf("change set %s/%s", tenant, name)
	w.retry(st, r, what, func(ctx context.Context, rules *registry.Registry) error {
		result, err := ask(ctx, rules)
		if err != nil {
			return err
		}
		w.log("#%d writer: %s: %s at revision %d, changed %v", st.number, what, result.Set.State, result.Set.Revision, result.Changed)
		w.acknowledgedSet(&result)
		return nil
	})
}

func (w *world) acknowledgedSet(result *registry.ChangeSetResult) {
	if !result.Changed || result.Set.Revision == 0 {
		return
	}
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	if !slices.ContainsFunc(w.truth.together, func(t madeTogether) bool { return t.revision == result.Set.Revision }) {
		defer w.violate("the change set %s was acknowledged at revision %d, and did not happen", result.Set.Name, result.Set.Revision)
	}
}

// newSet returns a write of the change set, with both scripts and a value of the tenant.
func (w *world) newSet(r *rand.Rand, tenant, name string) func(context.Context, *registry.Registry) (registry.ChangeSetResult, error) {
	by := access.Everybody("sim")
	if r.IntN(5) == 0 {
		req := registry.ChangeSetRollback{Tenant: tenant, Name: name, Author: "writer", By: by, Force: r.IntN(2) == 0}
		return func(ctx context.Context, rules *registry.Registry) (registry.ChangeSetResult, error) {
			return rules.RollbackChangeSet(ctx, req)
		}
	}
	req := registry.ChangeSetRequest{Tenant: tenant, Name: name, Author: "writer", By: by, Plan: &script.Plan{}}
	if r.IntN(2) == 0 {
		req.Plan.Steps = []script.Step{{Percent: 10}, {Percent: 50}}
	}
	var settings script.Settings
	if r.IntN(3) == 0 {
		settings.Tests = []script.Test{{Name: "answers"}}
	}
	for _, s := range scripts {
		req.Scripts = append(req.Scripts, registry.PublishRequest{
			Write: registry.Write{Name: script.Name{Tenant: tenant, Script: s}}, Source: newSource(r), Entrypoint: registry.DefaultEntrypoint, Settings: &settings,
		})
	}
	content := fmt.Appendf(nil, "content %d", r.IntN(6))
	if r.IntN(4) == 0 { // it does not travel with the event
		content = append(content, make([]byte, 65<<10)...)
	}
	req.Values = []registry.StagedContent{{Key: valueKeys[r.IntN(len(valueKeys))], Content: content}}
	return func(ctx context.Context, rules *registry.Registry) (registry.ChangeSetResult, error) {
		again := req
		again.Scripts, again.Values = slices.Clone(req.Scripts), slices.Clone(req.Values)
		return rules.PublishChangeSet(ctx, again)
	}
}

// moveSet makes the next move of the change set that the candidate is part of; failed gives it up.
func (w *world) moveSet(ctx context.Context, rules *registry.Registry, cur script.Release, failed bool, threshold uint32) (registry.Move, error) {
	set := cur.Candidate.Set
	move := registry.Move{Promote: true}
	var members, stepping []script.Release
	for _, s := range set.Scripts {
		last, _ := w.truth.asOf(script.Name{Tenant: cur.Name.Tenant, Script: s}, 1<<62)
		members = append(members, last.release)
		if c := last.release.Candidate; c != nil && !last.release.Untried() && c.Step < len(set.Plan.Steps) {
			stepping, move = append(stepping, last.release), registry.Move{Step: c.Step + 1, Threshold: max(1, threshold)}
		}
	}
	if failed {
		move, stepping = registry.Move{Failed: "it is not wanted"}, nil
	}
	if len(stepping) > 0 {
		members = stepping
	}
	req := registry.AdvanceSetRequest{Tenant: cur.Name.Tenant, Set: set}
	for _, m := range members {
		req.Moves = append(req.Moves, registry.AdvanceRequest{Name: m.Name, At: m.Revision, Move: move})
	}
	return move, rules.AdvanceSet(ctx, req)
}
