package registry

import (
	"context"
	"sync"

	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Publish stores the source as a version, unless it equals the latest version,
// and applies the given settings, in one transaction. What does not compile is
// refused and nothing is stored.
func (r *Registry) Publish(ctx context.Context, req PublishRequest) (PublishResult, error) {
	p, err := r.fetched(ctx, req)
	if err != nil {
		r.onWrite(script.ChangePublish, outcomeOf(decision{}, req.DryRun, err))
		return PublishResult{}, err
	}
	// Not before the write is decided: one that is asked for again has its result, whatever became of the libraries.
	completed := sync.OnceValue(func() error { return r.completed(ctx, req, &p) })
	var once sync.Once
	var compiles error
	prepare := func(d *decision) error {
		if d.commit.Publish == nil {
			return r.complete(ctx, d)
		}
		once.Do(func() { compiles = r.check(p.version, p.source, *d.commit.Spec) })
		return compiles
	}
	d, err := r.write(ctx, writeRequest{
		Write: req.Write, change: script.ChangePublish, payload: p.payload(), dry: req.DryRun, prepare: prepare,
		decide: func(cur script.Release, at moment) (decision, error) {
			if err := completed(); err != nil {
				return decision{}, err
			}
			return decidePublish(cur, p, r.specs(ctx), req.Write, at)
		},
	})
	if err != nil {
		return PublishResult{}, err
	}
	result := PublishResult{Release: d.release, Version: d.version, Changed: d.changed, Libraries: p.libraries}
	if d.commit.Publish != nil {
		return result, nil
	}
	version, err := r.store.Version(ctx, req.Name, d.version.Number)
	switch script.KindOf(err) {
	case "":
		if v, ok := d.release.Retains(version.Number); ok {
			version.Spec, version.SpecSize = v.Spec, v.SpecSize // which an older record lacks
		}
		result.Version = version
	case script.NotFound, script.Internal: // dropped since: of a repeated request, maybe long ago; or it cannot be read
		result.Version = p.version
		result.Version.Number = d.version.Number
	default:
		return PublishResult{}, err
	}
	return result, nil
}

// complete adds to a version that is signed anew who made it and why, which a release does not
// say.
func (r *Registry) complete(ctx context.Context, d *decision) error {
	if d.commit.Signed == nil {
		return nil
	}
	version, err := r.store.Version(ctx, d.release.Name, d.commit.Signed.Number)
	switch script.KindOf(err) {
	case "":
		version.Signature, version.Spec, version.SpecSize = d.commit.Signed.Signature, d.commit.Signed.Spec, d.commit.Signed.SpecSize
		d.commit.Signed = &version
	case script.NotFound, script.Internal: // it cannot be read: what the release says of it is all there is
	default:
		return err
	}
	return nil
}

// publication validates all of req that can be judged without the release.
func (r *Registry) publication(req PublishRequest) (publication, error) {
	if err := req.validate(); err != nil {
		return publication{}, err
	}
	if req.Engine == "" {
		req.Engine = r.defaultEngine
	}
	if _, err := r.engine(req.Engine); err != nil {
		return publication{}, err
	}
	if err := script.CheckEntrypoint(req.Engine, req.Entrypoint); err != nil {
		return publication{}, err
	}
	if err := validateSource(req.Engine, req.Source); err != nil {
		return publication{}, err
	}
	p := publication{
		version: script.Version{
			Digest:     script.DigestOf(req.Source),
			Engine:     req.Engine,
			Entrypoint: req.Entrypoint,
			Size:       len(req.Source),
			Author:     req.attribution(),
			Note:       req.Note,
			Signature:  req.Signature,
		},
		source:  req.Source,
		enabled: req.Enabled,
		pin:     req.Pin,

		liftHold: req.LiftHold,
	}
	if req.Settings != nil {
		settings, err := normalizeSettings(*req.Settings, req.Name)
		if err != nil {
			return publication{}, err
		}
		settings.Libraries = nil // which are the registry's to find
		p.settings = &settings
		if settings.Library && req.Entrypoint == DefaultEntrypoint { // which is what a client sends that names none
			p.version.Entrypoint = ""
		}
		if err := settings.CheckLibrary("settings", "entrypoint", p.version.Entrypoint); err != nil {
			return publication{}, err
		}
		if err := settings.Personal.Validate("settings", req.Name, settings.Spec, r.now()); err != nil {
			return publication{}, err
		}
		if settings.Personal != nil && !settings.Rollout.IsZero() { // calls with the key would be those of a rollout by key
			return publication{}, script.Errorf(script.Invalid, "settings.rollout", "a personal version has none: calls with its key run it at once")
		}
	}
	return p, nil
}

// completed adds the libraries to the publication, and refuses a signature that is not of all of it.
func (r *Registry) completed(ctx context.Context, req PublishRequest, p *publication) error {
	if err := r.resolve(ctx, req.Write, p, nil); err != nil {
		return err
	}
	if err := r.checkPersonal(ctx, req.Write, p); err != nil {
		return err
	}
	return p.covered(req.Name)
}

// covered refuses a signature that is not of what is published.
func (p publication) covered(name script.Name) error {
	switch {
	case p.version.Signature == "":
		return nil
	case p.settings == nil:
		return script.Errorf(script.Invalid, "settings", "are missing: a signature covers them, so a signed publish states them")
	}
	return publisher.Covers(p.version.Signature, publisher.StatementOf(name, p.version, p.withLibraries(p.settings.Spec)))
}

// payload is what a publish asks for: the version, but for who made it and why.
func (p publication) payload() any {
	return struct {
		Digest             script.Digest
		Engine, Entrypoint string
		Settings           *script.Settings
		Enabled            *bool
		Pin                *uint64
		Signature          string `json:",omitempty"`
		LiftHold           bool   `json:",omitempty"`
	}{p.version.Digest, p.version.Engine, p.version.Entrypoint, p.settings, p.enabled, p.pin, p.version.Signature, p.liftHold}
}

// Pin makes a retained version active and holds the script there: publishing stores
// versions, and does not change what runs, until the hold is lifted.
func (r *Registry) Pin(ctx context.Context, req PinRequest) (Result, error) {
	change := script.ChangePin
	if req.Version == 0 {
		change = script.ChangeHold
	}
	return r.goBack(ctx, req.Write, change, req.Version, func(cur script.Release, at moment, _ past) (decision, error) {
		return decidePin(cur, req.Version, r.specs(ctx), req.Write, at)
	})
}

// LiftHold returns to what publishers declare: the version that they pin, or the latest.
func (r *Registry) LiftHold(ctx context.Context, req LiftHoldRequest) (Result, error) {
	return r.change(ctx, req.Write, script.ChangeRelease, nil, func(cur script.Release, at moment) (decision, error) {
		return decideLift(cur, r.specs(ctx), req.Write, at)
	})
}

// Rollback pins an older version, as Pin does. If none is named, it is the active one where there is
// a candidate, and else the last one before it that was live; NotFound if no such is
// retained. A script that a rollback has taken back, and that is held there, stays as it is
// unless a version is named.
func (r *Registry) Rollback(ctx context.Context, req RollbackRequest) (Result, error) {
	return r.goBack(ctx, req.Write, script.ChangeRollback, req.Version, func(cur script.Release, at moment, past past) (decision, error) {
		return decideRollback(cur, req.Version, past, r.specs(ctx), req.Write, at)
	})
}

// past returns the lines of a script's history, newest first.
type past func() ([]script.HistoryEntry, error)

// goBack is change for who chooses a version, which may be one that ran before.
func (r *Registry) goBack(ctx context.Context, w Write, change script.Change, version uint64,
	decide func(cur script.Release, at moment, past past) (decision, error),
) (Result, error) {
	lines := func() ([]script.HistoryEntry, error) { return r.store.History(ctx, w.Name) }
	d, err := r.write(ctx, writeRequest{Write: w, change: change, payload: version, past: lines, decide: func(cur script.Release, at moment) (decision, error) {
		return decide(cur, at, lines)
	}})
	if err != nil {
		return Result{}, err
	}
	return Result{Release: d.release, Changed: d.changed}, nil
}

// SetEnabled enables or disables a script.
func (r *Registry) SetEnabled(ctx context.Context, req SetEnabledRequest) (Result, error) {
	change := script.ChangeDisable
	if req.Enabled {
		change = script.ChangeEnable
	}
	return r.change(ctx, req.Write, change, nil, func(cur script.Release, at moment) (decision, error) {
		return decideEnabled(cur, req.Enabled, req.Write, at)
	})
}

// SetOwner gives a script an owner, another one or none.
func (r *Registry) SetOwner(ctx context.Context, req SetOwnerRequest) (Result, error) {
	return r.change(ctx, req.Write, script.ChangeOwn, req.NewOwner, func(cur script.Release, at moment) (decision, error) {
		if err := validateText("new_owner", req.NewOwner, MaxOwnerBytes); err != nil {
			return decision{}, err
		}
		return decideOwner(cur, req.NewOwner, req.Write, at)
	})
}

// Steer changes the way of a candidate, and of all of its change set. It is NotFound if there is none,
// and a Conflict if another one was meant.
func (r *Registry) Steer(ctx context.Context, req SteerRequest) (Result, error) {
	if cur, err := r.current(ctx, req.Name); err == nil && cur.Candidate != nil && cur.Candidate.Set != nil && req.By.Allows(access.Read, req.Name.Tenant) {
		return r.steerSet(ctx, req)
	}
	a := req.write()
	return r.change(ctx, a.Write, a.change, a.payload, func(cur script.Release, at moment) (decision, error) {
		return decideSteer(cur, req, at)
	})
}

// write is the request without what decides it.
func (req SteerRequest) write() writeRequest {
	payload := struct {
		Steering Steering
		Version  uint64
		Step     int `json:",omitempty"`
	}{req.Steering, req.Version, req.Step}
	return writeRequest{Write: req.Write, change: req.Steering.change(), payload: payload}
}

// SystemAuthor is the author of what the registry does by the plan of a release, in the
// history and in the audit trail.
const SystemAuthor = "scriptorium"

// system is the identity of what the registry does by itself.
var system = access.Identity{Name: SystemAuthor, Grants: []access.Grant{{Roles: []access.Role{access.Release}}}}

// Advance makes the next move of a candidate's plan.
func (r *Registry) Advance(ctx context.Context, req AdvanceRequest) (Result, error) {
	a, err := advance(req)
	if err != nil {
		return Result{}, err
	}
	a.decide = func(cur script.Release, at moment) (decision, error) {
		if c := cur.Candidate; c != nil && c.Set != nil && (req.Move.Promote || req.Move.Failed != "" || req.Move.Step != 0) {
			return decision{}, script.Errorf(script.Invalid, "move", "%s is part of the %s, and moves with all of it", cur.Name, c.Set)
		}
		return decideMove(cur, req, a.Write, at)
	}
	d, err := r.write(ctx, a)
	if err != nil {
		return Result{}, err
	}
	return Result{Release: d.release, Changed: d.changed}, nil
}

// advance returns the write of a move, without what decides it.
func advance(req AdvanceRequest) (writeRequest, error) {
	if req.At <= 0 {
		return writeRequest{}, script.Errorf(script.Invalid, "at", "must name the revision of the release that the move was decided on")
	}
	w := Write{Name: req.Name, Author: SystemAuthor, ExpectedRevision: req.At, By: system}
	return writeRequest{Write: w, change: req.Move.Change(), payload: req.Move, bySystem: true}, nil
}

// Delete removes a script and its versions, and returns the tombstone. The
// script's numbers are never used again.
func (r *Registry) Delete(ctx context.Context, req DeleteRequest) (Result, error) {
	return r.change(ctx, req.Write, script.ChangeDelete, nil, func(cur script.Release, at moment) (decision, error) {
		return decideDelete(cur, req.Write, at)
	})
}

// change is every write but Publish; payload as in writeRequest.
func (r *Registry) change(ctx context.Context, w Write, change script.Change, payload any,
	decide func(cur script.Release, at moment) (decision, error),
) (Result, error) {
	d, err := r.write(ctx, writeRequest{Write: w, change: change, payload: payload, decide: decide})
	if err != nil {
		return Result{}, err
	}
	return Result{Release: d.release, Changed: d.changed}, nil
}
