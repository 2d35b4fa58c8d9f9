package registry

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fetched is publication, for a request whose source may have to be fetched. Nothing is fetched for a caller who
// cannot publish.
func (r *Registry) fetched(ctx context.Context, req PublishRequest) (publication, error) {
	if req.Settings == nil || req.Settings.Artifact == "" {
		return r.publication(req)
	}
	const field = "settings.artifact"
	reference := req.Settings.Artifact
	if len(req.Source) > 0 {
		return publication{}, script.Errorf(script.Invalid, field, "there is a source as well: send one of the two")
	}
	if err := script.CheckArtifact(field, reference); err != nil {
		return publication{}, err
	}
	if err := req.By.Check(access.Publish, req.Name.Tenant); err != nil {
		return publication{}, err
	}
	if req.Engine == "" || req.Engine == script.EngineLua {
		return publication{}, script.Errorf(script.Invalid, field, "is for the runtimes %s and %s: send the source itself", script.EngineWasm, script.EngineRego)
	}
	if r.artifacts == nil {
		return publication{}, script.Errorf(script.Invalid, field, "this registry fetches no artifacts: start registryd with --artifact-registries, or send the source itself")
	}
	source, err := r.artifacts.Fetch(ctx, reference, req.Engine)
	if err != nil {
		return publication{}, err
	}
	req.Source = source
	return r.publication(req)
}
