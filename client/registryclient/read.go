package registryclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Get returns the release of a script, and NotFound if there is none.
func (c *Client) Get(ctx context.Context, name script.Name) (script.Release, error) {
	resp, err := call(ctx, c, c.registry.Get, &registryv1.GetRequest{Tenant: name.Tenant, Name: name.Script})
	if err != nil {
		return script.Release{}, err
	}
	return toRelease(resp.GetRelease())
}

// Unreadable is the error for an object whose record the registry cannot read: what was
// live before stays live. It is one of many, and others follow.
type Unreadable struct {
	Key      string          // "releases/<tenant>/<name>", "values/<tenant>/<key>" or "tenants/<tenant>"
	Revision script.Revision // of the record
	Reason   string
}

func (u *Unreadable) Error() string {
	return fmt.Sprintf("the registry cannot read %s (revision %d): %s; run scriptctl doctor", u.Key, u.Revision, u.Reason)
}

func toUnreadable(messages []*registryv1.Unreadable) []Unreadable {
	list := make([]Unreadable, len(messages))
	for i, m := range messages {
		list[i] = Unreadable{Key: m.GetKey(), Revision: script.Revision(m.GetRevision()), Reason: m.GetReason()}
	}
	return list
}

// List yields the releases of a tenant, or of all if it is empty, in the order of
// the text "tenant/name". It asks for them page by page as they are consumed. An
// *Unreadable stands for one script, and others follow; any other error ends the sequence.
func (c *Client) List(ctx context.Context, tenant string) iter.Seq2[script.Release, error] {
	return func(yield func(script.Release, error) bool) {
		req := &registryv1.ListRequest{Tenant: tenant}
		for {
			resp, err := call(ctx, c, c.registry.List, req)
			if err != nil {
				yield(script.Release{}, err)
				return
			}
			lost := toUnreadable(resp.GetUnreadable())
			for _, m := range resp.GetReleases() {
				release, err := toRelease(m)
				for len(lost) > 0 && err == nil && lost[0].Key < wire.ReleaseKey(release.Name) {
					if !yield(script.Release{}, &lost[0]) {
						return
					}
					lost = lost[1:]
				}
				if !yield(release, err) || err != nil {
					return
				}
			}
			for i := range lost {
				if !yield(script.Release{}, &lost[i]) {
					return
				}
			}
			if resp.GetNextPageToken() == "" {
				return
			}
			req.PageToken = resp.GetNextPageToken()
		}
	}
}

// Source returns a version and what it is made of; without a version in ref, the
// active one.
func (c *Client) Source(ctx context.Context, ref script.Ref) (script.Edition, error) {
	resp, err := call(ctx, c, c.registry.GetSource, &registryv1.GetSourceRequest{
		Tenant: ref.Name.Tenant, Name: ref.Name.Script, Version: ref.Version,
	})
	if err != nil {
		return script.Edition{}, err
	}
	version, err := wire.ToVersion(resp.GetVersion())
	if err != nil {
		return script.Edition{}, malformed(err)
	}
	settings, err := wire.ToSettings(resp.GetSettings())
	if err != nil {
		return script.Edition{}, malformed(err)
	}
	return script.Edition{Version: version, Spec: settings.Spec, Source: resp.GetSource()}, nil
}

// History returns the changes of a script, newest first.
func (c *Client) History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error) {
	resp, err := call(ctx, c, c.registry.History, &registryv1.HistoryRequest{Tenant: name.Tenant, Name: name.Script})
	if err != nil {
		return nil, err
	}
	entries := make([]script.HistoryEntry, 0, len(resp.GetEntries()))
	for _, m := range resp.GetEntries() {
		e, err := wire.ToHistoryEntry(m)
		if err != nil {
			return nil, malformed(err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// WatchStatus yields the status of the selected scripts at once and then at
// each change, at most fifty times a second, until ctx is done, the caller breaks
// off, or an error (yielded last) ends it: Unavailable when the registry goes
// away, and Timeout, with the context's cause, when ctx is done. Only ctx bounds
// it.
func (c *Client) WatchStatus(ctx context.Context, selected script.Name) iter.Seq2[FleetStatus, error] {
	return func(yield func(FleetStatus, error) bool) {
		req := &registryv1.WatchStatusRequest{Tenant: selected.Tenant, Name: selected.Script}
		for change, err := range c.watchStatus(ctx, req) {
			if !yield(change.FleetStatus, err) {
				return
			}
		}
	}
}

// StatusChange is what has changed of the status of the selected scripts.
type StatusChange struct {
	// FleetStatus has the scripts that changed, or all of them if Full.
	FleetStatus
	Full bool
	Gone []script.Name // that were deleted
}

// WatchChanges is WatchStatus that yields all of the selected scripts once, and then those
// alone whose status changed. Whoever watches many scripts wants this one. A registry that
// is older than it sends them all each time: every change is Full then.
func (c *Client) WatchChanges(ctx context.Context, selected script.Name) iter.Seq2[StatusChange, error] {
	return c.watchStatus(ctx, &registryv1.WatchStatusRequest{Tenant: selected.Tenant, Name: selected.Script, Changes: true})
}

func (c *Client) watchStatus(ctx context.Context, req *registryv1.WatchStatusRequest) iter.Seq2[StatusChange, error] {
	return func(yield func(StatusChange, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.registry.WatchStatus(ctx, req)
		if err != nil {
			yield(StatusChange{}, c.fault(ctx, err))
			return
		}
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				yield(StatusChange{}, script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", c.target))
				return
			}
			if err != nil {
				yield(StatusChange{}, c.fault(ctx, err))
				return
			}
			change, err := toStatusChange(resp)
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

func toStatusChange(m *registryv1.WatchStatusResponse) (StatusChange, error) {
	fleet, err := toFleetStatus(m.GetStatus())
	if err != nil {
		return StatusChange{}, err
	}
	change := StatusChange{FleetStatus: fleet, Full: !m.GetChanges()}
	for _, text := range m.GetGone() {
		name, err := script.ParseName(text)
		if err != nil {
			return StatusChange{}, malformed(err)
		}
		change.Gone = append(change.Gone, name)
	}
	return change, nil
}
