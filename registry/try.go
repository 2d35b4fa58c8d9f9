package registry

import (
	"cmp"
	"context"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TryRequest asks for a script that is not published to be run on an agent. Nothing of it is stored.
type TryRequest struct {
	Name       script.Name
	By         access.Identity
	Source     []byte // nil if Settings have an Artifact
	Engine     string // the registry's default if empty
	Entrypoint string
	Settings   *script.Settings // nil for the defaults
}

// Draft is a script that can be published, and is not: with the settings in their normal form, the libraries that it requires,
// and its source.
type Draft struct {
	Name     script.Name
	Version  script.Version // without a number
	Settings script.Settings
	Source   []byte
}

// Draft validates and compiles what a TryRequest has, as Publish does. It needs the role publish: who tries a script reads the
// tenant's values with it, which the role read allows, and uses its turns on an agent. An error of the script, of its
// settings or of what it requires comes as refused; a draft is nil then.
func (r *Registry) Draft(ctx context.Context, req TryRequest) (d *Draft, refused, err error) {
	if err := req.By.Check(access.Publish, req.Name.Tenant); err != nil {
		return nil, nil, err
	}
	settings := script.Settings{}
	if req.Settings != nil {
		settings = *req.Settings
	}
	publish := PublishRequest{
		Write:  Write{Name: req.Name, Author: cmp.Or(req.By.Name, "somebody"), By: req.By},
		Source: req.Source, Engine: req.Engine, Entrypoint: req.Entrypoint, Settings: &settings,
	}
	d, err = r.draft(ctx, publish)
	switch script.KindOf(err) {
	case script.Script, script.Limit, script.Invalid, script.NotFound:
		return nil, err, nil
	}
	return d, nil, err
}

func (r *Registry) draft(ctx context.Context, req PublishRequest) (*Draft, error) {
	p, err := r.fetched(ctx, req)
	if err != nil {
		return nil, err
	}
	if p.settings.Library {
		return nil, script.IsLibrary(req.Name)
	}
	if err := validateSourceLimit(p.version.Engine, p.source, p.settings.Limits); err != nil {
		return nil, err
	}
	if err := r.check(p.version, p.source, p.settings.Spec); err != nil {
		return nil, err
	}
	if err := r.resolve(ctx, req.Write, &p, nil); err != nil {
		return nil, err
	}
	settings := *p.settings
	settings.Spec = p.withLibraries(settings.Spec)
	return &Draft{Name: req.Name, Version: p.version, Settings: settings, Source: p.source}, nil
}

// NoteTry has the audit trail say who runs which source on which agent.
func (r *Registry) NoteTry(ctx context.Context, by access.Identity, d *Draft, agent string) error {
	if err := by.Check(access.Publish, d.Name.Tenant); err != nil {
		return err
	}
	return r.store.AddAudit(ctx, script.AuditEntry{
		Time: r.now(), Change: script.ChangeTry, Name: d.Name, Digest: d.Version.Digest, Identity: by.Name, Peer: by.Peer,
		Note: fmt.Sprintf("on agent %.253s", agent),
	})
}
