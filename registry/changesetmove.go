package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// AdvanceSetRequest asks for the next move of candidates of a change set by its plan: all of Moves
// are steps, promotions or failures. With promotions, of which there has to be one for each script
// of the change set, its values go live, too.
type AdvanceSetRequest struct {
	Tenant string
	Set    *script.Membership
	Moves  []AdvanceRequest
}

// AdvanceSet makes the moves in one transaction. It is a Conflict if one of the releases is not at
// the revision any more.
func (r *Registry) AdvanceSet(ctx context.Context, req AdvanceSetRequest) error {
	if len(req.Moves) == 0 {
		return script.Errorf(script.Invalid, "moves", "are missing")
	}
	first := req.Moves[0].Move
	if first.Promote && len(req.Moves) != len(req.Set.Scripts) {
		return script.Errorf(script.Invalid, "moves", "promote %d of the %d scripts of the %s", len(req.Moves), len(req.Set.Scripts), req.Set)
	}
	w := &together{set: req.Set.Name}
	for _, move := range req.Moves {
		a, err := advance(move)
		if err != nil {
			return err
		}
		if move.Move.Promote != first.Promote || (move.Move.Failed == "") != (first.Failed == "") || (move.Move.Step == 0) != (first.Step == 0) {
			return script.Errorf(script.Invalid, "moves", "of the %s differ in kind", req.Set)
		}
		a.decide = func(cur script.Release, at moment) (decision, error) {
			if !cur.Candidate.Is(req.Set) {
				return decision{}, leftSet(cur.Name, req.Set)
			}
			return decideMove(cur, move, a.Write, at)
		}
		w.scripts = append(w.scripts, a)
	}
	plan := func(ctx context.Context) (*together, error) {
		w.values = nil
		var err error
		if first.Promote {
			w.values, err = r.unstage(ctx, req.Tenant, req.Set, Write{Author: SystemAuthor, By: system})
		}
		return w, err
	}
	_, err := r.writeTogether(ctx, req.Tenant, plan, func(m *madeTogether, now time.Time) error {
		switch {
		case first.Promote:
			return r.concluded(ctx, m, req.Tenant, req.Set, script.ChangeSetLive, "", now)
		case first.Failed != "":
			return r.concluded(ctx, m, req.Tenant, req.Set, script.ChangeSetFailed, first.Failed, now)
		}
		return nil
	})
	return err
}

func leftSet(name script.Name, set *script.Membership) error {
	return script.Errorf(script.Conflict, "candidate", "%s is not part of the %s any more: publish the change set again", name, set)
}

// unstage returns the writes with which the values of the change set go live. They take no role: the
// registry checked it when the change set was published.
func (r *Registry) unstage(ctx context.Context, tenant string, set *script.Membership, w Write) (values []valueRequest, err error) {
	for _, v := range set.Values {
		content, err := r.store.Source(ctx, v.Digest)
		switch {
		case script.KindOf(err) == script.Unavailable:
			return nil, err
		case err != nil || script.DigestOf(content) != v.Digest:
			return nil, script.Errorf(script.Internal, "values", "the content of %s in the %s is lost: publish the change set again", v.Key, set)
		}
		values = append(values, valueRequest{
			key: script.ValueKey{Tenant: tenant, Key: v.Key}, author: w.Author, note: changeSetNote(set.Name, w.Note), by: w.By, bySystem: true,
			change: script.ChangePut, content: content,
		})
	}
	return values, nil
}

// concluded adds the end of the change set to the transaction. A record that is lost, unreadable or of
// another attempt does not hinder the move, and stays as it is.
func (r *Registry) concluded(ctx context.Context, m *madeTogether, tenant string, set *script.Membership, state script.ChangeSetState, why string, now time.Time) error {
	rec, err := r.store.ChangeSet(ctx, tenant, set.Name)
	switch script.KindOf(err) {
	case "":
	case script.NotFound, script.Internal:
		return nil
	default:
		return err
	}
	if rec.Attempt != set.Attempt {
		return nil
	}
	m.commit.SetGuard = rec.Revision
	rec.State, rec.Reason, rec.ChangedAt = state, Printable(why, script.MaxFailedBytes), now
	for i := range rec.Values {
		noteVersions(&rec.Values[i], m.values)
	}
	m.commit.Set = &rec
	return nil
}

// steerSet is Steer for a candidate of a change set: all candidates go the same way. The store remembers the
// request with the change of the script that it names.
func (r *Registry) steerSet(ctx context.Context, req SteerRequest) (Result, error) {
	a := req.write()
	if err := a.validate(); err != nil {
		return Result{}, err
	}
	fingerprint, err := a.fingerprint()
	if err != nil {
		return Result{}, err
	}
	if d, ok, err := r.repeated(ctx, a, fingerprint, nil); ok || err != nil {
		return Result{Release: d.release, Changed: d.changed}, err
	}
	result, err := r.trySteerSet(ctx, req, fingerprint)
	if err == nil && !result.Changed && a.RequestID != "" {
		err = r.store.NoteRequest(ctx, result.Release.Revision, a.RequestID, Done{Name: a.Name, Fingerprint: fingerprint})
	}
	if err != nil { // it may have been made meanwhile
		if d, ok, lookErr := r.repeated(ctx, a, fingerprint, err); ok || lookErr != nil {
			return Result{Release: d.release, Changed: d.changed}, lookErr
		}
	}
	return result, err
}

