package etcdstore_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What the edition before histories stores of the value acme/flag, "on", and of a deleted one.
const (
	flagBefore  = "0a0461636d651204666c61672220b8d31e852725afb1e26d53bab6095b2bff1749c9275be13ed1c05a56ed31ec0928023a03616e6e42080880f2d6ca061005"
	goneBefore  = "0a0461636d651204676f6e6530013a03616e6e42080880f2d6ca061005"
	usageBefore = `{"bytes":2,"values":1}`
)

// before writes as that edition does.
func before(t *testing.T, c *clientv3.Client, prefix string, records map[string]string) {
	t.Helper()
	ops := []clientv3.Op{clientv3.OpPut(prefix+"/usage/acme", usageBefore), clientv3.OpPut(prefix+"/meta/head", "")}
	for key, record := range records {
		bytes, err := hex.DecodeString(record)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut(prefix+key, string(bytes)))
	}
	digest := script.DigestOf([]byte("on"))
	blob := fmt.Sprintf("%s/blobs/%x", prefix, digest[:])
	if _, err := c.Txn(t.Context()).Then(append(ops, clientv3.OpPut(blob, "on"))...).Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestValuesOfTheEditionBefore: they count as version 1, and as the next version where that
// edition has written after this one. It can read what this one writes.
func TestValuesOfTheEditionBefore(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	r := registry.New(registry.Config{Store: s})
	flag, by := script.ValueKey{Tenant: "acme", Key: "flag"}, access.Everybody("unix")
	put := func(key script.ValueKey, content string) script.Value {
		t.Helper()
		v, _, err := r.PutValue(t.Context(), registry.PutValue{Key: key, Content: []byte(content), Author: "bob", By: by})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	wants := func(want ...string) {
		t.Helper()
		h, err := r.ValueHistory(t.Context(), by, flag)
		var lines []string
		for _, l := range h.Lines {
			lines = append(lines, fmt.Sprint(l.Change, " ", l.Version, " ", l.Author))
		}
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("the history is %q, %v; want %q", lines, err, want)
		}
	}
	before(t, c, prefix, map[string]string{"/values/acme/flag": flagBefore, "/values/acme/gone": goneBefore})
	wants("put 1 ann")
	if v, content, err := r.Value(t.Context(), by, flag, 1); err != nil || string(content) != "on" || v.Size != 2 {
		t.Errorf("version 1: %+v, %q, %v", v, content, err)
	}
	put(flag, "off")
	wants("put 2 bob", "put 1 ann")
	if v := put(script.ValueKey{Tenant: "acme", Key: "gone"}, "again"); v.Version != 2 {
		t.Errorf("what was deleted: %+v; want version 2", v)
	}
	if _, _, err := r.RollbackValue(t.Context(), registry.RollbackValue{Key: flag, Author: "eve", By: by}); err != nil {
		t.Error(err)
	}
	wants("rollback 1 eve", "put 2 bob", "put 1 ann")

	// The edition before reads the record, and does not get to see the history.
	resp, err := c.Get(t.Context(), prefix+"/values/acme/flag")
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatal(resp, err)
	}
	var m scriptv1.Value
	if err := proto.Unmarshal(resp.Kvs[0].Value, &m); err != nil {
		t.Fatal(err)
	}
	if m.Version = 0; len(m.ProtoReflect().GetUnknown()) > 0 || m.GetAuthor() != "eve" || m.GetSize() != 2 {
		t.Errorf("the record is %v", &m)
	}
	before(t, c, prefix, map[string]string{"/values/acme/flag": flagBefore})
	wants("put 3 ann", "rollback 1 eve", "put 2 bob", "put 1 ann")
	put(flag, "off")
	wants("put 4 bob", "put 3 ann", "rollback 1 eve", "put 2 bob", "put 1 ann")
	counted, err := s.OlderBytes(t.Context(), "acme")
	data, dataErr := s.DataUsage(t.Context(), flag)
	if err != nil || dataErr != nil || counted == 0 || data.Usage.Older != counted {
		t.Errorf("the histories take %d, %v; the usage says %+v, %v", counted, err, data.Usage, dataErr)
	}
}

// TestAWriteOfAValueIsOneTransaction: of one object, for those who watch, however many values
// there are; and its record does not grow.
func TestAWriteOfAValueIsOneTransaction(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	r := registry.New(registry.Config{Store: s})
	key := script.ValueKey{Tenant: "acme", Key: "flag"}
	var last script.Revision
	sizes := map[int]int{}
	for i := range 3 * script.MaxValueLines {
		v, _, err := r.PutValue(t.Context(), registry.PutValue{Key: key, Content: fmt.Append(nil, i%10, i/10), Author: "ann", By: access.Everybody("unix")})
		if err != nil {
			t.Fatal(err)
		}
		history, err := c.Get(t.Context(), prefix+"/kvhistory/acme/flag")
		if err != nil || len(history.Kvs) != 1 || history.Kvs[0].ModRevision != int64(v.Revision) {
			t.Fatalf("put %d is revision %d; its history is %v, %v", i, v.Revision, history, err)
		}
		last, sizes[i] = v.Revision, len(history.Kvs[0].Value)
	}
	if sizes[29] > sizes[15]+script.MaxValueLines*8 {
		t.Errorf("the record has %d bytes, and had %d", sizes[29], sizes[15])
	}
	for tx, err := range s.Watch(t.Context(), last-1) {
		if err != nil || tx.Revision != last || len(slices.Collect(tx.Objects())) != 1 || len(tx.Unreadable) != 0 {
			t.Errorf("the watch yields %+v, %v", tx, err)
		}
		break
	}
}
