package registryclient

import (
	"context"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSetWrite is what a write of a change set says of itself. It has no id: what is sent again
// finds the change set as it left it, and is no change then.
type ChangeSetWrite struct {
	Author string // who asks for it; required
	Note   string // why, for the histories of the scripts and values
	Owner  string // as in Write
	// Force goes past owners, as in Write. A rollback goes back also where somebody has changed
	// a script or a value since.
	Force bool
}

// ChangeSetRequest asks for versions of scripts and contents of values of one tenant to be one
// candidate, or to be live at once if there is nothing to test and no plan.
type ChangeSetRequest struct {
	Tenant, Name string
	// Scripts say what is published. Their Write, DryRun and LiftHold do not apply: those of the
	// change set do.
	Scripts []PublishRequest
	Values  []ValueContent
	// Plan of all of it. With nil the plan of the scripts counts: all that have one have the same.
	Plan   *script.Plan
	DryRun bool // check everything, store nothing
	// LiftHold lifts the holds of the scripts, if there are any, which needs the role release.
	LiftHold bool
	ChangeSetWrite
}

// ValueContent is the new content of a value.
type ValueContent struct {
	Key     string
	Content []byte
}

// ChangeSetResult is the answer to a write of a change set.
type ChangeSetResult struct {
	// Set has the scripts and values that differ from what is active. If nothing differs, it is the record
	// of the last change set of the name, or zero.
	Set      script.ChangeSet
	Releases []script.Release // in the order of the request, or of a rollback in the order of Set
	Changed  bool             // anything did; with DryRun, would have
	// Warnings are of what the registry took, and may not do what is expected.
	Warnings []string
}

// PublishChangeSet stores the scripts and values in one transaction. If one of them is refused,
// nothing is stored: an Error of a script names it at the start of its Message. It is Denied, with
// the Field script.FieldHold, if somebody holds one of the scripts, and LiftHold does not lift that.
func (c *Client) PublishChangeSet(ctx context.Context, p ChangeSetRequest) (ChangeSetResult, error) {
	req := &registryv1.PublishChangeSetRequest{
		Tenant: p.Tenant, Name: p.Name, Author: p.Author, Note: p.Note, Owner: p.Owner, Force: p.Force, DryRun: p.DryRun,
		LiftHold: p.LiftHold,
	}
	for i := range p.Scripts {
		req.Scripts = append(req.Scripts, fromPublish(&p.Scripts[i]))
	}
	for _, v := range p.Values {
		req.Values = append(req.Values, &registryv1.StagedContent{Key: v.Key, Content: v.Content})
	}
	if p.Plan != nil {
		req.Plan = wire.FromPlan(*p.Plan)
	}
	resp, err := call(ctx, c, c.registry.PublishChangeSet, req)
	if err != nil {
		return ChangeSetResult{}, err
	}
	result, err := toChangeSetResult(resp)
	result.Warnings = resp.GetWarnings()
	return result, err
}

// RollbackChangeSet returns to what was active before the change set: it gives one on trial up. Of
// one that is live, it holds the scripts at the versions before, disables those that were new, and
// gives the values the contents before. One that is over stays as it is.
func (c *Client) RollbackChangeSet(ctx context.Context, tenant, name string, w ChangeSetWrite) (ChangeSetResult, error) {
	resp, err := call(ctx, c, c.registry.RollbackChangeSet, &registryv1.RollbackChangeSetRequest{
		Tenant: tenant, Name: name, Author: w.Author, Note: w.Note, Owner: w.Owner, Force: w.Force,
	})
	if err != nil {
		return ChangeSetResult{}, err
	}
	return toChangeSetResult(resp)
}

// ChangeSet returns a change set with its state, and NotFound if there is none.
func (c *Client) ChangeSet(ctx context.Context, tenant, name string) (script.ChangeSet, error) {
	resp, err := call(ctx, c, c.registry.GetChangeSet, &registryv1.GetChangeSetRequest{Tenant: tenant, Name: name})
	if err != nil {
		return script.ChangeSet{}, err
	}
	return toChangeSet(resp.GetChangeSet())
}

// ChangeSets returns those of the tenant in the order of their names, and the names of those whose
// records the registry cannot read.
func (c *Client) ChangeSets(ctx context.Context, tenant string) (sets []script.ChangeSet, unreadable []string, err error) {
	resp, err := call(ctx, c, c.registry.ListChangeSets, &registryv1.ListChangeSetsRequest{Tenant: tenant})
	if err != nil {
		return nil, nil, err
	}
	for _, m := range resp.GetChangeSets() {
		set, err := toChangeSet(m)
		if err != nil {
			return nil, nil, err
		}
		sets = append(sets, set)
	}
	return sets, resp.GetUnreadable(), nil
}

// changeSetAnswer is what the answers to writes of change sets have in common.
type changeSetAnswer interface {
	GetChangeSet() *scriptv1.ChangeSet
	GetReleases() []*scriptv1.Release
	GetChanged() bool
}

func toChangeSetResult(resp changeSetAnswer) (result ChangeSetResult, err error) {
	result.Changed = resp.GetChanged()
	if m := resp.GetChangeSet(); m != nil {
		if result.Set, err = toChangeSet(m); err != nil {
			return ChangeSetResult{}, err
		}
	}
	for _, m := range resp.GetReleases() {
		release, err := toRelease(m)
		if err != nil {
			return ChangeSetResult{}, err
		}
		result.Releases = append(result.Releases, release)
	}
	return result, nil
}

func toChangeSet(m *scriptv1.ChangeSet) (script.ChangeSet, error) {
	set, err := wire.ToChangeSet(m)
	if err != nil {
		return script.ChangeSet{}, malformed(err)
	}
	return set, nil
}
