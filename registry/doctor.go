package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Checkup is the part of a store that Doctor looks at besides. Errors are as those of a
// Store.
type Checkup interface {
	// VersionRecords yields the records of all versions.
	VersionRecords(ctx context.Context) iter.Seq2[VersionRecord, error]
	// RepairVersion makes v the record of the version with the number, or removes the record
	// if v is nil. It is a Conflict if the release has changed.
	RepairVersion(ctx context.Context, release script.Release, number uint64, v *script.Version) error
	// PastSource returns what was stored with the digest before something else was: NotFound
	// if the store does not know that any more.
	PastSource(ctx context.Context, digest script.Digest) ([]byte, error)
	// ReplaceSource stores the source whatever is there.
	ReplaceSource(ctx context.Context, source Source) error
	// AcceptLoss has Removals say that the loss of so many objects is accepted. It is a Conflict if
	// the revision of the freeze is another.
	AcceptLoss(ctx context.Context, objects int64, freeze script.Revision, audit script.AuditEntry) (script.Revision, error)
}

// VersionRecord is the record of a version, or says why it cannot be read.
type VersionRecord struct {
	Name     script.Name
	Number   uint64
	Revision script.Revision
	Reason   string // "" of one that can be read
}

// DoctorRequest asks what is damaged in the store.
type DoctorRequest struct {
	By     access.Identity
	Tenant string // all tenants if empty
	Script string // all scripts of the tenant, its values and settings, if empty
	// Repair what can be repaired; Author and Note are as in Write.
	Repair       bool
	FromAgents   bool // ask agents for what the store has forgotten
	Author, Note string
}

// Finding is something that is damaged.
type Finding struct {
	// Key names an object, or is "versions/<tenant>/<name>/<number>", "kvhistory/<tenant>/<key>" or
	// "sources/<digest>".
	Key      string
	Revision script.Revision // of the record; 0 of a source
	Reason   string
	// Remedy says what a repair does, or did; or what to do where it can do nothing.
	Remedy string
	// Repairable says that a repair is possible, and Repaired that it was made.
	Repairable, Repaired bool
}

// Doctor looks for records that cannot be read and for sources and contents of values that
// are missing or do not match their digest, and repairs them if asked to. It needs the role
// admin. An error is the last that it yields.
func (r *Registry) Doctor(ctx context.Context, req DoctorRequest) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		d := doctor{registry: r, req: req, yield: yield, needed: map[script.Digest][]string{}, recalled: map[string]*lost{}}
		if err := d.run(ctx); err != nil && !d.left {
			yield(Finding{}, err)
		}
	}
}

// doctor is one round of a Doctor.
type doctor struct {
	registry *Registry
	req      DoctorRequest
	yield    func(Finding, error) bool
	left     bool // nobody wants more

	fleet      string
	recalled   map[string]*lost // what agents were asked for
	unreadable []Unreadable
	histories  []Unreadable // of values
	freeze     script.Freeze
	releases   map[script.Name]script.Release
	needed     map[script.Digest][]string // the keys of the objects that need it
}

func (d *doctor) run(ctx context.Context) error {
	req := d.req
	if req.Script != "" || req.Tenant != "" {
		if err := validateAuditFilter(AuditFilter{Tenant: req.Tenant, Script: req.Script}); err != nil {
			return err
		}
	}
	if err := mayAdminister(req.By, req.Tenant); err != nil {
		return err
	}
	if req.Repair {
		if err := validateAuthor(req.Author, req.Note); err != nil {
			return err
		}
	}
	if d.registry.checkup == nil {
		return script.Errorf(script.Unavailable, "", "the registry's store cannot be checked")
	}
	if req.FromAgents && d.registry.copies == nil {
		return script.Errorf(script.Unavailable, "from_agents", "the registry has no NATS to ask agents over")
	}
	for _, part := range []func(context.Context) error{d.look, d.recall, d.objects, d.look, d.versions, d.valueHistories, d.sources} {
		if err := part(ctx); err != nil || d.left {
			return err
		}
	}
	return nil
}

