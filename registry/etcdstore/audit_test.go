package etcdstore_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAuditOfFewInALongTrail: a filter that few entries pass does not make one call
// read the whole trail, and leaves none of them out.
func TestAuditOfFewInALongTrail(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	commit := func(name string) {
		t.Helper()
		change := requested(name)
		change.Audit = script.AuditEntry{Time: time.Unix(1e9, 0), Name: change.Release.Name, Change: script.ChangeDelete, Identity: "ci"}
		if _, err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	commit("many")
	resp, err := c.Get(t.Context(), prefix+"/audit/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	const count = 10_500
	for from := 0; from < count; from += 100 {
		var puts []clientv3.Op
		for i := from; i < from+100; i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s/audit/%020d-x", prefix, i), string(resp.Kvs[0].Value)))
		}
		if _, err := c.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	commit("few") // older than all of those
	filter := registry.AuditFilter{Tenant: "acme", Script: "few"}
	page, token, err := s.Audit(t.Context(), filter, "", 10)
	if err != nil || len(page) != 0 || token == "" {
		t.Fatalf("the first page: %+v, %q, %v; want it to stop on the way", page, token, err)
	}
	page, token, err = s.Audit(t.Context(), filter, token, 10)
	if err != nil || len(page) != 1 || token != "" {
		t.Errorf("the next page: %+v, %q, %v; want the one entry", page, token, err)
	}
	if all, _, err := s.Audit(t.Context(), registry.AuditFilter{}, "", 1000); err != nil || len(all) != 1000 {
		t.Errorf("without a filter: %d entries, %v; want 1000", len(all), err)
	}
}

// TestABrokenAuditEntry: it is listed as what it is, and all others as before.
func TestABrokenAuditEntry(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	for i, name := range []string{"one", "two"} {
		change := requested(name)
		change.Audit = script.AuditEntry{Time: time.Unix(int64(1+i), 0), Name: change.Release.Name, Change: script.ChangeDelete, Identity: "ci"}
		if _, err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := c.Get(t.Context(), prefix+"/audit/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 2 {
		t.Fatalf("%v, %v", resp, err)
	}
	put, err := c.Put(t.Context(), string(resp.Kvs[0].Key), "garbage")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), prefix+"/audit/0\xff", "garbage"); err != nil { // no answer could name it
		t.Fatal(err)
	}
	all, _, err := s.Audit(t.Context(), registry.AuditFilter{Since: time.Unix(1, 0)}, "", 10)
	if err != nil || len(all) != 2 || all[1].Name.Script != "one" {
		t.Fatalf("%+v, %v", all, err)
	}
	if e := all[0]; e.Revision != script.Revision(put.Header.Revision) || !e.Time.Equal(time.Unix(2, 0)) || !strings.Contains(e.Note, string(resp.Kvs[0].Key)) {
		t.Errorf("the broken one: %+v", e)
	}
	if all, _, err := s.Audit(t.Context(), registry.AuditFilter{}, "", 10); err != nil || len(all) != 2 {
		t.Errorf("without a filter: %+v, %v", all, err)
	}
	if some, _, err := s.Audit(t.Context(), registry.AuditFilter{Tenant: "acme"}, "", 10); err != nil || len(some) != 1 {
		t.Errorf("of the tenant: %+v, %v", some, err)
	}
}
