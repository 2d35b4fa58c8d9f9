package registry

import (
	"context"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Get returns one live release.
func (r *Registry) Get(ctx context.Context, by access.Identity, name script.Name) (script.Release, error) {
	if err := mayRead(by, name); err != nil {
		return script.Release{}, err
	}
	cur, err := r.current(ctx, name)
	if err != nil {
		return script.Release{}, err
	}
	if err := mustLive(cur); err != nil {
		return script.Release{}, err
	}
	return cur, nil
}

func mayRead(by access.Identity, name script.Name) error {
	if err := name.Validate(); err != nil {
		return err
	}
	return by.Check(access.Read, name.Tenant)
}

// pageBytes bounds a page, so that its message stays below what gRPC clients
// accept by default (4 MiB), however large the releases' configs are.
const pageBytes = 2 << 20

// List returns a page of live releases: of the tenant that is asked for, or else of
// all that the caller may read.
func (r *Registry) List(ctx context.Context, req ListRequest) (ListResult, error) {
	if req.Tenant != "" {
		if err := script.ValidateLabel("tenant", req.Tenant); err != nil {
			return ListResult{}, err
		}
		if err := req.By.Check(access.Read, req.Tenant); err != nil {
			return ListResult{}, err
		}
	}
	size, err := pageSize(req.PageSize, DefaultPageSize)
	if err != nil {
		return ListResult{}, err
	}
	var after script.Name
	if req.PageToken != "" {
		name, err := script.ParseName(req.PageToken)
		if err != nil || req.Tenant != "" && name.Tenant != req.Tenant {
			return ListResult{}, script.Errorf(script.Invalid, "page_token", "%.80q does not come from a page of this list", req.PageToken)
		}
		after = name
	}
	releases, unreadable, err := r.readable(ctx, req, after, size+1)
	if err != nil {
		return ListResult{}, err
	}
	page := releases[:min(size, fits(releases, pageBytes))]
	result := ListResult{Releases: page, Unreadable: unreadable}
	if len(page) < len(releases) {
		last := script.Object{Release: &page[len(page)-1]}
		result.NextPageToken = last.Release.Name.String()
		result.Unreadable = UpTo(unreadable, last)
	}
	return result, nil
}

func pageSize(asked, otherwise int) (int, error) {
	if asked < 0 {
		return 0, script.Errorf(script.Invalid, "page_size", "%d is negative", asked)
	}
	if asked == 0 {
		return otherwise, nil
	}
	return min(asked, MaxPageSize), nil
}

// UpTo returns those of the unreadable objects that come before the last object of a page:
// the next page has the others.
func UpTo(unreadable []Unreadable, last script.Object) []Unreadable {
	for i, u := range unreadable {
		if u.Key > last.Key() {
			return unreadable[:i]
		}
	}
	return unreadable
}

// listStep is how many releases a list reads at once, of up to 128 KiB each.
const listStep = 50

// readable returns at most limit releases after the name that the caller may read, and the
// records between them that the store cannot read. It ends once they are more than fit into a page.
func (r *Registry) readable(ctx context.Context, req ListRequest, after script.Name, limit int) (found []script.Release, unreadable []Unreadable, err error) {
	for len(found) < limit && fits(found, pageBytes) == len(found) {
		want := min(limit-len(found), listStep)
		releases, lost, err := r.store.Releases(ctx, req.Tenant, after, want)
		if err != nil {
			return nil, nil, err
		}
		for _, u := range lost {
			if req.By.Allows(access.Read, u.TenantName()) {
				unreadable = append(unreadable, u)
			}
		}
		readable := true
		for _, release := range releases {
			after = release.Name
			readable = req.By.Allows(access.Read, after.Tenant)
			if readable {
				found = append(found, release)
			}
		}
		if len(releases) < want {
			break
		}
		if !readable { // nor is the rest of that tenant
			after.Script = afterAllScripts
		}
	}
	return found, unreadable, nil
}

// afterAllScripts comes after the label of any script, byte by byte.
const afterAllScripts = "~"

// fits returns how many of the releases, at least one, have about that many bytes.
func fits(releases []script.Release, bytes int) int {
	const perRelease, perVersion = 512, 128
	for i := range releases {
		bytes -= perRelease + perVersion*len(releases[i].Retained) + sizeOf(releases[i].Settings.Spec)
		if c := releases[i].Candidate; c != nil {
			bytes -= sizeOf(c.Spec)
		}
		for _, v := range releases[i].Retained {
			bytes -= len(v.Signature)
		}
		if bytes < 0 {
			return max(i, 1)
		}
	}
	return len(releases)
}

// sizeOf returns about how many bytes s takes.
func sizeOf(s script.Spec) int {
	n := len(s.Config) + len(s.OnError.Body) + s.Trigger.Match.Size() + s.Decisions.Size()
	for _, t := range s.Tests {
		n += len(t.Name) + len(t.Request) + len(t.Expect)
	}
	return n
}

// Source returns a retained version with its source; 0 means the active version.
func (r *Registry) Source(ctx context.Context, by access.Identity, name script.Name, number uint64) (script.Edition, error) {
	cur, err := r.Get(ctx, by, name)
	if err != nil {
		return script.Edition{}, err
	}
	if number == 0 {
		number = cur.Active.Number
	}
	cur, _ = recorded(cur)
	retained, ok := cur.Retains(number)
	if !ok {
		return script.Edition{}, notRetained("version", cur, number)
	}
	version, err := r.store.Version(ctx, name, number)
	if err != nil {
		return script.Edition{}, err
	}
	version.Spec, version.SpecSize = retained.Spec, retained.SpecSize // which an older record lacks
	spec, err := r.specs(ctx)(cur, version)
	if err != nil {
		return script.Edition{}, err
	}
	source, err := r.store.Source(ctx, version.Digest)
	if err != nil {
		return script.Edition{}, err
	}
	return script.Edition{Version: version, Spec: spec, Source: source}, nil
}

// History returns the last changes of a script, newest first, those before it
// was deleted included.
func (r *Registry) History(ctx context.Context, by access.Identity, name script.Name) ([]script.HistoryEntry, error) {
	if err := mayRead(by, name); err != nil {
		return nil, err
	}
	entries, err := r.store.History(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, mustLive(script.Release{Name: name})
	}
	return entries, nil
}

// Audit returns a page of the audit trail. It needs the role admin: of the tenant
// that is asked for, or of all.
func (r *Registry) Audit(ctx context.Context, req AuditRequest) (AuditResult, error) {
	if err := validateAuditFilter(req.AuditFilter); err != nil {
		return AuditResult{}, err
	}
	if err := mayAdminister(req.By, req.Tenant); err != nil {
		return AuditResult{}, err
	}
	size, err := pageSize(req.PageSize, DefaultAuditPageSize)
	if err != nil {
		return AuditResult{}, err
	}
	if len(req.PageToken) > maxTokenBytes || !utf8.ValidString(req.PageToken) {
		return AuditResult{}, script.Errorf(script.Invalid, "page_token", "%.80q does not come from a page of the audit trail", req.PageToken)
	}
	entries, token, err := r.store.Audit(ctx, req.AuditFilter, req.PageToken, size)
	if err != nil {
		return AuditResult{}, err
	}
	return AuditResult{Entries: entries, NextPageToken: token}, nil
}

const maxTokenBytes = 128

func validateAuditFilter(f AuditFilter) error {
	switch {
	case f.Tenant == "" && f.Script == "":
		return nil
	case f.Script == "":
		return script.ValidateLabel("tenant", f.Tenant)
	}
	return script.Name{Tenant: f.Tenant, Script: f.Script}.Validate()
}

// mayAdminister refuses who is not admin of the tenant, or of all if it is empty.
func mayAdminister(by access.Identity, tenant string) error {
	if tenant == "" {
		return by.CheckAll(access.Admin, script.Selector{})
	}
	return by.Check(access.Admin, tenant)
}

// mayAdministerAny refuses who is admin of no tenant at all.
func mayAdministerAny(by access.Identity) error {
	if by.AllowsAny(access.Admin) {
		return nil
	}
	return script.Errorf(script.Denied, "tenant", "%s has no role %s for any tenant: the registry's access policy grants it", by.Name, access.Admin)
}

// Head returns the revision of the last change.
func (r *Registry) Head(ctx context.Context) (script.Revision, error) {
	return r.store.Head(ctx)
}

// Fleet returns the identity of the registry, and so of its fleet.
func (r *Registry) Fleet(ctx context.Context) (string, error) {
	return r.store.Fleet(ctx)
}

// Sources returns those of the sources that there are, in no particular order; one that was
// collected lately may be among them. Nobody changes them. The caller sees to it that they
// fit into memory together.
func (r *Registry) Sources(ctx context.Context, digests []script.Digest) ([]Source, error) {
	return r.sources.get(ctx, digests)
}
