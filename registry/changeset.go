package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSetRequest asks for versions of scripts and contents of values of one tenant to be one
// candidate, or to be live at once if there is nothing to test and no plan. It needs the role publish.
type ChangeSetRequest struct {
	Tenant, Name string
	// Scripts say what is published. Of their Write only Name and Owner count, and their DryRun
	// and LiftHold do not apply: those of the change set do.
	Scripts []PublishRequest
	Values  []StagedContent
	// Plan of all of it. With nil the plan of the scripts counts: all that have one have the same.
	Plan *script.Plan

	Author, Note string // as in Write
	By           access.Identity
	Owner        string // as in Write
	Force        bool
	DryRun       bool // decide and check, store nothing
	// LiftHold ends the holds of the scripts, which needs the role release. Otherwise a script that
	// somebody holds has all of the change set refused.
	LiftHold bool
}

// StagedContent is the new content of a value.
type StagedContent struct {
	Key     string
	Content []byte
}

// ChangeSetResult is the result of a publish or a rollback.
type ChangeSetResult struct {
	// Set has the scripts and values that differ from what is active. If nothing differs, it is the record
	// of the last change set of the name, or zero.
	Set      script.ChangeSet
	Releases []script.Release // in the order of the request, or of the change set's scripts
	Changed  bool
}

// changeSetWrite is a change set that is published.
type changeSetWrite struct {
	*Registry
	req          ChangeSetRequest
	publications []publication
	plan         script.Plan
	fingerprint  script.Digest

	before script.ChangeSet  // its record; zero if there is none
	drop   *script.ChangeSet // an old one that makes room; nil if there is room
	next   script.ChangeSet
	// These are of one attempt to write: members are the scripts that are part of the change set. With
	// atOnce it is live at once. With repeated, an earlier request made the same candidates, and they
	// are on their way.
	members          []bool
	atOnce, repeated bool
}

// PublishChangeSet stores what is requested, in one transaction.
func (r *Registry) PublishChangeSet(ctx context.Context, req ChangeSetRequest) (ChangeSetResult, error) {
	w := &changeSetWrite{Registry: r, req: req}
	if err := w.validate(ctx); err != nil {
		r.onWrite(script.ChangePublish, outcomeOf(decision{}, req.DryRun, err))
		return ChangeSetResult{}, err
	}
	m, err := r.writeTogether(ctx, req.Tenant, w.decide, w.record)
	if err != nil {
		return ChangeSetResult{}, err
	}
	result := ChangeSetResult{Set: w.next, Changed: m.changed()}
	if m.commit.Set == nil {
		result.Set = w.before
	} else {
		result.Set.Revision = m.commit.Set.Revision
	}
	for _, d := range m.scripts {
		result.Releases = append(result.Releases, d.release)
	}
	return result, nil
}

// validate checks all that can be judged without the releases, and compiles the sources.
func (w *changeSetWrite) validate(ctx context.Context) error {
	req := &w.req
	if err := (script.Name{Tenant: req.Tenant, Script: req.Name}).Validate(); err != nil {
		return err
	}
	if err := validateAuthor(req.Author, req.Note); err != nil {
		return err
	}
	if err := req.By.Check(access.Publish, req.Tenant); err != nil {
		return err
	}
	if n := len(req.Scripts); n > script.MaxChangeSetScripts {
		return script.Errorf(script.Invalid, "scripts", "%d are too many: a change set has at most %d", n, script.MaxChangeSetScripts)
	}
	if n := len(req.Values); n > script.MaxChangeSetValues {
		return script.Errorf(script.Invalid, "values", "%d are too many: a change set has at most %d", n, script.MaxChangeSetValues)
	}
	if len(req.Scripts)+len(req.Values) == 0 {
		return script.Errorf(script.Invalid, "scripts", "are missing, and so are values: a change set has at least one of them")
	}
	if err := w.validateScripts(ctx); err != nil {
		return err
	}
	if err := w.validateValues(); err != nil {
		return err
	}
	if err := w.choosePlan(nil); err != nil {
		return err
	}
	return w.sign()
}

