package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FreezeRequest asks for what runs to stay as it is, but for what goes back. It needs the role
// admin of all tenants.
type FreezeRequest struct {
	By           access.Identity
	Author, Note string        // as in Write
	Lasts        time.Duration // at most script.MaxFreeze; 0: until Thaw
	Except       []string      // as in script.Freeze
}

// Freeze freezes the registry, in place of a freeze that there is.
func (r *Registry) Freeze(ctx context.Context, req FreezeRequest) (script.Freeze, error) {
	except := slices.Clone(req.Except)
	slices.Sort(except)
	next := script.Freeze{Author: Attribution(req.By, req.Author), Note: req.Note, Except: slices.Compact(except)}
	err := next.Validate()
	if err == nil && (req.Lasts < 0 || req.Lasts > script.MaxFreeze) {
		err = script.Errorf(script.Invalid, "for", "%v is not between 0 and %v", req.Lasts, script.MaxFreeze)
	}
	if err != nil {
		r.onWrite(script.ChangeFreeze, Refused)
		return script.Freeze{}, err
	}
	return r.setFreeze(ctx, req, script.ChangeFreeze, func(cur script.Freeze, now time.Time) (script.Freeze, bool) {
		f := next
		f.Since, f.ChangedAt = now, now
		if cur.On(now) && !cur.Since.IsZero() {
			f.Since = cur.Since // it goes on
		}
		if req.Lasts > 0 {
			f.Until = now.Add(req.Lasts)
		}
		return f, true
	})
}

// Frozen returns the freeze; nil while the registry is not frozen.
func (r *Registry) Frozen(ctx context.Context) (*script.Freeze, error) {
	f, err := r.store.Freeze(ctx)
	if err != nil || !f.On(r.now()) {
		return nil, err
	}
	return &f, nil
}

// Thaw ends the freeze. changed is false if there is none. It needs the role admin of all
// tenants.
func (r *Registry) Thaw(ctx context.Context, by access.Identity, author, note string) (changed bool, err error) {
	req := FreezeRequest{By: by, Author: author, Note: note}
	f, err := r.setFreeze(ctx, req, script.ChangeThaw, func(cur script.Freeze, now time.Time) (script.Freeze, bool) {
		return script.Freeze{Author: Attribution(by, author), Note: note, ChangedAt: now, Lifted: true}, cur.On(now)
	})
	return f.Revision != 0, err
}

// setFreeze makes the freeze what next says. Without a change it returns the zero Freeze.
func (r *Registry) setFreeze(ctx context.Context, req FreezeRequest, change script.Change, next func(cur script.Freeze, now time.Time) (script.Freeze, bool)) (f script.Freeze, err error) {
	defer func() { r.onWrite(change, outcomeOf(decision{changed: f.Revision != 0}, false, err)) }()
	if err := mayAdminister(req.By, ""); err != nil {
		return script.Freeze{}, err
	}
	if err := validateAuthor(req.Author, req.Note); err != nil {
		return script.Freeze{}, err
	}
	for attempt := 1; ; attempt++ {
		cur, err := r.store.Freeze(ctx)
		if err != nil {
			return script.Freeze{}, err
		}
		now := r.now().UTC()
		f, changed := next(cur, now)
		if !changed {
			return script.Freeze{}, nil
		}
		f.Revision, err = r.store.CommitFreeze(ctx, FreezeCommit{Guard: cur.Revision, Freeze: f, Audit: script.AuditEntry{
			Time: now, Change: change, Author: req.Author, Identity: req.By.Name, Peer: req.By.Peer, Note: strings.TrimSpace(req.Note + " " + terms(f)),
		}})
		if script.KindOf(err) == script.Conflict && attempt < attempts {
			continue
		}
		if err != nil {
			return script.Freeze{}, err
		}
		return f, nil
	}
}

// terms says in words how long the freeze lasts, and what is not frozen.
func terms(f script.Freeze) string {
	var said []string
	if !f.Until.IsZero() {
		said = append(said, "until "+f.Until.Format(time.RFC3339))
	}
	if len(f.Except) > 0 {
		said = append(said, "except "+strings.Join(f.Except, ", "))
	}
	if len(said) == 0 {
		return ""
	}
	return "[" + strings.Join(said, ", ") + "]"
}

