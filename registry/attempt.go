package registry

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// writeRequest is a write that somebody requests.
type writeRequest struct {
	Write
	change script.Change
	// payload is what the request asks for besides: with Write, all that decides what
	// becomes of it. Two requests differ if the JSON of their payloads differs.
	payload any
	dry     bool
	// bySystem: the registry requests it, by its own rules, and ignores the script's owner.
	bySystem bool
	decide   func(cur script.Release, at moment) (decision, error)
	// prepare, if not nil, completes a decision before it is committed, or refuses it.
	prepare func(*decision) error
	copied  *script.Release // what an agent had of one whose record cannot be read; or nil
	counted *bool           // the write counts for its tenant's rates already
	// past, if not nil, returns the lines of the script's history, newest first: the write may go
	// back to what ran before, also while the registry is frozen.
	past past
}

// usualRole is the one that the change takes in most cases.
func usualRole(change script.Change) access.Role {
	switch change {
	case script.ChangePublish, script.ChangeConfigure, script.ChangeOwn:
		return access.Publish
	case script.ChangeDelete, script.ChangeRepair:
		return access.Admin
	}
	return access.Release
}

// attempts bounds how often a write is decided anew because others were faster.
// With n writers of one script at once each attempt lets at least one through, unless
// its tenant's settings change just then.
const attempts = 64

// write decides and commits until nobody else was first. It returns what was
// decided, with the release as committed.
func (r *Registry) write(ctx context.Context, a writeRequest) (decision, error) {
	d, err := r.tryWrite(ctx, a)
	r.onWrite(a.change, outcomeOf(d, a.dry, err))
	if !a.dry {
		r.noteQuotas(a.Name.Tenant, err, d.uses)
	}
	return d, err
}

func (r *Registry) tryWrite(ctx context.Context, a writeRequest) (decision, error) {
	if err := a.validate(); err != nil {
		return decision{}, err
	}
	if !a.By.Allows(access.Read, a.Name.Tenant) { // nothing is said of the script
		return decision{}, a.By.Check(usualRole(a.change), a.Name.Tenant)
	}
	fingerprint, err := a.fingerprint()
	if err != nil {
		return decision{}, err
	}
	a.counted = new(bool)
	if d, outcome, err := r.guess(ctx, a, fingerprint); outcome != lostRace {
		return d, err
	}
	for attempt := 1; ; attempt++ {
		d, outcome, err := r.attempt(ctx, a, fingerprint)
		if outcome == committed || a.dry {
			return d, err
		}
		// What stood in the way may be this very write: asked for before, with an
		// answer that got lost.
		before, ok, lookErr := r.repeated(ctx, a, fingerprint, err)
		switch {
		case lookErr != nil:
			return decision{}, lookErr
		case ok:
			return before, nil
		case outcome != lostRace || attempt == attempts:
			return d, err
		}
	}
}

// The outcomes of an attempt.
type attemptOutcome int

const (
	settled   attemptOutcome = iota // refused
	committed                       // done, or nothing to change
	lostRace                        // somebody else was first: decide anew
)

// fingerprint identifies what the write asks for, however often it does. The author and
// the note are no part of it.
func (a writeRequest) fingerprint() (Fingerprint, error) {
	text, err := json.Marshal(struct {
		Change           script.Change
		ExpectedRevision script.Revision
		Owner            string
		Force            bool
		Terms            any
	}{a.change, a.ExpectedRevision, a.Owner, a.Force, a.payload})
	if err != nil {
		return Fingerprint{}, script.Errorf(script.Internal, "", "encode the request for %s: %w", a.Name, err)
	}
	return Fingerprint{Change: a.change, Digest: script.DigestOf(text)}, nil
}

// basis is what a write is decided on.
type basis struct {
	release script.Release
	tenant  func() (script.Tenant, error) // read when asked for
	freeze  func() (script.Freeze, error) // also
	also    addition                      // what others of the same transaction take
}

// guess decides on what was known last, without a read of the store but for the history
// that a rollback goes by, and is right if the commit finds that nothing has changed
// since. Only a commit proves that: all else that it may come to, a refusal too, is a lost
// race, but for a store that gives no answer.
func (r *Registry) guess(ctx context.Context, a writeRequest, fingerprint Fingerprint) (decision, attemptOutcome, error) {
	b, ok := r.recent.basis(a.Name)
	if !ok || a.dry {
		return decision{}, lostRace, nil
	}
	d, err := r.decide(a, b)
	if err != nil || !d.changed {
		return decision{}, lostRace, nil //nolint:nilerr // it is decided again, on what is true
	}
	return r.commit(ctx, a, fingerprint, d)
}