func (w *changeSetWrite) validateScripts(ctx context.Context) error {
	total := 0
	for i := range w.req.Scripts {
		p := &w.req.Scripts[i]
		at := fmt.Sprintf("scripts[%d]", i)
		p.Write = Write{
			Name: p.Name, Author: w.req.Author, Note: w.noteFor(), By: w.req.By, Force: w.req.Force, Owner: w.req.Owner,
		}
		if p.Name.Tenant != w.req.Tenant {
			return script.Errorf(script.Invalid, at+".tenant", "%s is not of the tenant %s: a change set has scripts of one tenant", p.Name, w.req.Tenant)
		}
		if slices.ContainsFunc(w.req.Scripts[:i], func(other PublishRequest) bool { return other.Name == p.Name }) {
			return script.Errorf(script.Invalid, at+".name", "%s is there twice", p.Name)
		}
		p.LiftHold = false // the fingerprint leaves it out; write sets it from the change set's LiftHold
		if p.Pin != nil && *p.Pin != 0 {
			return script.Errorf(script.Invalid, at+".pin", "%s names version %d in spec.version: leave it out, because the change set decides which version runs", p.Name, *p.Pin)
		}
		publication, err := w.fetched(ctx, *p)
		if err == nil && publication.settings != nil && publication.settings.Personal != nil {
			err = script.Errorf(script.Invalid, "settings.personal", "is not for change sets: publish the personal version by itself")
		}
		if err == nil {
			var spec script.Spec
			if publication.settings != nil {
				spec = publication.settings.Spec
			}
			err = w.check(publication.version, publication.source, spec)
		}
		if err != nil {
			return ofMember(p.Name.String(), err)
		}
		w.publications = append(w.publications, publication)
		total += len(publication.source)
		if publication.settings != nil {
			total += len(publication.settings.Document())
		}
	}
	for _, v := range w.req.Values {
		total += len(v.Content)
	}
	if total > script.MaxChangeSetBytes {
		return script.Errorf(script.Invalid, "scripts", "and values have %d bytes together: a change set has at most %d (1 MiB): put large values by themselves", total, script.MaxChangeSetBytes)
	}
	return nil
}

// noteFor is the note of each script and value.
func (w *changeSetWrite) noteFor() string { return changeSetNote(w.req.Name, w.req.Note) }

func changeSetNote(name, note string) string {
	text := "change set " + name
	if note != "" {
		text += ": " + note
	}
	return Printable(text, MaxNoteBytes)
}

