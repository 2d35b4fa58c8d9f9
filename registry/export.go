package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ExportRequest asks for an archive.
type ExportRequest struct {
	By     access.Identity
	Tenant string // all tenants if empty
}

// Export yields all there is, or what is of one tenant, as of one moment: the tenants'
// settings, the values, and the scripts with every retained version, the history, and
// the sources, each before the first script that needs it; and of deleted scripts the
// numbers that are not used again. It needs the role admin. An error is the last that
// it yields.
func (r *Registry) Export(ctx context.Context, req ExportRequest) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		e := exporter{store: r.store, tenant: req.Tenant, yield: yield, sent: map[script.Digest]bool{}, bad: map[script.Digest]bool{}, seen: map[script.Name]bool{}}
		err := r.export(ctx, req, &e)
		if err != nil && !e.left {
			yield(Item{}, err)
		}
	}
}

func (r *Registry) export(ctx context.Context, req ExportRequest, e *exporter) error {
	if req.Tenant != "" {
		if err := script.ValidateLabel("tenant", req.Tenant); err != nil {
			return err
		}
	}
	if err := mayAdminister(req.By, req.Tenant); err != nil {
		return err
	}
	snapshot, err := r.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	header := Header{Fleet: snapshot.Fleet, Head: snapshot.Head, ExportedAt: r.now().UTC(), Tenant: req.Tenant}
	if !e.send(Item{Header: &header}) {
		return nil
	}
	for _, part := range []func() error{
		func() error { return e.tenants(snapshot) }, // they bound the values
		func() error { return e.values(ctx, snapshot) },
		func() error { return e.scripts(ctx, snapshot) },
		func() error { return e.versionFloors(ctx) },
	} {
		if err := part(); err != nil || e.left {
			return err
		}
	}
	return nil
}

// exporter sends the items of one archive.
type exporter struct {
	store  Store
	tenant string
	yield  func(Item, error) bool
	left   bool // nobody wants more
	sent   map[script.Digest]bool
	bad    map[script.Digest]bool // what is stored is something else
	seen   map[script.Name]bool
}

// send reports whether more is wanted.
func (e *exporter) send(item Item) bool {
	e.left = e.left || !e.yield(item, nil)
	return !e.left
}

// without sends the name of what is left out, if the error says that it is one object that
// cannot be read; else it returns the error.
func (e *exporter) without(err error) error {
	u, ok := errors.AsType[*Unreadable](err)
	if !ok {
		return err
	}
	if e.wants(u.TenantName()) {
		if name, ok := u.Script(); ok {
			e.seen[name] = true
		}
		e.send(Item{Unreadable: u})
	}
	return nil
}

func (e *exporter) wants(tenant string) bool { return e.tenant == "" || tenant == e.tenant }

func (e *exporter) tenants(snapshot Snapshot) error {
	for tenant, err := range snapshot.Tenants {
		if err != nil {
			if err := e.without(err); err != nil || e.left {
				return err
			}
			continue
		}
		if !tenant.Deleted && e.wants(tenant.Name) && !e.send(Item{Tenant: &tenant}) {
			return nil
		}
	}
	return nil
}

func (e *exporter) values(ctx context.Context, snapshot Snapshot) error {
	var batch []script.Value
	for value, err := range snapshot.Values {
		if err != nil {
			if err := e.without(err); err != nil || e.left {
				return err
			}
			continue
		}
		if value.Deleted || !e.wants(value.Key.Tenant) {
			continue
		}
		if batch = append(batch, value); len(batch) < exportBatch {
			continue
		}
		if err := e.contents(ctx, batch); err != nil || e.left {
			return err
		}
		batch = batch[:0]
	}
	return e.contents(ctx, batch)
}

// contents sends the values with their contents.
func (e *exporter) contents(ctx context.Context, values []script.Value) error {
	digests := make([]script.Digest, len(values))
	for i, v := range values {
		digests[i] = v.Digest
	}
	sources, err := e.store.Sources(ctx, digests)
	if err != nil {
		return err
	}
	contents := make(map[script.Digest][]byte, len(sources))
	for _, source := range sources {
		contents[source.Digest] = source.Content
	}
	for _, v := range values {
		content, ok := contents[v.Digest]
		if !ok {
			return script.Errorf(script.Unavailable, "", "%s was changed while the export ran, and what it was is gone: export again", v.Key)
		}
		if script.DigestOf(content) != v.Digest {
			if err := e.without(damaged(script.Object{Value: &v}, v.Digest)); err != nil || e.left {
				return err
			}
			continue
		}
		if !e.send(Item{Value: &ValueRecord{Value: v, Content: content}}) {
			return nil
		}
	}
	return nil
}

func (e *exporter) scripts(ctx context.Context, snapshot Snapshot) error {
	for release, err := range snapshot.Releases {
		if err != nil {
			if err := e.without(err); err != nil || e.left {
				return err
			}
			continue
		}
		if !e.wants(release.Name.Tenant) {
			continue
		}
		e.seen[release.Name] = true
		versions, history, err := e.store.Record(ctx, release, snapshot.At)
		if err != nil {
			return err
		}
		if err := e.sources(ctx, release); err != nil || e.left {
			return err
		}
		if bad, ok := e.damaged(release); ok {
			if err := e.without(damaged(script.Object{Release: &release}, bad)); err != nil || e.left {
				return err
			}
			continue
		}
		if !e.send(Item{Record: &Record{Release: release, Versions: versions, History: history}}) {
			return nil
		}
	}
	return nil
}

// damaged returns the digest of a source that the release retains, and of which something else
// is stored.
func (e *exporter) damaged(release script.Release) (bad script.Digest, found bool) {
	for digest := range (script.Object{Release: &release}).Retained {
		if e.bad[digest] {
			return digest, true
		}
	}
	return bad, false
}

// damaged is the error for an object of which something else is stored than it needs.
func damaged(o script.Object, digest script.Digest) *Unreadable {
	return &Unreadable{Key: o.Key(), Revision: o.Revision(), Reason: fmt.Sprintf("what is stored as %s has another digest", digest)}
}

// exportBatch is how many sources, of up to 1 MiB each, are in memory at once.
const exportBatch = 8

// sources sends those that the release needs and that were not sent yet.
func (e *exporter) sources(ctx context.Context, release script.Release) error {
	var missing []script.Digest
	for digest := range (script.Object{Release: &release}).Retained {
		if !e.sent[digest] {
			e.sent[digest] = true
			missing = append(missing, digest)
		}
	}
	for batch := range slices.Chunk(missing, exportBatch) {
		sources, err := e.store.Sources(ctx, batch)
		if err != nil {
			return err
		}
		if len(sources) < len(batch) {
			return script.Errorf(script.Unavailable, "",
				"%s was changed while the export ran, and a source of it is gone: export again", release.Name)
		}
		for _, source := range sources {
			if script.DigestOf(source.Content) != source.Digest {
				e.bad[source.Digest] = true
				continue
			}
			if !e.send(Item{Source: &source}) {
				return nil
			}
		}
	}
	return nil
}

// versionFloors sends the numbers of deleted scripts that are older than any tombstone.
// They are read after the snapshot, so that one whose tombstone was collected in the
// meantime is not missed; it was seen.
func (e *exporter) versionFloors(ctx context.Context) error {
	for versionFloor, err := range e.store.VersionFloors(ctx) {
		if err != nil {
			return err
		}
		if e.seen[versionFloor.Name] || !e.wants(versionFloor.Name.Tenant) {
			continue
		}
		if !e.send(Item{Record: &Record{Release: versionFloor}}) {
			return nil
		}
	}
	return nil
}
