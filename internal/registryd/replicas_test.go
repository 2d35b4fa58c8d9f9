package registryd_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestReplicas: of two registries one publishes, whoever was written to, and each
// event once; when it stops the other one goes on.
func TestReplicas(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d1, one := start(t, cfg)
	leads(t, d1)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	d2, two := start(t, other)

	const writers, each = 4, 20
	write := func(clients ...*client) {
		var wg sync.WaitGroup
		for w := range writers {
			c := clients[w%len(clients)]
			wg.Go(func() {
				for i := range each {
					if _, err := c.Publish(t.Context(), &registryv1.PublishRequest{
						Tenant: "acme", Name: fmt.Sprint("script-", w), Source: fmt.Appendf(nil, "%d %p", i, c), Author: "ann",
					}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	write(one, two)
	var at int64
	for range writers * each {
		at = a.follows(t, at)
	}
	if d1.Leading() && d2.Leading() {
		t.Error("both replicas lead")
	}
	term := a.beacon(t, at).GetTerm()
	stop(t, d1)
	leads(t, d2)
	// What the first one has published comes again, and then what is new.
	write(two)
	first := a.next(t)
	for first.GetRevision() < at {
		first = a.next(t)
	}
	if first.GetRevision() != at {
		t.Errorf("the events of the last seconds came again up to %d, want %d", first.GetRevision(), at)
	}
	for range writers * each {
		at = a.follows(t, at)
	}
	if b := a.beacon(t, at); b.GetTerm() <= term {
		t.Errorf("term %d after %d", b.GetTerm(), term)
	}
	if len(a.events) != 0 {
		t.Errorf("%d events too many", len(a.events))
	}
}

// follows returns the revision of the next event, which must follow the one at.
func (a *agent) follows(t *testing.T, at int64) int64 {
	t.Helper()
	e := a.next(t)
	if e.GetPreviousRevision() != at || e.GetRevision() <= at {
		t.Errorf("%d follows %d, want %d", e.GetRevision(), e.GetPreviousRevision(), at)
	}
	return e.GetRevision()
}

// beacon returns the next beacon that tells of the head.
func (a *agent) beacon(t *testing.T, head int64) *eventv1.Beacon {
	t.Helper()
	deadline, last := time.After(patience), int64(0)
	for {
		select {
		case b := <-a.beacons:
			if last = b.GetHeadRevision(); last == head {
				return b
			}
		case <-deadline:
			t.Fatalf("no beacon of revision %d came; the last one was of %d", head, last)
		}
	}
}

// TestGroups: who pulls some tenants alone gets their events, in a chain of their
// own, whichever replica was asked.
func TestGroups(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	d1, one := start(t, cfg)
	leads(t, d1)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	_, two := start(t, other)
	group, err := script.ParseSelector([]string{"shop-*"})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(tenant string) int64 {
		resp, err := one.Publish(t.Context(), &registryv1.PublishRequest{Tenant: tenant, Author: "ann", Name: "route", Source: []byte("return 1")})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetRelease().GetRevision()
	}
	all := newAgent(t, n.URL(), subjects(cfg))
	before := publish("shop-one")
	head := publish("acme")
	for all.next(t).GetRevision() < head { // both are events before the group is there
		continue
	}
	a := newAgentOf(t, n.URL(), subjects(cfg), group.Group())
	stream, err := two.feed.Pull(t.Context(), &registryv1.PullRequest{Tenants: group.Globs(), Nonce: make([]byte, 16)})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var page eventv1.Page
	if _, err := seal.TrustEverything().Open(resp.GetPage(), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.GetEntries()) != 1 || page.GetHeadRevision() != head || !page.GetLast() || page.GetGroup() != group.Group() {
		t.Errorf("page: %v", &page)
	}
	if b := a.beacon(t, head); b.GetGroupRevision() != before || !proto.Equal(b.GetChecksums()[0], page.GetChecksums()[0]) {
		t.Errorf("beacon: %v, want group revision %d and the checksum of the page", b, before)
	}
	publish("acme")
	revision := publish("shop-two")
	e := a.next(t)
	if e.GetRevision() == before { // the leader had heard of the group first
		e = a.next(t)
	}
	if e.GetRevision() != revision || e.GetPreviousRevision() != before || len(e.GetEntries()) != 1 {
		t.Errorf("%d follows %d; want %d to follow %d", e.GetRevision(), e.GetPreviousRevision(), revision, before)
	}
}