// attempt decides on what the store has.
func (r *Registry) attempt(ctx context.Context, a writeRequest, fingerprint Fingerprint) (decision, attemptOutcome, error) {
	cur, err := r.current(ctx, a.Name)
	if u, ok := errors.AsType[*Unreadable](err); ok {
		return r.attemptLost(ctx, a, fingerprint, u)
	}
	if err != nil {
		return decision{}, settled, err
	}
	d, err := r.decide(a, r.basisOf(ctx, cur))
	if err != nil {
		return decision{}, settled, err
	}
	return r.commit(ctx, a, fingerprint, d)
}

// decide returns what is to become of the basis, or why it must not.
func (r *Registry) decide(a writeRequest, b basis) (decision, error) {
	cur, spec := recorded(b.release)
	b.release = cur
	if err := meet(a.ExpectedRevision, cur.Revision, live(cur), a.Name.String(), "read it again and decide again"); err != nil {
		return decision{}, err
	}
	forced, err := a.passOwner(cur)
	if err != nil {
		return decision{}, err
	}
	d, freeze, err := a.decideUnder(cur, b, r.now().UTC())
	if err != nil {
		return decision{}, err
	}
	if !d.release.Deleted {
		d.recorded = spec
	}
	if err := a.mayMake(cur, d); err != nil {
		return decision{}, err
	}
	if freeze.Covers(a.Name, d.release.ChangedAt) {
		if err := a.mayAdvance(cur, d, freeze); err != nil {
			return decision{}, err
		}
	}
	if err := r.vouched(a, cur, d); err != nil {
		return decision{}, err
	}
	if err := r.gated(a, cur, d); err != nil {
		return decision{}, err
	}
	if err := withinCeiling(b, &d); err != nil {
		return decision{}, err
	}
	if err := r.withinQuota(b, &d); err != nil {
		return decision{}, err
	}
	if err := r.withinEvents(a, b, &d); err != nil {
		return decision{}, err
	}
	if a.prepare != nil {
		if err := a.prepare(&d); err != nil {
			return decision{}, err
		}
	}
	if d.changed {
		d.brings = brings(cur, d.commit)
		if d.commit.Entry != (script.HistoryEntry{}) {
			d.commit.Audit = a.auditEntry(d.commit, forced)
		}
	}
	return d, r.withinRates(a, b, d)
}

// decideUnder decides under the registry's freeze, which it returns if there is a change.
func (a writeRequest) decideUnder(cur script.Release, b basis, now time.Time) (d decision, freeze script.Freeze, err error) {
	if d, err = a.decide(cur, moment{now: now}); err != nil || !d.changed {
		return d, freeze, err
	}
	if freeze, err = b.freeze(); err != nil {
		return decision{}, freeze, err
	}
	if freeze.Covers(a.Name, now) {
		d, err = a.decide(cur, moment{now: now, frozen: freeze.String(), waits: a.waits()})
	}
	d.commit.FreezeGuard = freeze.Revision
	return d, freeze, err
}

// vouched refuses to have agents run what they would not believe. What runs already is theirs
// to judge, and so is what the registry does by itself.
func (r *Registry) vouched(a writeRequest, cur script.Release, d decision) error {
	next := d.commit.Release
	same := next.Active == cur.Active && candidateOf(next) == candidateOf(cur)
	if !d.changed || a.bySystem || same {
		return nil
	}
	return r.publishers.Trust().Release(&next)
}

// withinRates counts the write, once.
func (r *Registry) withinRates(a writeRequest, b basis, d decision) error {
	if !d.changed || a.dry || a.bySystem || *a.counted {
		return nil
	}
	tenant, err := b.tenant()
	if _, lost := errors.AsType[*Unreadable](err); lost {
		err = nil // the default rates hold: a pin, or a delete, does not wait for a repair
	}
	if err != nil {
		return err
	}
	size := len(d.commit.Source)
	if v := d.commit.Publish; v != nil {
		size += v.SpecSize
	}
	if err := r.rates.take(a.Name.Tenant, tenant.Settings, size); err != nil {
		return err
	}
	*a.counted = true
	return nil
}

