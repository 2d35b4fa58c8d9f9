package etcdstore

import (
	"context"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Remains implements registry.Store.
func (s *Store) Remains(ctx context.Context, u registry.Unreadable) (registry.Remains, error) {
	resp, err := s.get(ctx, "read the record of "+u.Key, s.keys.prefix+u.Key)
	if err != nil {
		return registry.Remains{}, err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision != int64(u.Revision) {
		return registry.Remains{}, script.Errorf(script.Conflict, "", "the record of %s was replaced in the meantime", u.Key)
	}
	remains := registry.Remains{Last: s.past(ctx, resp.Kvs[0]), First: resp.Kvs[0].Version <= 1}
	name, ok := u.Script()
	if !ok {
		return remains, nil
	}
	err = s.remainsOf(ctx, name, &remains)
	return remains, err
}

// remainsOf adds what there is of a script besides its release.
func (s *Store) remainsOf(ctx context.Context, name script.Name, remains *registry.Remains) error {
	reads := append(s.readHistory(name, now), clientv3.OpGet(s.keys.versions(name), clientv3.WithPrefix()), clientv3.OpGet(s.keys.versionFloor(name)))
	resp, err := s.read(ctx, "read what is left of "+name.String(), reads)
	if err != nil {
		return err
	}
	lines := resp.Responses[0].GetResponseRange().GetKvs()
	remains.History = decodeLines(lines, resp.Responses[1].GetResponseRange().GetKvs())
	if len(lines) > 0 {
		_, err := decodeHistory(lines[0])
		remains.Current = err == nil
	}
	for _, kv := range resp.Responses[2].GetResponseRange().GetKvs() {
		number, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), s.keys.versions(name)), 10, 64)
		if err != nil {
			continue // of no version
		}
		v, err := decodeVersion(kv)
		if err != nil || v.Number != number {
			remains.Broken = append(remains.Broken, number)
			continue
		}
		remains.Versions = append(remains.Versions, v)
	}
	for _, kv := range resp.Responses[3].GetResponseRange().GetKvs() {
		if versionFloor, err := s.decodeVersionFloor(kv); err == nil {
			remains.VersionFloor = versionFloor.Latest
		}
	}
	return nil
}
