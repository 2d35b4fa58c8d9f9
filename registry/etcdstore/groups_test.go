package etcdstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

func selector(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGroups: what one replica puts the others see, and what is not a group
// disturbs nobody.
func TestGroups(t *testing.T) {
	prefix := "/" + rand.Text()
	one, two := open(t, prefix), open(t, prefix)
	shops, zoo := selector(t, "shop-*", "acme"), selector(t, "zoo")
	put := func(tenants script.Selector) {
		t.Helper()
		if err := one.PutGroup(t.Context(), tenants, 2); err != nil {
			t.Error(err)
		}
	}
	put(shops)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan []string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for all, err := range two.WatchGroups(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			var groups []string
			for _, tenants := range all {
				groups = append(groups, tenants.String())
			}
			slices.Sort(groups)
			seen <- groups
		}
	}()
	want := func(groups ...string) {
		t.Helper()
		if got := <-seen; !slices.Equal(got, groups) {
			t.Errorf("groups %v, want %v", got, groups)
		}
	}
	want("acme,shop-*")
	put(zoo)
	want("acme,shop-*", "zoo")
	put(zoo) // is there
	if _, err := client(t).Put(t.Context(), prefix+"/groups/g-1", "NOT A GLOB"); err != nil {
		t.Fatal(err)
	}
	want("acme,shop-*", "zoo")
	if _, err := client(t).Delete(t.Context(), prefix+"/groups/g-1"); err != nil {
		t.Fatal(err)
	}
	want("acme,shop-*", "zoo")
	if err := one.PutGroup(t.Context(), selector(t, "more"), 2); script.KindOf(err) != script.Limit {
		t.Errorf("a third group: %v, want LIMIT", err)
	}
	if err := two.DeleteGroup(t.Context(), shops); err != nil {
		t.Error(err)
	}
	want("zoo")
	put(selector(t, "more"))
	want("more", "zoo")
	cancel()
	<-ended
}

// TestGroupsAreBounded however many are put at the same time.
func TestGroupsAreBounded(t *testing.T) {
	s := open(t, "/"+rand.Text())
	const limit, writers = 20, 40
	var putting sync.WaitGroup
	refused := make(chan struct{}, writers)
	for i := range writers {
		putting.Go(func() {
			err := s.PutGroup(t.Context(), selector(t, fmt.Sprint("tenant-", i)), limit)
			if script.KindOf(err) == script.Limit {
				refused <- struct{}{}
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	putting.Wait()
	if len(refused) != writers-limit {
		t.Errorf("%d of %d were refused, want %d", len(refused), writers, writers-limit)
	}
	for all, err := range s.WatchGroups(t.Context()) {
		if err != nil || len(all) != limit {
			t.Errorf("%d groups, %v; want %d", len(all), err, limit)
		}
		break
	}
}

func TestElection(t *testing.T) {
	prefix := "/" + rand.Text()
	one, two := open(t, prefix), open(t, prefix)
	first, err := one.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Who gives up waiting is no candidate any more.
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := two.Campaign(ctx)
		gaveUp <- err
	}()
	direct := client(t)
	candidates := func() int64 {
		resp, err := direct.Get(t.Context(), prefix+"/leader/", withPrefix...)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
	awaitCandidates(t, candidates)
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("a campaign that was given up: %v", err)
	}
	if n := candidates(); n != 1 {
		t.Errorf("%d candidates, want the leader alone", n)
	}
	// Resigning lets the next one lead at once, in a later term.
	elected := make(chan int64)
	go func() {
		second, err := two.Campaign(t.Context())
		if err != nil {
			t.Error(err)
			close(elected)
			return
		}
		elected <- second.Term()
		if err := second.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		close(elected)
	}()
	awaitCandidates(t, candidates)
	select {
	case <-first.Lost():
		t.Error("the leader has lost its lead")
	case term := <-elected:
		t.Errorf("two lead, the second in term %d", term)
	default:
	}
	if err := first.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	<-first.Lost()
	if term := <-elected; term <= first.Term() {
		t.Errorf("term %d after %d", term, first.Term())
	}
	<-elected
	if err := first.Resign(t.Context()); err != nil {
		t.Errorf("resigning again: %v", err)
	}
	// A lease that runs out, as that of a leader which does not answer, is noticed.
	third, err := one.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leases, err := direct.Get(t.Context(), prefix+"/leader/", withPrefix...)
	if err != nil || leases.Count != 1 {
		t.Fatalf("%v, %v", leases, err)
	}
	if _, err := direct.Revoke(t.Context(), leaseOf(leases)); err != nil {
		t.Fatal(err)
	}
	<-third.Lost()
}

var withPrefix = []clientv3.OpOption{clientv3.WithPrefix()}

// awaitCandidates waits until two stand for election.
func awaitCandidates(t *testing.T, candidates func() int64) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for candidates() != 2 {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("nobody else stands for election")
		}
	}
}

func leaseOf(resp *clientv3.GetResponse) clientv3.LeaseID {
	return clientv3.LeaseID(resp.Kvs[0].Lease)
}
