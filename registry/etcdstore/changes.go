package etcdstore

import (
	"context"
	"iter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// pageSize is how many releases are read at once: it bounds the memory of a
// snapshot, however many releases there are.
const pageSize = 500

// Changes implements registry.Store.
func (s *Store) Changes(ctx context.Context, since script.Revision) (registry.Changes, error) {
	resp, err := s.get(ctx, "read the head", s.keys.head())
	if err != nil {
		return registry.Changes{}, err
	}
	var head script.Revision
	if len(resp.Kvs) > 0 {
		head = script.Revision(resp.Kvs[0].ModRevision)
	}
	full := since <= 0 || since > head
	if !full && since == head {
		// Most of those who ask have it all: they cost etcd one key, not a scan of
		// the releases.
		return registry.Changes{Head: head, Releases: func(func(script.Release, error) bool) {}}, nil
	}
	if full {
		since = 0
	}
	scan := scan{store: s, at: resp.Header.Revision, since: since, full: full}
	return registry.Changes{Head: head, Full: full, Releases: scan.releases(ctx)}, nil
}

// scan reads the releases as of one revision of etcd, page by page.
type scan struct {
	store *Store
	at    int64 // etcd's revision: nothing newer is seen
	since script.Revision
	full  bool
}

func (c scan) releases(ctx context.Context) iter.Seq2[script.Release, error] {
	return func(yield func(script.Release, error) bool) {
		from := c.store.keys.releases()
		end := clientv3.GetPrefixRangeEnd(from)
		// With a filter by revision etcd reads the whole range for each page. That is
		// right for the few changes of the usual resync, which are one page. If there
		// are more, plain pages are cheaper, and the filter is ours.
		filter := c.since > 0
		for {
			opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithRev(c.at), clientv3.WithLimit(pageSize)}
			if filter {
				opts = append(opts, clientv3.WithMinModRev(int64(c.since)+1))
			}
			resp, err := c.store.get(ctx, "read releases", from, opts...)
			if err != nil {
				yield(script.Release{}, err)
				return
			}
			filter = false
			for _, kv := range resp.Kvs {
				from = after(string(kv.Key))
				if script.Revision(kv.ModRevision) <= c.since {
					continue
				}
				r, err := decodeRelease(kv)
				if err == nil && c.full && r.Deleted {
					continue
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
			if !resp.More {
				return
			}
		}
	}
}

// Watch implements registry.Store.
func (s *Store) Watch(ctx context.Context, after script.Revision) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, err := s.watchFrom(ctx, after)
		if err != nil {
			yield(registry.Transaction{}, err)
			return
		}
		// A member that lost its leader may be cut off: the watch has to end then, so
		// that the next one finds another member.
		updates := s.client.Watch(clientv3.WithRequireLeader(ctx), s.keys.releases(),
			clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithFilterDelete())
		for resp := range updates {
			if err := resp.Err(); err != nil {
				if ctx.Err() == nil {
					yield(registry.Transaction{}, s.failure(ctx, "watch the releases", err))
				}
				return
			}
			for t, err := range transactions(resp.Events) {
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
		if ctx.Err() == nil {
			yield(registry.Transaction{}, script.Errorf(script.Unavailable, "", "the watch on etcd at %s was closed", s.endpoints))
		}
	}
}

// watchFrom returns etcd's revision to watch from. It is not always the one behind
// after: etcd counts other writes too, and may have compacted it although no
// release has changed since.
func (s *Store) watchFrom(ctx context.Context, after script.Revision) (int64, error) {
	resp, err := s.get(ctx, "read the head", s.keys.head())
	if err != nil {
		return 0, err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision <= int64(after) {
		return resp.Header.Revision + 1, nil
	}
	return int64(after) + 1, nil
}

// transactions groups events by revision: etcd never splits a revision between
// two responses.
func transactions(events []*clientv3.Event) iter.Seq2[registry.Transaction, error] {
	return func(yield func(registry.Transaction, error) bool) {
		var t registry.Transaction
		for _, event := range events {
			revision := script.Revision(event.Kv.ModRevision)
			if t.Revision != revision && t.Revision != 0 {
				if !yield(t, nil) {
					return
				}
				t = registry.Transaction{}
			}
			release, err := decodeRelease(event.Kv)
			if err != nil {
				yield(registry.Transaction{}, err)
				return
			}
			t.Revision, t.Releases = revision, append(t.Releases, release)
		}
		if t.Revision != 0 {
			yield(t, nil)
		}
	}
}
