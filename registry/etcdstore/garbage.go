package etcdstore

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// now is the revision of a read that is of no moment in particular.
const now = 0

// Tombstones implements registry.Garbage.
func (s *Store) Tombstones(ctx context.Context, before time.Time) iter.Seq2[script.Object, error] {
	objects := registry.Snapshot{
		Releases: decoded(ctx, s, s.pages(ctx, "look for tombstones", s.keys.releases(), now), s.keys.decodeRelease),
		Values:   decoded(ctx, s, s.pages(ctx, "look for tombstones", s.keys.values(), now), s.keys.decodeValue),
		Tenants:  decoded(ctx, s, s.pages(ctx, "look for tombstones", s.keys.allSettings(), now), s.keys.decodeTenant),
	}
	return func(yield func(script.Object, error) bool) {
		for o, err := range objects.Objects() {
			_, unreadable := errors.AsType[*registry.Unreadable](err)
			if unreadable || err == nil && (!o.Deleted() || !o.ChangedAt().Before(before)) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// VersionFloors implements registry.Store.
func (s *Store) VersionFloors(ctx context.Context) iter.Seq2[script.Release, error] {
	return func(yield func(script.Release, error) bool) {
		for kv, err := range s.pages(ctx, "read version floors", s.keys.versionFloors(), now) {
			if err != nil {
				yield(script.Release{}, err)
				return
			}
			r, err := s.decodeVersionFloor(kv)
			if err != nil {
				continue // one that cannot be read must not stop an export
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Purge implements registry.Garbage.
func (s *Store) Purge(ctx context.Context, tombstone script.Object) error {
	key, floor := s.keys.object(tombstone), s.keys.floor()
	for {
		resp, err := s.get(ctx, "read the floor", floor)
		if err != nil {
			return err
		}
		var current, seen int64
		if len(resp.Kvs) > 0 {
			current, seen = decodeFloor(resp.Kvs[0]), resp.Kvs[0].ModRevision
		}
		guards := []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(key), "=", int64(tombstone.Revision())),
			clientv3.Compare(clientv3.ModRevision(floor), "=", seen), // never lower it
		}
		ops := s.purgeOps(tombstone)
		if tombstone.Value != nil {
			same, purge, err := s.purgeHistory(ctx, tombstone.Value.Key)
			if err != nil {
				return err
			}
			guards, ops = append(guards, same...), append(ops, purge...)
		}
		ops = append(ops,
			clientv3.OpPut(floor, strconv.FormatInt(max(current, int64(tombstone.Revision())), 10)))
		purged, err := s.commit(ctx, "remove the tombstone of "+tombstone.Key(), guards, ops,
			[]clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())})
		if err != nil || purged.Succeeded || modRevision(purged, 0) != int64(tombstone.Revision()) {
			return err
		}
	}
}

// purgeOps is what is done to the tombstone itself.
func (s *Store) purgeOps(tombstone script.Object) []clientv3.Op {
	ops := []clientv3.Op{clientv3.OpDelete(s.keys.object(tombstone))}
	if tombstone.Release == nil {
		return ops
	}
	name := tombstone.Release.Name
	return append(ops,
		clientv3.OpPut(s.keys.versionFloor(name), encodeVersionFloor(tombstone.Release.Latest)),
		clientv3.OpDelete(s.keys.history(name), clientv3.WithPrefix()),
		clientv3.OpDelete(s.keys.imported(name)))
}

// decodeFloor reads the value of meta/floor. All that was there before was below the revision of
// the record, which takes the place of one that cannot be.
func decodeFloor(kv *mvccpb.KeyValue) int64 {
	floor, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil || floor > kv.ModRevision {
		return kv.ModRevision
	}
	return floor
}

// blobPage is how many blobs are listed at once. etcd reads their contents too,
// although it does not send them.
const blobPage = 100

// Blobs implements registry.Garbage. All are listed as of one revision of etcd, which
// they carry in place of that at which each was touched: whether that was before is
// for Discard to find out.
func (s *Store) Blobs(ctx context.Context) iter.Seq2[registry.Blob, error] {
	return func(yield func(registry.Blob, error) bool) {
		resp, err := s.get(ctx, "list sources", s.keys.head(), clientv3.WithCountOnly())
		if err != nil {
			yield(registry.Blob{}, err)
			return
		}
		at := resp.Header.Revision
		for kv, err := range s.pages(ctx, "list sources", s.keys.blobs(), at, clientv3.WithKeysOnly(), clientv3.WithLimit(blobPage)) {
			if err != nil {
				yield(registry.Blob{}, err)
				return
			}
			digest, err := script.ParseDigest("sha256:" + string(kv.Key[len(s.keys.blobs()):]))
			if err != nil {
				continue // no registry has written it, and nobody needs it
			}
			if !yield(registry.Blob{Digest: digest, Touched: at}, nil) {
				return
			}
		}
		for digest, err := range s.orphans(ctx, at) {
			if !yield(registry.Blob{Digest: digest, Touched: at}, err) || err != nil {
				return
			}
		}
	}
}

// orphans yields the digests of contents that have chunks and no blob: whoever stored them did not come to an end.
func (s *Store) orphans(ctx context.Context, at int64) iter.Seq2[script.Digest, error] {
	return func(yield func(script.Digest, error) bool) {
		var last script.Digest
		for kv, err := range s.pages(ctx, "list parts of sources", s.keys.allChunks(), at, clientv3.WithKeysOnly(), clientv3.WithLimit(blobPage)) {
			if err != nil {
				yield(last, err)
				return
			}
			text, _, _ := strings.Cut(string(kv.Key[len(s.keys.allChunks()):]), "/")
			digest, err := script.ParseDigest("sha256:" + text)
			if err != nil || digest == last {
				continue
			}
			last = digest
			resp, err := s.get(ctx, "read a source", s.keys.blob(digest), clientv3.WithRev(at), clientv3.WithCountOnly())
			if err == nil && resp.Count > 0 {
				continue
			}
			if !yield(digest, err) || err != nil {
				return
			}
		}
	}
}

// Discard implements registry.Garbage. A commit that needs the source after it was
// listed touches it, so that this transaction comes to nothing; one that comes
// after this transaction finds the source gone and stores it again.
func (s *Store) Discard(ctx context.Context, b registry.Blob) (bool, error) {
	touched := s.keys.touched(b.Digest)
	resp, err := s.commit(ctx, "remove a source",
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(touched), "<", b.Touched+1),
			clientv3.Compare(clientv3.ModRevision(s.keys.restored()), "<", b.Touched+1),
		},
		[]clientv3.Op{
			clientv3.OpDelete(s.keys.blob(b.Digest)), clientv3.OpDelete(s.keys.chunks(b.Digest), clientv3.WithPrefix()), clientv3.OpDelete(touched),
		}, nil)
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