func (d *doctor) wants(tenant string, name string) bool {
	return (d.req.Tenant == "" || d.req.Tenant == tenant) && (d.req.Script == "" || d.req.Script == name)
}

func (d *doctor) tell(f Finding) { d.left = d.left || !d.yield(f, nil) }

// look reads all objects.
func (d *doctor) look(ctx context.Context) error {
	snapshot, err := d.registry.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	d.fleet, d.freeze, d.unreadable, d.releases = snapshot.Fleet, snapshot.Freeze, nil, map[script.Name]script.Release{}
	clear(d.needed)
	for o, err := range snapshot.Objects() {
		if u, ok := errors.AsType[*Unreadable](err); ok {
			d.unreadable = append(d.unreadable, *u)
			continue
		}
		if err != nil {
			return err
		}
		name := ""
		if o.Release != nil {
			name = o.Release.Name.Script
			d.releases[o.Release.Name] = *o.Release
		}
		if !d.wants(o.TenantName(), name) {
			continue
		}
		for digest := range o.Retained {
			if keys := d.needed[digest]; !slices.Contains(keys, o.Key()) {
				d.needed[digest] = append(keys, o.Key())
			}
		}
	}
	return d.lookAtHistories(snapshot)
}

// objects tells of records of objects, and of the freeze, that cannot be read.
func (d *doctor) objects(ctx context.Context) error {
	if d.freeze.Unreadable != "" && d.req.Tenant == "" {
		d.tell(Finding{
			Key: "meta/freeze", Revision: d.freeze.Revision, Reason: d.freeze.Unreadable,
			Remedy: "everything is frozen, since nobody knows what was: scriptctl thaw, or freeze it again (scriptctl freeze)",
		})
	}
	for _, lost := range slices.Backward(d.unreadable) { // settings first: they bound the others
		u := &lost
		name, _ := u.Script()
		if !d.wants(u.TenantName(), name.Script) {
			continue
		}
		f := Finding{Key: u.Key, Revision: u.Revision, Reason: u.Reason}
		var repair func(context.Context) error
		var err error
		switch _, isScript := u.Script(); {
		case isScript:
			repair, err = d.script(ctx, u, name, &f)
		case u.Kind() == script.Values:
			repair, err = d.value(ctx, u, &f)
		case u.Kind() == script.Tenants:
			repair = d.tenant(u, &f)
		default:
			f.Remedy = "remove the key with etcdctl: no script can have this name"
		}
		if err != nil {
			return err
		}
		d.treat(ctx, f, repair)
		if d.left {
			return nil
		}
	}
	return nil
}

// treat repairs what was found, if asked to and possible, and tells of it.
func (d *doctor) treat(ctx context.Context, f Finding, repair func(context.Context) error) {
	f.Repairable = repair != nil
	if f.Repairable && d.req.Repair {
		if err := repair(ctx); err != nil {
			f.Remedy = fmt.Sprintf("the repair failed: %v", err)
		} else {
			f.Repaired = true
		}
	}
	d.tell(f)
}

func (d *doctor) script(ctx context.Context, u *Unreadable, name script.Name, f *Finding) (func(context.Context) error, error) {
	var copied *script.Release
	if l := d.recalled[u.Key]; l != nil && l.object != nil {
		copied = l.object.Release
	}
	s, err := d.registry.salvage(ctx, name, u, copied)
	if err != nil {
		return nil, err
	}
	parts := fmt.Sprintf("make it of its versions, history and audit trail: version %d is active; %s", s.release.Active.Number, s.lost())
	switch {
	case s.exact:
		f.Remedy = fmt.Sprintf("restore it as it was at revision %d%s", u.lastRevision(), d.from(u.Key))
	case s.release.Deleted:
		f.Remedy = d.otherwise(u.Key, "publish it with --force, or delete it: nothing is left of it here")
		return nil, nil
	case d.req.FromAgents: // another agent may come back with all of it
		f.Remedy = d.otherwise(u.Key, "a repair without --from-agents does this: "+parts)
		return nil, nil
	default:
		f.Remedy = parts + ", unless an agent has them: run scriptctl doctor --repair --from-agents before"
	}
	return func(ctx context.Context) error {
		w := Write{Name: name, Author: d.req.Author, Note: d.req.Note, By: d.req.By, ExpectedRevision: u.Revision, Force: true}
		_, err := d.registry.write(ctx, writeRequest{
			Write: w, change: script.ChangeRepair, copied: copied,
			decide: func(cur script.Release, _ moment) (decision, error) { return unchanged(cur), nil },
		})
		return err
	}, nil
}