// commit makes what was decided so, if nothing has changed since.
func (r *Registry) commit(ctx context.Context, a writeRequest, fingerprint Fingerprint, d decision) (_ decision, _ attemptOutcome, err error) {
	switch {
	case a.dry || !d.changed && a.RequestID == "":
		return d, committed, nil
	case !d.changed:
		// A retry must not do later what there is no need to do now.
		done := Done{Name: a.Name, Fingerprint: fingerprint, Version: d.version.Number}
		err = r.store.NoteRequest(ctx, d.release.Revision, a.RequestID, done)
	default:
		d.commit.RequestID, d.commit.Fingerprint = a.RequestID, fingerprint
		if !d.brings.IsZero() {
			d.commit.Source = r.small(ctx, d.brings)
		}
		if d.recorded != nil { // by itself: with a large source, one request would be too large
			_, err = r.store.PutSource(ctx, d.recorded.Document())
		}
		if err == nil {
			d.release.Revision, err = r.store.Commit(ctx, d.commit)
		}
	}
	switch script.KindOf(err) {
	case "":
		return d, committed, nil
	case script.Conflict:
		return decision{}, lostRace, err
	}
	return decision{}, settled, err
}

// brings returns the digest of a small source that agents need after the commit and did not
// before, unless the commit publishes it; zero if there is none.
func brings(cur script.Release, c Commit) (d script.Digest) {
	if c.Publish != nil {
		return d
	}
	for content := range (script.Object{Release: &c.Release}).Contents {
		if content.Size <= InlineSourceBytes && (cur.Deleted || !needs(cur, content.Digest)) {
			return content.Digest
		}
	}
	return d
}

// small returns a source, nil if it cannot be had: agents fetch it then.
func (r *Registry) small(ctx context.Context, d script.Digest) []byte {
	const soon = 200 * time.Millisecond // others may read much: a rollback does not wait for them
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	found, err := r.sources.get(ctx, []script.Digest{d})
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[0].Content
}

// repeated returns what became of the write if it was asked for before. What it came
// to now, err, is the answer if not.
func (r *Registry) repeated(ctx context.Context, a writeRequest, fingerprint Fingerprint, err error) (d decision, ok bool, lookErr error) {
	if a.RequestID == "" || script.KindOf(err) == script.Unavailable {
		return decision{}, false, nil
	}
	done, ok, lookErr := r.store.Request(ctx, a.Name, a.RequestID)
	if lookErr != nil || !ok {
		return decision{}, false, lookErr
	}
	if done.Fingerprint != fingerprint {
		return decision{}, false, script.Errorf(script.Invalid, "request_id",
			"was used before, for another request (%s) of %s: make a new one for each write", done.Fingerprint.Change, a.Name)
	}
	cur, lookErr := r.current(ctx, a.Name)
	if lookErr != nil {
		return decision{}, false, lookErr
	}
	return decision{
		changed: done.Change != "", repeated: true, release: cur, version: script.Version{Number: done.Version},
	}, true, nil
}

// current returns the release as it is; one that never was has revision 0.
func (r *Registry) current(ctx context.Context, name script.Name) (script.Release, error) {
	cur, err := r.store.Release(ctx, name)
	if script.KindOf(err) == script.NotFound {
		return script.Release{Name: name}, nil
	}
	return cur, err
}

// passOwner reports whether the write goes past the owner of the script. Who owns a script
// declares what it is to run: a hold overrides that without a change of it.
func (a writeRequest) passOwner(cur script.Release) (forced bool, err error) {
	if cur.Owner == "" || cur.Owner == a.Owner || a.bySystem || a.overrides() && !a.Force {
		return false, nil
	}
	if !a.Force {
		return false, script.Errorf(script.Denied, "owner",
			"%s belongs to %.200q: change it there, write for that owner (--owner), or force the change (--force), which needs the role %s", a.Name, cur.Owner, access.Admin)
	}
	return true, a.By.Check(access.Admin, a.Name.Tenant)
}

