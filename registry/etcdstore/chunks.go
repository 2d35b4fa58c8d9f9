package etcdstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// chunkBytes is the size of the largest content that is one key: etcd refuses requests of more than 1.5 MiB.
const chunkBytes = 1 << 20

// chunkedMagic begins the value of a blob whose content is in chunks; the number of them follows.
const chunkedMagic = "scriptorium: content in chunks "

// chunkTries bounds how often chunks are stored again because the collector removed them meanwhile.
const chunkTries = 3

// putChunked stores a content that is too large for one key: the chunks first, each by itself, and then the blob, which
// names their number, if all chunks are there. The collector removes a blob together with its chunks.
func (s *Store) putChunked(ctx context.Context, b registry.Source) error {
	for range chunkTries {
		var there []clientv3.Cmp
		n := 0
		for chunk := range slices.Chunk(b.Content, chunkBytes) {
			key := s.keys.chunk(b.Digest, n)
			ops := []clientv3.Op{clientv3.OpPut(s.keys.touched(b.Digest), ""), clientv3.OpPut(key, string(chunk))}
			if _, err := s.commit(ctx, "store a part of a source", nil, ops, nil); err != nil {
				return err
			}
			there = append(there, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
			n++
		}
		index := registry.Source{Digest: b.Digest, Content: fmt.Appendf(nil, "%s%d", chunkedMagic, n)}
		resp, err := s.commit(ctx, "store a source", there, s.putBlob(index), nil)
		if err != nil || resp.Succeeded {
			return err
		}
	}
	return script.Errorf(script.Conflict, "source", "the collector removed parts of the source while it was stored: publish it again")
}

// storeAhead stores the contents that are too large for the transaction of the change, which then needs them.
func (s *Store) storeAhead(ctx context.Context, c *change) error {
	for i, b := range c.blobs {
		if len(b.Content) <= chunkBytes {
			continue
		}
		if err := s.putChunked(ctx, b); err != nil {
			return err
		}
		c.guards = append(c.guards, clientv3.Compare(clientv3.CreateRevision(s.keys.blob(b.Digest)), ">", 0))
		c.ops = append(c.ops, clientv3.OpPut(s.keys.touched(b.Digest), ""))
		c.blobs = slices.Delete(slices.Clone(c.blobs), i, i+1)
		return s.storeAhead(ctx, c)
	}
	return nil
}

// whole returns the content of the blob with the value: itself, or what is in its chunks.
func (s *Store) whole(ctx context.Context, digest script.Digest, value []byte) ([]byte, error) {
	count, chunked := bytes.CutPrefix(value, []byte(chunkedMagic))
	if !chunked || script.DigestOf(value) == digest {
		return value, nil
	}
	var n int
	if _, err := fmt.Sscan(string(count), &n); err != nil || n < 1 || n > script.MaxArtifactBytes/chunkBytes+1 {
		return value, nil //nolint:nilerr // it is not what its digest says, as whoever reads it finds
	}
	var content []byte
	for i := range n { // one request would be larger than what etcd sends
		resp, err := s.get(ctx, "read a part of a source", s.keys.chunk(digest, i))
		if err != nil {
			return nil, err
		}
		if len(resp.Kvs) == 0 {
			return value, nil
		}
		content = append(content, resp.Kvs[0].Value...)
	}
	return content, nil
}