// lastRevision is the revision of the last good object; 0 if nobody knows it.
func (u *Unreadable) lastRevision() script.Revision {
	if u.Last == nil {
		return 0
	}
	return u.Last.Revision()
}

func (d *doctor) tenant(u *Unreadable, f *Finding) func(context.Context) error {
	if u.Last == nil {
		f.Remedy = d.otherwise(u.Key, "set it again (scriptctl tenant set)")
		return nil
	}
	f.Remedy = fmt.Sprintf("restore them as they were at revision %d%s", u.lastRevision(), d.from(u.Key))
	req := SetTenant{Tenant: u.Last.Tenant.Name, Author: d.req.Author, ExpectedRevision: u.Revision, By: d.req.By}
	if !u.Last.Deleted() {
		req.Settings = &u.Last.Tenant.Settings
	}
	return func(ctx context.Context) error {
		_, _, err := d.registry.writeTenant(ctx, tenantRequest{SetTenant: req, change: script.ChangeRepair, note: d.req.Note})
		return err
	}
}

// versions tells of records of versions that cannot be read, and of those that are missing.
func (d *doctor) versions(ctx context.Context) error {
	whole, alone := map[script.Ref]bool{}, map[script.Name]int{}
	for v, err := range d.registry.checkup.VersionRecords(ctx) {
		if err != nil {
			return err
		}
		whole[script.Ref{Name: v.Name, Version: v.Number}] = true
		if !d.wants(v.Name.Tenant, v.Name.Script) {
			continue
		}
		if v.Reason == "" {
			if _, known := d.releases[v.Name]; !known {
				alone[v.Name]++
			}
			continue
		}
		if err := d.version(ctx, v); err != nil || d.left {
			return err
		}
	}
	byName := func(a, b script.Name) int { return strings.Compare(a.String(), b.String()) }
	for _, name := range slices.SortedFunc(maps.Keys(alone), byName) {
		if d.alone(ctx, name, alone[name]); d.left {
			return nil
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(d.releases), byName) {
		for _, v := range d.releases[name].Retained {
			if whole[script.Ref{Name: name, Version: v.Number}] || !d.wants(name.Tenant, name.Script) {
				continue
			}
			if err := d.version(ctx, VersionRecord{Name: name, Number: v.Number, Reason: "the record is missing"}); err != nil || d.left {
				return err
			}
		}
	}
	return nil
}

// alone tells of a script of which the store has so many versions and no release: a delete
// removes both.
func (d *doctor) alone(ctx context.Context, name script.Name, versions int) {
	release, err := d.registry.store.Release(ctx, name)
	if err == nil && !release.Deleted || err != nil && script.KindOf(err) != script.NotFound {
		return // it was made in the meantime, or cannot be read, which doctor has told of
	}
	d.tell(Finding{
		Key: wire.ReleaseKey(name), Reason: fmt.Sprintf("the record is missing, and %d of its versions are there", versions),
		Remedy: "import it from an export, restore etcd from a snapshot, or publish it again; agents keep it if they lost many records at once",
	})
}

func (d *doctor) version(ctx context.Context, v VersionRecord) error {
	f := Finding{Key: fmt.Sprintf("versions/%s/%d", v.Name, v.Number), Revision: v.Revision, Reason: v.Reason}
	release, known := d.releases[v.Name]
	retained, ok := release.Retains(v.Number)
	switch {
	case !known:
		f.Remedy = "repair the script first"
		d.tell(f)
		return nil
	case !ok:
		f.Remedy = "remove it: the script does not retain the version"
		d.treat(ctx, f, func(ctx context.Context) error {
			return d.registry.checkup.RepairVersion(ctx, release, v.Number, nil)
		})
		return nil
	}
	lines, err := d.registry.store.History(ctx, v.Name)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line.Change == script.ChangePublish && line.Version == v.Number || line.Candidate == v.Number {
			retained.Author, retained.Note = line.Author, line.Note
		}
	}
	f.Remedy = "make it of the release and the history"
	d.treat(ctx, f, func(ctx context.Context) error {
		return d.registry.checkup.RepairVersion(ctx, release, v.Number, &retained)
	})
	return nil
}

