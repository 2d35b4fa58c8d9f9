package registry

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Get returns one live release.
func (r *Registry) Get(ctx context.Context, name script.Name) (script.Release, error) {
	if err := name.Validate(); err != nil {
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

// pageBytes bounds a page, so that its message stays below what gRPC clients
// accept by default (4 MiB), however large the releases' configs are.
const pageBytes = 2 << 20

// List returns a page of live releases.
func (r *Registry) List(ctx context.Context, req ListRequest) (ListResult, error) {
	if req.Tenant != "" {
		if err := script.ValidateLabel("tenant", req.Tenant); err != nil {
			return ListResult{}, err
		}
	}
	if req.PageSize < 0 {
		return ListResult{}, script.Errorf(script.Invalid, "page_size", "%d is negative", req.PageSize)
	}
	var after script.Name
	if req.PageToken != "" {
		name, err := script.ParseName(req.PageToken)
		if err != nil || req.Tenant != "" && name.Tenant != req.Tenant {
			return ListResult{}, script.Errorf(script.Invalid, "page_token", "%.80q does not come from a page of this list", req.PageToken)
		}
		after = name
	}
	size := min(req.PageSize, MaxPageSize)
	if size == 0 {
		size = DefaultPageSize
	}
	releases, err := r.store.Releases(ctx, req.Tenant, after, size+1)
	if err != nil {
		return ListResult{}, err
	}
	page := releases[:min(size, fits(releases, pageBytes))]
	result := ListResult{Releases: page}
	if len(page) < len(releases) {
		result.NextPageToken = page[len(page)-1].Name.String()
	}
	return result, nil
}

// fits returns how many of the releases, at least one, have about that many bytes.
func fits(releases []script.Release, bytes int) int {
	const perRelease, perVersion = 512, 128
	for i := range releases {
		bytes -= perRelease + perVersion*len(releases[i].Retained) + len(releases[i].Settings.Config)
		if bytes < 0 {
			return max(i, 1)
		}
	}
	return len(releases)
}

// Source returns a retained version with its source; 0 means the active version.
func (r *Registry) Source(ctx context.Context, name script.Name, number uint64) (script.Version, []byte, error) {
	cur, err := r.Get(ctx, name)
	if err != nil {
		return script.Version{}, nil, err
	}
	if number == 0 {
		number = cur.Active.Number
	}
	if _, ok := cur.Retains(number); !ok {
		return script.Version{}, nil, notRetained("version", cur, number)
	}
	version, err := r.store.Version(ctx, name, number)
	if err != nil {
		return script.Version{}, nil, err
	}
	source, err := r.store.Source(ctx, version.Digest)
	if err != nil {
		return script.Version{}, nil, err
	}
	return version, source, nil
}

// History returns the last changes of a script, newest first, those before it
// was deleted included.
func (r *Registry) History(ctx context.Context, name script.Name) ([]script.HistoryEntry, error) {
	if err := name.Validate(); err != nil {
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

// Head returns the revision of the last change.
func (r *Registry) Head(ctx context.Context) (script.Revision, error) {
	return r.store.Head(ctx)
}

// Fleet returns the identity of the registry, and so of its fleet.
func (r *Registry) Fleet(ctx context.Context) (string, error) {
	return r.store.Fleet(ctx)
}

// Changes returns what became of the releases since the revision that a follower
// of the named fleet has. Revisions of two fleets cannot be compared: a follower
// of another fleet gets all there is.
func (r *Registry) Changes(ctx context.Context, fleet string, since script.Revision) (Changes, error) {
	if since < 0 {
		return Changes{}, script.Errorf(script.Invalid, "since", "%d is negative", since)
	}
	own, err := r.store.Fleet(ctx)
	if err != nil {
		return Changes{}, err
	}
	if fleet != own {
		since = 0
	}
	return r.store.Changes(ctx, since)
}

// Sources returns those of the sources that there are, in no particular order.
// The caller sees to it that they fit into memory together.
func (r *Registry) Sources(ctx context.Context, digests []script.Digest) ([]Source, error) {
	return r.store.Sources(ctx, digests)
}