// overrides reports whether the write sets or lifts a hold, or approves a step: that is a person's
// to decide, whoever owns the script.
func (a writeRequest) overrides() bool {
	switch a.change {
	case script.ChangePin, script.ChangeRollback, script.ChangeHold, script.ChangeRelease, script.ChangeApprove:
		return true
	}
	return false
}

// mayMake refuses a decision that takes a role which the caller does not have.
func (w Write) mayMake(cur script.Release, d decision) error {
	for _, role := range rolesFor(cur, d) {
		if err := w.By.Check(role, w.Name.Tenant); err != nil {
			return ofHold(ofPin(err, role, cur, d), role, cur, d)
		}
	}
	return nil
}

// ofPin adds to a refusal that the change would end a pin: a publisher who meant to publish
// does not see why that takes another role.
func ofPin(err error, role access.Role, cur script.Release, d decision) error {
	pinned, declared := cur.Declared(), d.release.Declared()
	if role != access.Release || pinned == 0 || declared != 0 || d.release.Deleted {
		return err
	}
	e := script.AsError(err)
	return script.Errorf(e.Kind, e.Field, "%s; %s is pinned to version %d, and this ends the pin: to keep it, publish with spec.version: %d",
		e.Message, cur.Name, pinned, pinned)
}

// ofHold is ofPin for a publish that would lift a hold.
func ofHold(err error, role access.Role, cur script.Release, d decision) error {
	if role != access.Release || cur.Hold == nil || d.release.Hold != nil || d.version.Number == 0 {
		return err
	}
	e := script.AsError(err)
	return script.Errorf(e.Kind, e.Field, "%s; %s is held %s: to store the version only, leave out --lift-hold", e.Message, cur.Name, cur.Hold)
}

// rolesFor returns the roles that it takes to make cur what was decided; reading is
// taken for granted.
func rolesFor(cur script.Release, d decision) []access.Role {
	if !d.changed {
		return nil
	}
	next := d.commit.Release
	switch {
	case next.Deleted && cur.Settings.Personal != nil: // who makes personal versions deletes them, too
		return []access.Role{access.Publish}
	case next.Deleted:
		return []access.Role{access.Admin}
	}
	if !live(cur) {
		return []access.Role{access.Publish}
	}
	var roles []access.Role
	if d.commit.Publish != nil || next.Owner != cur.Owner || !samePlan(next.Settings, cur.Settings) || signatureOf(next) != signatureOf(cur) {
		roles = append(roles, access.Publish)
	}
	// That a script follows its latest version is the publisher's doing. What else
	// changes what runs is a choice of its own.
	chosen := next.Pinned && (next.Active.Number != cur.Active.Number || candidateOf(next) != candidateOf(cur))
	held := heldAnew(cur, next) || cur.Hold != nil && next.Declared() != cur.Declared()
	if chosen || held || next.Pinned != cur.Pinned || next.Enabled != cur.Enabled || steers(d.commit.Entry.Change) {
		roles = append(roles, access.Release)
	}
	return roles
}

// steers reports whether the change is one of a candidate alone.
func steers(change script.Change) bool {
	switch change {
	case script.ChangeAdvance, script.ChangePromote, script.ChangeAbort, script.ChangeRetry, script.ChangeApprove:
		return true
	}
	return false
}

func (w Write) attribution() string { return Attribution(w.By, w.Author) }

// Attribution is who the history names: the author as given, and the identity that
// vouches for it unless that is the same or not known.
func Attribution(by access.Identity, author string) string {
	if by.Name == "" || by.Name == author || by.Name == access.Everybody(by.Peer).Name {
		return author
	}
	return author + " via " + by.Name
}

func (w Write) auditEntry(c Commit, forced bool) script.AuditEntry {
	e := script.AuditEntry{
		Time:      c.Entry.Time,
		Name:      w.Name,
		Change:    c.Entry.Change,
		Version:   c.Entry.Version,
		Digest:    c.Entry.Digest,
		Candidate: c.Entry.Candidate,
		Author:    w.Author,
		Identity:  w.By.Name,
		Peer:      w.By.Peer,
		Owner:     c.Release.Owner,
		Forced:    forced,
		Note:      c.Entry.Note, // of what the registry does by itself it is that of the decision
		ChangeSet: c.Entry.ChangeSet,
	}
	if candidate := c.Release.Candidate; candidate != nil {
		e.CandidateDigest = candidate.Version.Digest
	}
	return e
}