// sources tells of sources and contents of values that are missing or something else.
func (d *doctor) sources(ctx context.Context) error {
	digests := slices.SortedFunc(maps.Keys(d.needed), func(a, b script.Digest) int { return bytes.Compare(a[:], b[:]) })
	for batch := range slices.Chunk(digests, exportBatch) {
		found, err := d.registry.store.Sources(ctx, batch)
		if err != nil {
			return err
		}
		broken := map[script.Digest]string{} // why
		for _, digest := range batch {
			i := slices.IndexFunc(found, func(s Source) bool { return s.Digest == digest })
			if i < 0 {
				broken[digest] = "it is missing"
			} else if got := script.DigestOf(found[i].Content); got != digest {
				broken[digest] = "what is stored has the digest " + got.String()
			}
		}
		if err := d.broken(ctx, broken); err != nil || d.left {
			return err
		}
	}
	return nil
}

// broken tells of the sources that are, and why.
func (d *doctor) broken(ctx context.Context, why map[script.Digest]string) error {
	clear(d.recalled)
	past, forgotten := d.documents(why), map[string][]script.Digest{}
	for digest := range why {
		if past[digest] != nil {
			continue
		}
		content, err := d.registry.checkup.PastSource(ctx, digest)
		switch {
		case err == nil:
			past[digest] = append([]byte{}, content...)
		case script.KindOf(err) != script.NotFound:
			return err
		case d.req.FromAgents && !strings.HasPrefix(d.needed[digest][0], historyPrefix):
			u := Unreadable{Key: d.needed[digest][0]}
			forgotten[u.TenantName()] = append(forgotten[u.TenantName()], digest)
		}
	}
	if err := d.contents(ctx, forgotten); err != nil {
		return err
	}
	for _, digest := range slices.SortedFunc(maps.Keys(why), func(a, b script.Digest) int { return bytes.Compare(a[:], b[:]) }) {
		if d.source(ctx, digest, why[digest], past[digest]); d.left {
			return nil
		}
	}
	return nil
}

func (d *doctor) source(ctx context.Context, digest script.Digest, reason string, content []byte) {
	keys, key := d.needed[digest], wire.SourceKey(digest)
	f := Finding{Key: key, Reason: fmt.Sprintf("%s; %s needs it", reason, keys[0])}
	if len(keys) > 1 {
		f.Reason = fmt.Sprintf("%s; %s and %d others need it", reason, keys[0], len(keys)-1)
	}
	if l := d.recalled[key]; l != nil && content == nil {
		content = l.content
	}
	if content == nil && strings.HasPrefix(keys[0], historyPrefix) { // agents do not have it
		f.Remedy = "put the content again (scriptctl kv put): until then nobody can roll back to this version, and nothing else needs it"
		d.tell(f)
		return
	}
	if content == nil {
		f.Remedy = d.otherwise(key, "import it from an export, or publish another version; agents that have it keep it")
		d.tell(f)
		return
	}
	f.Remedy = "restore it as it was" + d.from(key)
	d.treat(ctx, f, func(ctx context.Context) error {
		return d.registry.checkup.ReplaceSource(ctx, Source{Digest: digest, Content: content})
	})
}