func (w *changeSetWrite) validateValues() error {
	for i, v := range w.req.Values {
		if err := w.put(v).validate(); err != nil {
			return ofMember(fmt.Sprintf("values[%d]", i), err)
		}
		if slices.ContainsFunc(w.req.Values[:i], func(other StagedContent) bool { return other.Key == v.Key }) {
			return script.Errorf(script.Invalid, "values.key", "%s is there twice", v.Key)
		}
	}
	slices.SortFunc(w.req.Values, func(a, b StagedContent) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// put is the write of a value.
func (w *changeSetWrite) put(v StagedContent) valueRequest {
	return valueRequest{
		key: script.ValueKey{Tenant: w.req.Tenant, Key: v.Key}, author: w.req.Author, note: w.noteFor(), by: w.req.By,
		change: script.ChangePut, content: v.Content,
	}
}

// sign computes the fingerprint of what is requested.
func (w *changeSetWrite) sign() error {
	scripts := make([]any, len(w.publications))
	for i, p := range w.publications {
		scripts[i] = []any{w.req.Scripts[i].Name, p.payload()}
	}
	values := map[string]script.Digest{}
	for _, v := range w.req.Values {
		values[v.Key] = script.DigestOf(v.Content)
	}
	text, err := json.Marshal([]any{scripts, values, w.plan, w.req.Owner})
	if err != nil {
		return script.Errorf(script.Internal, "", "encode the change set %s: %w", w.req.Name, err)
	}
	w.fingerprint = script.DigestOf(text)
	return nil
}

// decide returns the writes that make the change set from the present releases.
func (w *changeSetWrite) decide(ctx context.Context) (*together, error) {
	if err := w.lookUp(ctx); err != nil {
		return nil, err
	}
	releases := make([]script.Release, len(w.publications))
	var held []script.Release
	for i, p := range w.req.Scripts {
		cur, err := w.current(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		if live(cur) && cur.Hold != nil {
			held = append(held, cur)
		}
		releases[i], _ = recorded(cur)
	}
	if err := w.mayPass(held); err != nil {
		return nil, err
	}
	changed, err := w.changedValues(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.choosePlan(releases); err != nil {
		return nil, err
	}
	if err := w.resolveAll(ctx, releases); err != nil {
		return nil, err
	}
	if err := w.choose(ctx, releases, len(changed) > 0); err != nil {
		return nil, err
	}
	if err := w.mayReplace(ctx); err != nil {
		return nil, err
	}
	w.describe(releases, changed)
	set := w.membership()
	w.repeated = w.repeats(releases, set)
	out := &together{set: w.req.Name, dry: w.req.DryRun}
	for i := range w.publications {
		out.scripts = append(out.scripts, w.write(ctx, i, set, releases[i].Revision))
	}
	for _, v := range changed {
		if w.atOnce {
			out.values = append(out.values, w.put(v))
		} else {
			out.staged = append(out.staged, w.put(v))
		}
	}
	return out, nil
}

// changedValues returns the values whose contents differ from what is live.
func (w *changeSetWrite) changedValues(ctx context.Context) (changed []StagedContent, err error) {
	for _, v := range w.req.Values {
		data, err := w.store.DataUsage(ctx, script.ValueKey{Tenant: w.req.Tenant, Key: v.Key})
		if err != nil {
			return nil, err
		}
		if cur := data.Value; cur.Revision == 0 || cur.Deleted || cur.Digest != script.DigestOf(v.Content) {
			changed = append(changed, v)
		}
	}
	return changed, nil
}

// membership returns the part of each candidate that names the change set, and nil without candidates.
func (w *changeSetWrite) membership() *script.Membership {
	set := &script.Membership{Name: w.next.Name, Attempt: w.next.Attempt, Plan: w.plan}
	for i, p := range w.req.Scripts {
		if w.members[i] {
			set.Scripts = append(set.Scripts, p.Name.Script)
		}
	}
	if len(set.Scripts) == 0 || w.atOnce {
		return nil
	}
	slices.Sort(set.Scripts)
	for _, v := range w.next.Values {
		set.Values = append(set.Values, v.StagedValue)
	}
	return set
}

// write returns the write of the script with the index. The revision is the one that the script had when
// the registry found out who is part of the change set.
func (w *changeSetWrite) write(ctx context.Context, i int, set *script.Membership, seen script.Revision) writeRequest {
	p, req := w.publications[i], w.req.Scripts[i]
	if w.members[i] {
		p.set, p.atOnce = set, set == nil
	}
	p.liftHold = w.req.LiftHold
	return writeRequest{
		Write: req.Write, change: script.ChangePublish, dry: w.req.DryRun,
		prepare: func(d *decision) error { return w.complete(ctx, d) },
		decide: func(cur script.Release, at moment) (decision, error) {
			if cur.Revision != seen {
				return decision{}, script.Errorf(script.Conflict, fieldRevision, "%s was changed by somebody else first", cur.Name)
			}
			if w.members[i] && w.repeated {
				d := unchanged(cur)
				d.version = cur.Candidate.Version
				return d, nil
			}
			d, err := decidePublish(cur, stays(cur, p), w.specs(ctx), req.Write, at)
			if w.members[i] && p.enables(cur) {
				d.before = 0 // a rollback disables it again
			}
			return d, err
		},
	}
}

// describe prepares the next record, without the versions.
func (w *changeSetWrite) describe(releases []script.Release, values []StagedContent) {
	w.next = script.ChangeSet{
		Tenant: w.req.Tenant, Name: w.req.Name, State: script.ChangeSetOnTrial, Plan: w.plan, Fingerprint: w.fingerprint,
		Author: Attribution(w.req.By, w.req.Author), Note: w.req.Note, Attempt: w.before.Attempt + 1,
	}
	if w.atOnce {
		w.next.State = script.ChangeSetLive
	}
	for _, cur := range releases {
		w.next.Attempt = max(w.next.Attempt, uint64(cur.Revision)+1)
	}
	for _, v := range values {
		w.next.Values = append(w.next.Values, script.ChangedValue{StagedValue: script.StagedValue{Key: v.Key, Digest: script.DigestOf(v.Content), Size: len(v.Content)}})
	}
}

// record adds the record of the change set to the transaction.
func (w *changeSetWrite) record(m *madeTogether, now time.Time) error {
	if w.repeated { // other changes, such as of a history limit, are not part of it
		return nil
	}
	set := &w.next
	set.Scripts, set.CreatedAt, set.ChangedAt = nil, now, now
	for i, d := range m.scripts {
		if !w.members[i] || !d.changed {
			continue
		}
		changed := script.ChangedScript{Name: d.release.Name.Script, Version: d.version.Number, Digest: d.version.Digest, Before: d.before}
		set.Scripts = append(set.Scripts, changed)
	}
	slices.SortFunc(set.Scripts, func(a, b script.ChangedScript) int { return strings.Compare(a.Name, b.Name) })
	for i := range set.Values {
		noteVersions(&set.Values[i], m.values)
	}
	if len(set.Scripts)+len(set.Values) == 0 {
		return nil // settings of releases alone changed
	}
	m.commit.Set, m.commit.SetGuard, m.commit.Drop = set, w.before.Revision, w.drop
	return nil
}

// noteVersions has the value say which version it has since, and which it had before.
func noteVersions(v *script.ChangedValue, commits []ValueCommit) {
	for i := range commits {
		if c := &commits[i]; c.Value.Key.Key == v.Key {
			v.Version, v.Before = c.Value.Version, c.Before
		}
	}
}
