package etcdstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

func requested(name string) registry.Commit {
	return registry.Commit{
		Release:   script.Release{Name: script.Name{Tenant: "acme", Script: name}, Deleted: true},
		Entry:     script.HistoryEntry{Change: script.ChangeDelete},
		RequestID: rand.Text(),
	}
}

// TestRequestsShareALease: request ids go by themselves, not before RequestMemory is
// over, and many are on one lease; a lease that etcd lost is replaced.
func TestRequestsShareALease(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	leaseOf := func(commit registry.Commit) clientv3.LeaseID {
		t.Helper()
		if _, err := s.Commit(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
		resp, err := c.Get(t.Context(), prefix+"/requests/"+commit.Release.Name.String()+"/"+commit.RequestID)
		if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Lease == 0 {
			t.Fatalf("the request is at %v, %v; want it on a lease", resp, err)
		}
		return clientv3.LeaseID(resp.Kvs[0].Lease)
	}
	first := requested("a")
	lease := leaseOf(first)
	if again := leaseOf(requested("b")); again != lease {
		t.Errorf("two requests are on two leases")
	}
	left, err := c.TimeToLive(t.Context(), lease)
	if err != nil || left.TTL < int64(registry.RequestMemory.Seconds()) {
		t.Errorf("the lease lives for %v s, %v; want %v at least", left, err, registry.RequestMemory)
	}
	if _, err := c.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Request(t.Context(), first.Release.Name, first.RequestID); ok || err != nil {
		t.Errorf("after its lease: %v, %v; want it forgotten", ok, err)
	}
	if another := leaseOf(requested("c")); another == lease {
		t.Error("a lease that is gone is still used")
	}
}

// compacted has a script, writes something else to etcd, and compacts it up to then.
func compacted(t *testing.T) (*etcdstore.Store, registry.Commit) {
	t.Helper()
	s, c := open(t, "/"+rand.Text()), client(t)
	commit := requested("a")
	if _, err := s.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	put, err := c.Put(t.Context(), "/elsewhere", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	return s, commit
}

// TestRecordOfTheForgotten: a moment that etcd has compacted is an error that says so.
func TestRecordOfTheForgotten(t *testing.T) {
	s, commit := compacted(t)
	_, _, err := s.Record(t.Context(), commit.Release, 1)
	if script.KindOf(err) != script.Unavailable || !errors.Is(err, registry.ErrForgotten) {
		t.Errorf("%v; want Unavailable with ErrForgotten", err)
	}
}

// TestExportAfterCompaction: that the last change was long ago does not matter.
func TestExportAfterCompaction(t *testing.T) {
	s, commit := compacted(t)
	scripts := 0
	for item, err := range registry.New(registry.Config{Store: s}).Export(t.Context(), registry.ExportRequest{By: access.Everybody("unix")}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Record != nil && item.Record.Release.Name == commit.Release.Name && len(item.Record.History) == 1 {
			scripts++
		}
	}
	if scripts != 1 {
		t.Errorf("%d scripts, want 1 with its history", scripts)
	}
}

// TestALeaseIsRenewedBeside: nobody waits for a grant who finds a lease, and who finds none
// waits no longer than its own time.
func TestALeaseIsRenewedBeside(t *testing.T) {
	s := open(t, "/"+rand.Text())
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.LeaseOfRequests(stopped); err == nil {
		t.Error("a lease came without a grant")
	}
	first, err := s.LeaseOfRequests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.AgeLease()
	if got, err := s.LeaseOfRequests(stopped); err != nil || got != first {
		t.Errorf("the lease whose renewal is due: %d, %v; want %d", got, err, first)
	}
	for next := first; next == first; {
		if next, err = s.LeaseOfRequests(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
