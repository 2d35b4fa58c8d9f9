package etcdstore

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSet implements registry.Store.
func (s *Store) ChangeSet(ctx context.Context, tenant, name string) (script.ChangeSet, error) {
	resp, err := s.get(ctx, "read the change set "+tenant+"/"+name, s.keys.changeSet(tenant, name))
	if err != nil {
		return script.ChangeSet{}, err
	}
	if len(resp.Kvs) == 0 {
		return script.ChangeSet{}, script.Errorf(script.NotFound, "name", "there is no change set %s/%s: see scriptctl changeset list %s", tenant, name, tenant)
	}
	return s.keys.decodeChangeSet(resp.Kvs[0])
}

// ChangeSets implements registry.Store.
func (s *Store) ChangeSets(ctx context.Context, tenant string) (sets []script.ChangeSet, unreadable []string, err error) {
	prefix := s.keys.changeSetsOf(tenant)
	for kv, err := range s.pages(ctx, "list the change sets of "+tenant, prefix, now) {
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimPrefix(string(kv.Key), prefix)
		if (script.Name{Tenant: tenant, Script: name}).Validate() != nil {
			continue // no registry has written it, and none can be asked for it
		}
		set, err := s.keys.decodeChangeSet(kv)
		if err != nil {
			unreadable = append(unreadable, name)
			continue
		}
		sets = append(sets, set)
	}
	return sets, unreadable, nil
}

func encodeChangeSet(set script.ChangeSet) ([]byte, error) {
	set.Revision = 0 // the key's mod revision says it
	return proto.Marshal(wire.FromChangeSet(set))
}

func (k keys) decodeChangeSet(kv *mvccpb.KeyValue) (script.ChangeSet, error) {
	var m scriptv1.ChangeSet
	var set script.ChangeSet
	err := proto.Unmarshal(kv.Value, &m)
	if err == nil {
		set, err = wire.ToChangeSet(&m)
	}
	if err == nil && k.changeSet(set.Tenant, set.Name) != string(kv.Key) {
		err = fmt.Errorf("it is the record of %.200q", set.FullName())
	}
	if err != nil {
		u := k.unreadableRecord(kv, err)
		return script.ChangeSet{}, script.Errorf(script.Internal, "", "%w: publish the change set again, which replaces it", u)
	}
	set.Revision = script.Revision(kv.ModRevision)
	return set, nil
}
