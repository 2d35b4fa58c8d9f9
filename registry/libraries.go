package registry

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// libraryTries bounds how often the libraries of a publish are read anew because one of them was published meanwhile.
const libraryTries = 5

// resolve finds the libraries that the publication requires: of each the active version, all as they were at one
// moment. beside returns a library that is published in the same transaction; nil if there is none.
func (r *Registry) resolve(ctx context.Context, w Write, p *publication, beside func(script.Name) (script.Library, bool)) error {
	if !w.By.Allows(access.Publish, w.Name.Tenant) && !w.By.Allows(access.Release, w.Name.Tenant) {
		return nil // the write is refused: nothing is compiled for it, and nothing is said of other scripts
	}
	checker, err := r.engine(p.version.Engine)
	if err != nil {
		return err
	}
	src := engine.Source{Code: p.source, Entrypoint: p.version.Entrypoint}
	for range libraryTries {
		seen := map[script.Name]script.Revision{}
		libraries, err := engine.Closure(checker, w.Name, src, func(name script.Name) (script.Library, error) {
			if beside != nil {
				if l, ok := beside(name); ok {
					return l, nil
				}
			}
			l, revision, err := r.library(ctx, name)
			seen[name] = revision
			return l, err
		})
		if err != nil {
			return ofSource(err)
		}
		p.libraries = libraries
		if len(seen) < 2 {
			return nil
		}
		if same, err := r.unchangedSince(ctx, seen); same || err != nil {
			return err
		}
	}
	return script.Errorf(script.Conflict, "source", "the libraries of %s were published again and again meanwhile: publish it again", w.Name)
}

// unchangedSince reports whether all releases still have these revisions.
func (r *Registry) unchangedSince(ctx context.Context, seen map[script.Name]script.Revision) (bool, error) {
	for name, revision := range seen {
		cur, err := r.current(ctx, name)
		if err != nil || cur.Revision != revision {
			return false, err
		}
	}
	return true, nil
}

// library returns the active version of a library, and the revision of its release.
func (r *Registry) library(ctx context.Context, name script.Name) (script.Library, script.Revision, error) {
	cur, err := r.current(ctx, name)
	if err != nil {
		return script.Library{}, 0, err
	}
	switch {
	case !live(cur):
		err = script.Errorf(script.NotFound, "source", "there is no library %s: publish it first", name)
	case !cur.Enabled:
		err = script.Errorf(script.NotFound, "source", "the library %s is disabled: enable it first (scriptctl enable %s)", name, name)
	case cur.Untried():
		err = script.Errorf(script.NotFound, "source", "the library %s has no active version yet: its first, %d, is a candidate (scriptctl rollout status %s)", name, cur.Active.Number, name)
	case !cur.Settings.Library:
		err = script.Errorf(script.NotFound, "source", "%s is no library: set spec.library to true in its manifest, and publish it", name)
	}
	if err != nil {
		return script.Library{}, 0, err
	}
	found, err := r.sources.get(ctx, []script.Digest{cur.Active.Digest})
	if err != nil {
		return script.Library{}, 0, err
	}
	if len(found) == 0 {
		return script.Library{}, 0, script.Errorf(script.Internal, "source", "the source of the library %s is lost (%s): run scriptctl doctor, or publish it again", name, cur.Active.Digest.Short())
	}
	source := string(found[0].Content)
	return script.Library{Name: name, Version: cur.Active.Number, Digest: cur.Active.Digest, Source: script.InternSource(source)}, cur.Revision, nil
}

// ofSource returns an error of the compiler as one of the field source.
func ofSource(err error) error {
	e := *script.AsError(err)
	if e.Field == "" && e.Kind != script.Unavailable && e.Kind != script.Internal {
		e.Field = "source"
	}
	return &e
}

// besides returns the library of the change set that is published as the script with the name.
func (w *changeSetWrite) besides(releases []script.Release) func(script.Name) (script.Library, bool) {
	return func(name script.Name) (script.Library, bool) {
		for i, p := range w.publications {
			if w.req.Scripts[i].Name != name || p.settings == nil || !p.settings.Library {
				continue
			}
			number := releases[i].Latest + 1
			if newest, ok := releases[i].Newest(); ok && newest.SameVersion(p.version.With(p.settings.Spec)) {
				number = newest.Number
			}
			return script.Library{Name: name, Version: number, Digest: p.version.Digest, Source: script.InternSource(string(p.source))}, true
		}
		return script.Library{}, false
	}
}

// resolveAll is resolve for all scripts of the change set.
func (w *changeSetWrite) resolveAll(ctx context.Context, releases []script.Release) error {
	for i := range w.publications {
		p, req := &w.publications[i], &w.req.Scripts[i]
		err := w.resolve(ctx, req.Write, p, w.besides(releases))
		if err == nil {
			err = p.covered(req.Name)
		}
		if err != nil {
			return ofMember(req.Name.String(), err)
		}
	}
	return nil
}
