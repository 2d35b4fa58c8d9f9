package etcdstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ feed.GroupStore = (*Store)(nil)

// The groups of agents have their own part of the keys:
//
//	groups/<group>  the globs of the tenants that it follows, one a line
//	meta/groups     empty; written with each group that is added
func (k keys) groups() string { return k.prefix + "groups/" }

func (k keys) group(tenants script.Selector) string { return k.groups() + tenants.Group() }

func (k keys) groupsAdded() string { return k.prefix + "meta/groups" }

// PutGroup implements feed.GroupStore.
func (s *Store) PutGroup(ctx context.Context, tenants script.Selector, limit int) error {
	key, added := s.keys.group(tenants), s.keys.groupsAdded()
	for {
		resp, err := s.read(ctx, "read the groups", []clientv3.Op{
			clientv3.OpGet(key, clientv3.WithKeysOnly()),
			clientv3.OpGet(s.keys.groups(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpGet(added, clientv3.WithKeysOnly()),
		})
		if err != nil {
			return err
		}
		if resp.Responses[0].GetResponseRange().GetCount() > 0 {
			return nil
		}
		if n := resp.Responses[1].GetResponseRange().GetCount(); n >= int64(limit) {
			return script.Errorf(script.Limit, "tenants", "there are %d groups of agents that follow some tenants only, which is the most: follow what others follow, or all tenants", n)
		}
		var seen int64
		if kvs := resp.Responses[2].GetResponseRange().GetKvs(); len(kvs) > 0 {
			seen = kvs[0].ModRevision
		}
		resp, err = s.commit(ctx, "add a group",
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(added), "=", seen)}, // nobody added one meanwhile
			[]clientv3.Op{clientv3.OpPut(key, strings.Join(tenants.Globs(), "\n")), clientv3.OpPut(added, "")}, nil)
		if err != nil || resp.Succeeded {
			return err
		}
	}
}

// DeleteGroup implements feed.GroupStore.
func (s *Store) DeleteGroup(ctx context.Context, tenants script.Selector) error {
	_, err := s.commit(ctx, "remove a group", nil, []clientv3.Op{clientv3.OpDelete(s.keys.group(tenants))}, nil)
	return err
}

// WatchGroups implements feed.GroupStore.
func (s *Store) WatchGroups(ctx context.Context) iter.Seq2[[]script.Selector, error] {
	return func(yield func([]script.Selector, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := s.get(ctx, "read the groups", s.keys.groups(), clientv3.WithPrefix())
		if err != nil {
			yield(nil, err)
			return
		}
		known := map[string]script.Selector{}
		for _, kv := range resp.Kvs {
			s.learnGroup(known, kv)
		}
		if !yield(slices.Collect(maps.Values(known)), nil) {
			return
		}
		updates := s.client.Watch(clientv3.WithRequireLeader(ctx), s.keys.groups(),
			clientv3.WithPrefix(), clientv3.WithRev(resp.Header.Revision+1))
		for resp := range updates {
			if err := resp.Err(); err != nil {
				yield(nil, s.failure(ctx, "watch the groups", err))
				return
			}
			for _, event := range resp.Events {
				if event.Type == clientv3.EventTypeDelete {
					delete(known, string(event.Kv.Key))
					continue
				}
				s.learnGroup(known, event.Kv)
			}
			if !yield(slices.Collect(maps.Values(known)), nil) {
				return
			}
		}
	}
}

// learnGroup leaves out what is not a group: nobody could follow it.
func (s *Store) learnGroup(known map[string]script.Selector, kv *mvccpb.KeyValue) {
	tenants, err := script.ParseSelector(strings.Split(string(kv.Value), "\n"))
	if key := string(kv.Key); err == nil && key == s.keys.group(tenants) {
		known[key] = tenants
	}
}
