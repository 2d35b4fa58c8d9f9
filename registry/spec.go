package registry

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/script"
)

// specs returns what the version runs with that cur, in which all versions have the digest of
// that, retains.
type specs func(cur script.Release, v script.Version) (script.Spec, error)

func (r *Registry) specs(ctx context.Context) specs {
	return func(cur script.Release, v script.Version) (script.Spec, error) {
		switch {
		case v.Spec == cur.Active.Spec:
			return cur.Settings.Spec, nil
		case cur.Candidate != nil && v.Spec == cur.Candidate.Version.Spec:
			return cur.Candidate.Spec, nil
		}
		found, err := r.sources.get(ctx, []script.Digest{v.Spec})
		if err != nil {
			return script.Spec{}, err
		}
		if len(found) == 0 {
			return script.Spec{}, script.Errorf(script.Internal, "version",
				"the limits and the config of version %d of %s are lost (%s): run scriptctl doctor, or choose another version", v.Number, cur.Name, v.Spec.Short())
		}
		spec, err := script.ParseSpec(found[0].Content)
		if err != nil {
			return script.Spec{}, err
		}
		return normalizeSpec(spec)
	}
}

// recorded is cur with the digest of what each version runs with. Registries of before had
// one Spec for the whole script: then it is that of all versions, and the store has to be given
// it.
func recorded(cur script.Release) (_ script.Release, spec *script.Spec) {
	if cur.Deleted {
		return cur, nil
	}
	var with script.Version
	retained := make([]script.Version, len(cur.Retained))
	for i, v := range cur.Retained {
		if v.Spec.IsZero() {
			if spec == nil {
				spec = &cur.Settings.Spec
				with = with.With(*spec)
			}
			v.Spec, v.SpecSize = with.Spec, with.SpecSize
		}
		retained[i] = v
	}
	if spec == nil {
		return cur, nil
	}
	cur.Retained = retained
	if v, ok := cur.Retains(cur.Active.Number); ok {
		cur.Active.Spec, cur.Active.SpecSize = v.Spec, v.SpecSize
	}
	if c := cur.Candidate; c != nil {
		again := *c
		if v, ok := cur.Retains(c.Version.Number); ok {
			again.Version.Spec, again.Version.SpecSize = v.Spec, v.SpecSize
		}
		cur.Candidate = &again
	}
	return cur, spec
}

// documents are those of what the active versions and the candidates run with, which their
// releases say too, as far as they are among why.
func (d *doctor) documents(why map[script.Digest]string) map[script.Digest][]byte {
	found := map[script.Digest][]byte{}
	note := func(v script.Version, s script.Spec) {
		if _, ok := why[v.Spec]; !ok {
			return
		}
		if document := s.Document(); script.DigestOf(document) == v.Spec {
			found[v.Spec] = document
		}
	}
	for _, r := range d.releases {
		note(r.Active, r.Settings.Spec)
		if r.Candidate != nil {
			note(r.Candidate.Version, r.Candidate.Spec)
		}
	}
	return found
}
