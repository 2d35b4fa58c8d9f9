package etcdstore

import (
	"context"
	"iter"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ registry.Checkup = (*Store)(nil)

// VersionRecords implements registry.Checkup. Keys of no version are passed over.
func (s *Store) VersionRecords(ctx context.Context) iter.Seq2[registry.VersionRecord, error] {
	return func(yield func(registry.VersionRecord, error) bool) {
		prefix := s.keys.allVersions()
		for kv, err := range s.pages(ctx, "read versions", prefix, now) {
			if err != nil {
				yield(registry.VersionRecord{}, err)
				return
			}
			text := strings.TrimPrefix(string(kv.Key), prefix)
			at := strings.LastIndexByte(text, '/')
			name, err := script.ParseName(text[:max(at, 0)])
			if err != nil {
				continue
			}
			number, err := strconv.ParseUint(text[at+1:], 10, 64)
			if err != nil {
				continue
			}
			record := registry.VersionRecord{Name: name, Number: number, Revision: script.Revision(kv.ModRevision)}
			v, err := decodeVersion(kv)
			switch {
			case err != nil:
				record.Reason = reason(err)
			case v.Number != number:
				record.Reason = "it is the record of version " + strconv.FormatUint(v.Number, 10)
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// RepairVersion implements registry.Checkup.
func (s *Store) RepairVersion(ctx context.Context, release script.Release, number uint64, v *script.Version) error {
	key := s.keys.release(release.Name)
	op := clientv3.OpDelete(s.keys.version(release.Name, number))
	if v != nil {
		value, err := encodeVersion(*v)
		if err != nil {
			return script.Errorf(script.Internal, "", "encode version %d of %s: %w", number, release.Name, err)
		}
		op = clientv3.OpPut(s.keys.version(release.Name, number), string(value))
	}
	resp, err := s.commit(ctx, "repair a version of "+release.Name.String(),
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", int64(release.Revision))},
		[]clientv3.Op{op}, []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())})
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		return conflict(release.Name, release.Revision, resp)
	}
	return nil
}

// PastSource implements registry.Checkup.
func (s *Store) PastSource(ctx context.Context, digest script.Digest) ([]byte, error) {
	gone := script.Errorf(script.NotFound, "digest", "etcd does not remember the source %s", digest)
	key := s.keys.blob(digest)
	resp, err := s.get(ctx, "read a source", key)
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) == 0 {
		return nil, gone // when it was removed, nobody knows
	}
	for kv := resp.Kvs[0]; ; kv = resp.Kvs[0] {
		content, err := s.whole(ctx, digest, kv.Value)
		if err != nil {
			return nil, err
		}
		if script.DigestOf(content) == digest {
			return content, nil
		}
		if kv.Version <= 1 {
			return nil, gone
		}
		if resp, err = s.get(ctx, "read what was there before", key, clientv3.WithRev(kv.ModRevision-1)); err != nil || len(resp.Kvs) == 0 {
			return nil, gone
		}
	}
}

// ReplaceSource implements registry.Checkup.
func (s *Store) ReplaceSource(ctx context.Context, source registry.Source) error {
	if len(source.Content) > chunkBytes {
		if _, err := s.commit(ctx, "remove a source that is damaged", nil, []clientv3.Op{clientv3.OpDelete(s.keys.blob(source.Digest))}, nil); err != nil {
			return err
		}
		return s.putChunked(ctx, source)
	}
	_, err := s.commit(ctx, "replace a source", nil, []clientv3.Op{
		clientv3.OpPut(s.keys.touched(source.Digest), ""),
		clientv3.OpPut(s.keys.blob(source.Digest), string(source.Content)),
	}, nil)
	return err
}