func (r *Registry) trySteerSet(ctx context.Context, req SteerRequest, fingerprint Fingerprint) (Result, error) {
	var set *script.Membership
	var order []script.Name
	plan := func(ctx context.Context) (*together, error) {
		cur, err := r.current(ctx, req.Name)
		if err != nil {
			return nil, err
		}
		if err := mustHaveCandidate(cur); err != nil {
			return nil, err
		}
		if set = cur.Candidate.Set; set == nil {
			return nil, script.Errorf(script.Conflict, "candidate", "%s has another candidate by now: look at it with scriptctl rollout status %s, and decide again", req.Name, req.Name)
		}
		w := &together{set: set.Name}
		if req.Steering == Promote {
			if w.values, err = r.unstage(ctx, req.Name.Tenant, set, req.Write); err != nil {
				return nil, err
			}
		}
		again, err := r.again(ctx, req, set)
		if err != nil {
			return nil, err
		}
		paused, err := r.isPaused(ctx, req, set)
		if err != nil {
			return nil, err
		}
		order = nil
		for _, name := range set.Scripts {
			of := req
			of.Name = script.Name{Tenant: req.Name.Tenant, Script: name}
			if of.Name != req.Name {
				of.ExpectedRevision, of.RequestID, of.Version, of.Step = 0, "", 0, 0
			}
			order = append(order, of.Name)
			w.scripts = append(w.scripts, writeRequest{
				Write: of.Write, change: req.Steering.change(),
				decide: func(now script.Release, at moment) (decision, error) {
					if now.Candidate.Is(set) && (of.Name != req.Name || paused) && passesBy(now, of, cur.Candidate) {
						return unchanged(now), nil
					}
					return decideSteerInSet(now, of, cur.Candidate, again, at)
				},
			})
		}
		return w, nil
	}
	m, err := r.writeTogether(ctx, req.Name.Tenant, plan, func(m *madeTogether, now time.Time) error {
		for i := range m.commit.Releases {
			if c := &m.commit.Releases[i]; c.Release.Name == req.Name {
				c.RequestID, c.Fingerprint = req.RequestID, fingerprint
			}
		}
		return r.steered(ctx, m, req, set, now)
	})
	if err != nil {
		return Result{}, err
	}
	d := m.scripts[slices.Index(order, req.Name)]
	return Result{Release: d.release, Changed: m.changed()}, nil
}

// again returns the next attempt of the change set, and nil unless the request is a retry.
func (r *Registry) again(ctx context.Context, req SteerRequest, set *script.Membership) (*script.Membership, error) {
	if req.Steering != Retry {
		return nil, nil
	}
	next := *set
	next.Attempt++
	for _, name := range set.Scripts {
		cur, err := r.current(ctx, script.Name{Tenant: req.Name.Tenant, Script: name})
		if err != nil {
			return nil, err
		}
		next.Attempt = max(next.Attempt, uint64(cur.Revision)+1)
	}
	return &next, nil
}

// isPaused reports whether the request is an approval, and a candidate of the change set is paused.
func (r *Registry) isPaused(ctx context.Context, req SteerRequest, set *script.Membership) (bool, error) {
	if req.Steering != Approve {
		return false, nil
	}
	for _, name := range set.Scripts {
		cur, err := r.current(ctx, script.Name{Tenant: req.Name.Tenant, Script: name})
		if err != nil {
			return false, err
		}
		if cur.Candidate.Is(set) && cur.Candidate.Paused != "" {
			return true, nil
		}
	}
	return false, nil
}

// passesBy reports whether the request is an approval that the script does not need: it is not paused, and its
// step needs no approval, or the approved candidate is in another step.
func passesBy(cur script.Release, req SteerRequest, approved *script.Candidate) bool {
	c := cur.Candidate
	switch {
	case req.Steering != Approve, c.Paused != "", req.Step != 0 && req.Step != c.Step:
		return false
	}
	return c.Step != approved.Step || !needsApproval(cur)
}

// decideSteerInSet decides on one script of the change set that the candidate `of` is part of.
func decideSteerInSet(cur script.Release, req SteerRequest, of *script.Candidate, again *script.Membership, at moment) (decision, error) {
	if !cur.Candidate.Is(of.Set) {
		if req.Steering == Abort {
			return unchanged(cur), nil
		}
		return decision{}, leftSet(cur.Name, of.Set)
	}
	if again != nil {
		return decide(cur, joined(cur, candidate(cur), again, cur.Revision, at.now), script.ChangeRetry, req.Write, at), nil
	}
	return decideSteer(cur, req, at)
}

// steered adds the new state of the change set to the transaction. It refuses to promote or retry a change
// set if another one has its name by now, because nobody could roll it back.
func (r *Registry) steered(ctx context.Context, m *madeTogether, req SteerRequest, set *script.Membership, now time.Time) error {
	if req.Steering == Promote || req.Steering == Retry {
		rec, err := r.store.ChangeSet(ctx, req.Name.Tenant, set.Name)
		if err == nil && rec.Attempt != set.Attempt {
			return script.Errorf(script.Conflict, "candidate", "the %s was published again since, and %s is no part of it any more: publish %s again", set, req.Name, req.Name)
		}
	}
	switch req.Steering {
	case Promote:
		return r.concluded(ctx, m, req.Name.Tenant, set, script.ChangeSetLive, "", now)
	case Abort:
		return r.concluded(ctx, m, req.Name.Tenant, set, script.ChangeSetFailed, "aborted by "+withNote(req.attribution(), req.Note), now)
	case Retry:
		err := r.concluded(ctx, m, req.Name.Tenant, set, script.ChangeSetOnTrial, "", now)
		for _, d := range m.scripts {
			if c := d.release.Candidate; m.commit.Set != nil && d.changed && c != nil {
				m.commit.Set.Attempt = c.Set.Attempt
			}
		}
		return err
	}
	return nil
}

func withNote(who, note string) string {
	if note == "" {
		return who
	}
	return fmt.Sprintf("%s: %s", who, note)
}