// moment is when a write is decided on, and under which freeze.
type moment struct {
	now time.Time
	// frozen says who froze the script, as script.Freeze has it; "" if nobody did.
	frozen string
	// waits: what the write would have run waits for the end of the freeze.
	waits bool
}

// waits reports whether what the write brings becomes a candidate that waits, where the registry
// is frozen. All other writes that take forward what runs are refused.
func (a writeRequest) waits() bool {
	switch a.change {
	case script.ChangePublish, script.ChangeRelease, script.ChangeRetry:
		return true
	}
	return false
}

// keep has what next would run and cur does not wait for the end of the freeze.
func (m moment) keep(cur, next script.Release) script.Release {
	if m.frozen == "" || !m.waits || !advances(cur, next) {
		return next
	}
	e, tries := script.Edition{Version: next.Active, Spec: next.Settings.Spec}, 1
	if underway(next) {
		e, tries = candidate(next), next.Candidate.Tries
	}
	if live(cur) && !cur.Untried() && e.Number == cur.Active.Number {
		return next // what runs does not wait: it is refused
	}
	next.Active, next.Settings.Spec = e.Version, e.Spec // of a script of which nothing has run
	if live(cur) && !cur.Untried() {
		next.Active, next.Settings.Spec = cur.Active, cur.Settings.Spec
	}
	next.Candidate = &script.Candidate{
		Version: e.Version, Spec: e.Spec, Attempt: uint64(cur.Revision) + 1, Tries: tries, Since: m.now, Frozen: m.frozen,
	}
	if c := cur.Candidate; cur.Frozen() && c.Version.Number != e.Number && next.Declared() != c.Version.Number && c.Version.CreatedAt.Equal(c.Since) {
		// It has waited since it was published, and never ran: it makes room, instead of a version
		// that somebody may roll back to.
		next.Retained = slices.DeleteFunc(slices.Clone(next.Retained), func(v script.Version) bool { return v.Number == c.Version.Number })
	}
	return next
}

// limit returns how many versions next retains. While the registry is frozen a publish removes
// no version that there was before: somebody may roll back to it.
func (m moment) limit(next script.Release) int {
	if m.frozen == "" {
		return limitOf(next)
	}
	return max(limitOf(next), min(len(next.Retained), script.MaxHistoryLimit))
}

// advances reports whether next takes forward what cur runs: another version is active, or one
// begins to be tested, or more agents run it; it is enabled; or it is gone.
func advances(cur, next script.Release) bool {
	switch {
	case next.Deleted:
		return live(cur)
	case live(cur) && next.Enabled && !cur.Enabled:
		return true
	case next.Untried():
	case !live(cur), cur.Untried(), next.Active.Number != cur.Active.Number, !next.Active.SameVersion(cur.Active):
		return true
	}
	if !underway(next) || next.Frozen() {
		return false
	}
	was, is := cur.Candidate, next.Candidate
	return !underway(cur) || was.Attempt != is.Attempt || was.Version.Number != is.Version.Number || is.Step > was.Step || is.Threshold > was.Threshold
}

// mayAdvance refuses what the freeze does not allow. To go back to a version that ran before is
// always allowed, and so is to delete a personal version: calls with its key go back to what all others run.
func (a writeRequest) mayAdvance(cur script.Release, d decision, freeze script.Freeze) error {
	next := d.commit.Release
	if !d.changed || !advances(cur, next) || next.Deleted && cur.Settings.Personal != nil {
		return nil
	}
	what := fmt.Sprintf("%s %s", a.change, a.Name)
	if a.past != nil {
		ran, err := ranBefore(cur, next.Active.Number, a.past)
		if ran || err != nil {
			return err
		}
		what = fmt.Sprintf("version %d of %s has not been live before", next.Active.Number, a.Name)
	}
	if a.change == script.ChangePublish { // all else of it waits
		what = fmt.Sprintf("%s is disabled, and this would enable it", a.Name)
	}
	refusal := freeze.Refusal(what)
	if a.bySystem { // it was decided before the freeze
		refusal.Kind = script.Conflict
	}
	return refusal
}

// agentsNeed returns what agents need of a tenant's settings.
func agentsNeed(s script.TenantSettings) script.TenantSettings {
	s.Scripts, s.SourceBytes, s.Writes, s.WriteBytes = 0, 0, 0, 0
	return s
}
