package registry

import (
	"context"
	"iter"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ImportRequest says how to import.
type ImportRequest struct {
	By     access.Identity
	Author string // as in Write
	Note   string
	// Overwrite replaces what is there and differs, and gives numbers that a
	// deleted script had to the archive's versions; both are a Conflict otherwise.
	Overwrite bool
	DryRun    bool // check everything, store nothing
}

// ImportResult counts scripts, and what else was stored.
type ImportResult struct {
	Created   int
	Unchanged int // were so already
	Replaced  int
	Values    int // stored, not those that were so already
	Tenants   int // whose settings were stored, not those that were so already
}

// maxPendingBytes bounds the sources that wait for the script that needs them.
const maxPendingBytes = 128 << 20

// Import stores what Export yielded, exact to the version numbers. Its history gets
// one more line. It needs the role admin for the tenant of each script. While too many
// imports are under way it is Overloaded.
//
// Each script is stored whole, in one transaction, or not at all. The first error
// ends the import; what came before it stays stored, and importing the archive again
// finds them unchanged.
func (r *Registry) Import(ctx context.Context, req ImportRequest, items iter.Seq2[Item, error]) (ImportResult, error) {
	if err := validateAuthor(req.Author, req.Note); err != nil {
		return ImportResult{}, err
	}
	// Sources come before the script that says whose they are.
	if err := mayAdministerAny(req.By); err != nil {
		return ImportResult{}, err
	}
	select {
	case r.importing <- struct{}{}:
		defer func() { <-r.importing }()
	default:
		return ImportResult{}, script.Errorf(script.Overloaded, "", "%d imports are under way, which is as many as there may be at a time: try again", maxImports)
	}
	im := importer{
		registry: r, req: req,
		pending: map[script.Digest][]byte{}, sizes: map[script.Digest]int{}, checked: map[program]bool{},
		settings: map[string]script.TenantSettings{},
	}
	for item, err := range items {
		if err == nil {
			err = im.take(ctx, item)
		}
		if err != nil {
			return im.result, err
		}
	}
	if len(im.pending) > 0 {
		return im.result, script.Errorf(script.Invalid, "archive",
			"it ends with %d sources whose script is missing: it is torn", len(im.pending))
	}
	return im.result, nil
}

// importer is one import under way.
type importer struct {
	registry *Registry
	req      ImportRequest
	result   ImportResult

	pending      map[script.Digest][]byte // sources that no script has needed yet
	pendingBytes int
	sizes        map[script.Digest]int // of sources that came
	checked      map[program]bool      // came, and compiles

	settings map[string]script.TenantSettings // of the tenants so far
}

// program is what is compiled.
type program struct {
	digest             script.Digest
	engine, entrypoint string
	runtime            script.Runtime
}

func (im *importer) take(ctx context.Context, item Item) error {
	switch {
	case item.Source != nil:
		return im.source(*item.Source)
	case item.Record != nil:
		return im.record(ctx, *item.Record)
	case item.Value != nil:
		return im.value(ctx, *item.Value)
	case item.Tenant != nil:
		return im.tenant(ctx, *item.Tenant)
	}
	return nil
}

func (im *importer) source(source Source) error {
	if len(source.Content) == 0 {
		return script.Errorf(script.Invalid, "source", "must not be empty")
	}
	if n := len(source.Content); n > script.MaxArtifactBytes {
		return script.Errorf(script.Invalid, "source", "has %d bytes: at most %d (4 MiB) are allowed", n, script.MaxArtifactBytes)
	}
	if digest := script.DigestOf(source.Content); digest != source.Digest {
		return script.Errorf(script.Invalid, "source", "the archive has a source as %s which is %s: it was altered or is torn", source.Digest, digest)
	}
	if _, twice := im.pending[source.Digest]; twice {
		return nil
	}
	im.pendingBytes += len(source.Content)
	if im.pendingBytes > maxPendingBytes {
		return script.Errorf(script.Limit, "source", "the archive has %d MiB of sources before any script that needs them", maxPendingBytes>>20)
	}
	im.pending[source.Digest] = source.Content
	im.sizes[source.Digest] = len(source.Content)
	return nil
}

func (im *importer) record(ctx context.Context, rec Record) error {
	if err := rec.validate(); err != nil {
		return err
	}
	if err := im.req.By.Check(access.Admin, rec.Release.Name.Tenant); err != nil {
		return err
	}
	if err := im.registry.publishers.Trust().Release(&rec.Release); err != nil {
		return err
	}
	cur, err := im.registry.current(ctx, rec.Release.Name)
	if err != nil {
		return err
	}
	if rec.recorded != nil {
		document := rec.recorded.Document()
		if err := im.source(Source{Digest: script.DigestOf(document), Content: document}); err != nil {
			return err
		}
	}
	for _, v := range rec.Versions {
		spec, err := im.specOf(ctx, rec.Release.Name, cur, v)
		if err == nil {
			err = im.check(ctx, cur, v, spec)
		}
		if err != nil {
			return rec.blame(err)
		}
	}
	outcome, err := im.store(ctx, rec)
	im.registry.onWrite(script.ChangeImport, outcome)
	if err != nil {
		return rec.blame(err)
	}
	for digest := range (script.Object{Release: &rec.Release}).Retained {
		im.pendingBytes -= len(im.pending[digest])
		delete(im.pending, digest)
	}
	return nil
}

// check compiles a version of the script, which is cur, once for all that are the same
// program.
func (im *importer) check(ctx context.Context, cur script.Release, v script.Version, spec script.Spec) error {
	size, came := im.sizes[v.Digest]
	p := program{digest: v.Digest, engine: v.Engine, entrypoint: v.Entrypoint, runtime: spec.Runtime}
	if !came || !im.checked[p] {
		source, err := im.sourceOf(ctx, cur, v.Number, v.Digest)
		if err != nil {
			return err
		}
		if source != nil {
			if err := validateSource(v.Engine, source); err != nil {
				return err
			}
			if err := im.registry.check(v, source, script.Spec{Runtime: spec.Runtime}); err != nil {
				return err
			}
			size = len(source)
		}
		im.checked[p] = came
	}
	if size != v.Size {
		return script.Errorf(script.Invalid, "versions", "version %d has %d bytes, its source %d: the archive was altered", v.Number, v.Size, size)
	}
	return nil
}

// specOf returns what a version of the script, which is cur, runs with, and refuses what it cannot run with. It is the
// zero Spec if a dry run has seen it before.
func (im *importer) specOf(ctx context.Context, name script.Name, cur script.Release, v script.Version) (script.Spec, error) {
	document, err := im.sourceOf(ctx, cur, v.Number, v.Spec)
	if err != nil || document == nil {
		return script.Spec{}, err
	}
	spec, err := script.ParseSpec(document)
	if err == nil {
		spec, err = normalizeSpec(spec)
	}
	if err != nil || v.With(spec) != v {
		return spec, script.Errorf(script.Invalid, "versions", "version %d does not have the settings that its digest says: the archive was altered", v.Number)
	}
	if err := spec.CheckEngine("settings", v.Engine); err != nil {
		return spec, err
	}
	if p := spec.Personal; p != nil {
		if err := p.Validate("settings", name, spec, p.Until.Add(-1)); err != nil { // the collector deletes what has expired
			return spec, err
		}
	}
	return spec, im.checkLibraries(name, v, spec.Libraries)
}

// checkLibraries refuses libraries that a publish would refuse.
func (im *importer) checkLibraries(of script.Name, v script.Version, libraries []script.Library) error {
	if err := script.CheckLibraries(of, libraries); err != nil {
		return err
	}
	if err := script.CheckProgramSize(v.Size, libraries); err != nil {
		return err
	}
	for _, l := range libraries {
		p := program{digest: l.Digest, engine: v.Engine}
		if im.checked[p] {
			continue
		}
		if err := im.registry.check(script.Version{Engine: v.Engine}, []byte(l.Source), script.Spec{Library: true}); err != nil {
			return err
		}
		im.checked[p] = true
	}
	return nil
}

// sourceOf returns the source, or the document of what it runs with, of a version of the
// script, which is cur. It is nil for one that a dry run has seen before and did not keep.
func (im *importer) sourceOf(ctx context.Context, cur script.Release, number uint64, digest script.Digest) ([]byte, error) {
	if source, ok := im.pending[digest]; ok {
		return source, nil
	}
	// Who knows no more of a source than its digest does not get it: it may be
	// another tenant's.
	_, came := im.sizes[digest]
	retained := false
	for d := range (script.Object{Release: &cur}).Retained {
		retained = retained || d == digest
	}
	if came || retained {
		source, err := im.registry.store.Source(ctx, digest)
		if script.KindOf(err) != script.NotFound {
			return source, err
		}
	}
	if came && im.req.DryRun {
		return nil, nil
	}
	return nil, script.Errorf(script.Invalid, "versions",
		"the source %s of version %d is neither before it in the archive nor a source of this script: the archive is torn", digest.Short(), number)
}

// store makes the script what the archive says, unless it is so.
func (im *importer) store(ctx context.Context, rec Record) (Outcome, error) {
	for attempt := 1; ; attempt++ {
		cur, err := im.registry.current(ctx, rec.Release.Name)
		if err != nil {
			return Failed, err
		}
		if sameScript(cur, rec.Release) {
			im.result.Unchanged++
			return Unchanged, nil
		}
		if err := im.mayReplace(cur, rec); err != nil {
			return Conflict, err
		}
		freeze, err := im.registry.store.Freeze(ctx)
		if err != nil {
			return Failed, err
		}
		if freeze.Covers(rec.Release.Name, im.registry.now()) {
			return Refused, freeze.Refusal("import " + rec.Release.Name.String())
		}
		if im.req.DryRun {
			im.count(cur)
			return Unchanged, nil
		}
		if attempt == 1 {
			if err := im.pace(ctx, rec); err != nil {
				return Failed, err
			}
		}
		err = im.restore(ctx, cur, rec, freeze.Revision)
		if err == nil {
			im.count(cur)
			return Changed, nil
		}
		// A Conflict: somebody else changed it. NotFound: a source that nothing
		// needed yet was collected; those that came with this script are put again.
		again := map[script.Kind]int{script.Conflict: attempts, script.NotFound: 3}
		if attempt >= again[script.KindOf(err)] {
			return outcomeOf(decision{}, false, err), err
		}
	}
}

// pace waits until the tenant's rates allow the script.
func (im *importer) pace(ctx context.Context, rec Record) error {
	if err := im.registry.space(); err != nil {
		return err
	}
	tenant := rec.Release.Name.Tenant
	settings, ok := im.settings[tenant]
	if !ok {
		data, err := im.registry.store.DataUsage(ctx, script.ValueKey{Tenant: tenant})
		if err != nil {
			return err
		}
		settings = data.Tenant.Settings
		im.settings[tenant] = settings
	}
	return im.registry.rates.wait(ctx, tenant, settings, int(sourceBytes(rec.Release)))
}

// mayReplace refuses to make something else of what there is, and of numbers that have
// meant something, unless that is asked for.
func (im *importer) mayReplace(cur script.Release, rec Record) error {
	if im.req.Overwrite {
		return nil
	}
	if live(cur) {
		return script.Errorf(script.Conflict, "name",
			"there is such a script, and it differs from the archive's: import with overwrite to replace it")
	}
	// Of a deleted script nothing is left that says what its versions were.
	if len(rec.Versions) > 0 && rec.Versions[0].Number <= cur.Latest {
		return script.Errorf(script.Conflict, "name",
			"the script was deleted, and had versions up to %d: import with overwrite to give such numbers to the archive's versions", cur.Latest)
	}
	return nil
}

func (im *importer) count(cur script.Release) {
	if live(cur) {
		im.result.Replaced++
	} else {
		im.result.Created++
	}
}

func (im *importer) restore(ctx context.Context, cur script.Release, rec Record, freeze script.Revision) error {
	for digest := range (script.Object{Release: &rec.Release}).Retained {
		source, ok := im.pending[digest]
		if !ok {
			continue
		}
		if _, err := im.registry.store.PutSource(ctx, source); err != nil {
			return err
		}
	}
	restoration := im.restoration(cur, rec)
	restoration.FreezeGuard = freeze
	_, err := im.registry.store.Restore(ctx, restoration)
	return err
}

func (im *importer) restoration(cur script.Release, rec Record) Restoration {
	next := rec.Release
	next.Latest = max(next.Latest, cur.Latest) // numbers are never used again
	next.ChangedAt = im.registry.now().UTC()
	next = candidateAnew(cur, next)
	line := script.HistoryEntry{
		Change:    script.ChangeImport,
		Version:   next.Active.Number,
		Digest:    next.Active.Digest,
		Spec:      next.Active.Spec,
		Pinned:    next.Pinned,
		Held:      next.Hold != nil,
		Candidate: candidateOf(next),
		Author:    Attribution(im.req.By, im.req.Author),
		Note:      im.req.Note,
		Time:      next.ChangedAt,
	}
	w := Write{Name: next.Name, Author: im.req.Author, Note: im.req.Note, By: im.req.By}
	history := append([]script.HistoryEntry{line}, rec.History...)
	return Restoration{
		Guard:   cur.Revision,
		Release: next,
		Version: rec.Versions,
		History: history[:min(len(history), MaxHistory)],
		Audit:   w.auditEntry(Commit{Release: next, Entry: line}, cur.Owner != "" && cur.Owner != next.Owner),
		Source:  im.pending[next.Active.Digest],
	}
}

// candidateAnew is next, which is to take the place of cur, with its candidate at the
// beginning: what it has passed, it has passed on other agents. One that was given up
// stays so.
func candidateAnew(cur, next script.Release) script.Release {
	if next.Candidate == nil {
		return next
	}
	c := script.Candidate{Version: next.Candidate.Version, Spec: next.Candidate.Spec, Attempt: uint64(cur.Revision) + 1, Tries: 1, Since: next.ChangedAt, Failed: next.Candidate.Failed}
	next.Candidate = &c
	return next
}

// value stores a value, unless it is so.
func (im *importer) value(ctx context.Context, rec ValueRecord) error {
	key := rec.Value.Key
	if err := key.Validate(); err != nil {
		return err
	}
	if digest := script.DigestOf(rec.Content); digest != rec.Value.Digest || len(rec.Content) != rec.Value.Size {
		return script.Errorf(script.Invalid, "value", "%s: the archive has %s of %d bytes, which is %s of %d: it was altered or is torn",
			key, rec.Value.Digest, rec.Value.Size, digest, len(rec.Content))
	}
	if err := im.req.By.Check(access.Admin, key.Tenant); err != nil {
		return err
	}
	_, changed, err := im.registry.writeValue(ctx, valueRequest{
		key: key, author: im.req.Author, note: im.req.Note, by: im.req.By, change: script.ChangeImport, content: rec.Content,
		keep: !im.req.Overwrite, dry: im.req.DryRun,
	})
	if changed {
		im.result.Values++
	}
	return err
}

// tenant stores a tenant's settings, unless they are so.
func (im *importer) tenant(ctx context.Context, t script.Tenant) error {
	_, changed, err := im.registry.writeTenant(ctx, tenantRequest{
		SetTenant: SetTenant{Tenant: t.Name, Settings: &t.Settings, Author: im.req.Author, By: im.req.By},
		note:      im.req.Note, change: script.ChangeImport, keep: !im.req.Overwrite, dry: im.req.DryRun,
	})
	if changed {
		im.result.Tenants++
	}
	return err
}
