package feed_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/feed"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// candidate is a replica that stands for election in etcd.
type candidate struct {
	*feed.Feed
	line  *line
	store *etcdstore.Store
}

func newCandidate(t *testing.T, prefix string, hub *broker) *candidate {
	t.Helper()
	c := &candidate{line: &line{broker: hub}, store: open(t, prefix)}
	m := mirror.New(sealer, quiet())
	c.Feed = feed.New(feed.Config{Mirror: m, Publisher: c.line, Log: quiet()})
	leader := feed.Leader{Elector: c.store, Feed: c.Feed, Connected: func() bool { return true }, Log: quiet()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { registry.Follow(ctx, c.store, quiet(), c.Feed) })
	running.Go(func() { leader.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := m.Reached(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill is what kill -9 does: nothing is said any more, and nobody resigns.
func (c *candidate) kill() {
	c.line.die()
	c.store.Close()
}

// awaitLeader waits until one of them leads.
func awaitLeader(t *testing.T, candidates []*candidate) (leader *candidate, others []*candidate) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for leader == nil {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("nobody leads")
		}
		others = nil
		for _, c := range candidates {
			if c.Stats().Leading {
				leader = c
			} else {
				others = append(others, c)
			}
		}
	}
	if len(others) != len(candidates)-1 {
		t.Errorf("%d of %d lead", len(candidates)-len(others), len(candidates))
	}
	return leader, others
}

// TestTakeoverInEtcd: of three replicas one leads; each time it dies, another one
// goes on, and whatever was committed at any time is published, in order, and
// nothing else.
func TestTakeoverInEtcd(t *testing.T) {
	prefix, hub := rand.Text(), &broker{}
	var candidates []*candidate
	for range 3 {
		candidates = append(candidates, newCandidate(t, prefix, hub))
	}
	ctx, cancel := context.WithCancel(t.Context())
	committed := map[script.Revision]bool{}
	var writing sync.WaitGroup
	to := newWriter(t, open(t, prefix))
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			committed[to.publish("acme", fmt.Sprint("script-", i%7), fmt.Sprint(i)).Revision] = true
		}
	})
	var terms []int64
	for len(candidates) > 1 {
		leader, others := awaitLeader(t, candidates)
		terms = append(terms, leader.Stats().Term)
		killed := time.Now()
		leader.kill()
		candidates = others
		next, _ := awaitLeader(t, candidates)
		t.Logf("another replica leads %v after the leader died, and says %d events again", time.Since(killed), next.Stats().Republished)
		terms = append(terms, next.Stats().Term)
	}
	cancel()
	writing.Wait()
	last := to.publish("acme", "last", "last").Revision
	committed[last] = true
	deadline := time.After(patience)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for hub.lastBeacon("all").Head < last {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the last beacon says %d, want %d", hub.lastBeacon("all").Head, last)
		}
	}
	for i := range terms[1:] {
		if terms[i+1] < terms[i] {
			t.Errorf("terms %v: they do not grow", terms)
		}
	}
	followAll(t, hub.of("all"), committed)
	wantTermsInOrder(t, hub)
}

// followAll checks what an agent makes of the events: all that was committed, in
// order, and nothing else.
func followAll(t *testing.T, events []feed.Event, committed map[script.Revision]bool) {
	t.Helper()
	var at script.Revision
	applied := 0
	for _, e := range events {
		if !committed[e.Revision] {
			t.Errorf("revision %d was never committed", e.Revision)
		}
		if e.Revision <= at {
			continue // said again
		}
		if e.Previous != at {
			t.Errorf("%d follows %d, an agent is at %d: a gap", e.Revision, e.Previous, at)
		}
		at, applied = e.Revision, applied+1
	}
	if applied != len(committed) {
		t.Errorf("%d events of %d transactions", applied, len(committed))
	}
}

// wantTermsInOrder checks that what beacons say of term and sequence only grows.
func wantTermsInOrder(t *testing.T, hub *broker) {
	t.Helper()
	hub.mu.Lock()
	defer hub.mu.Unlock()
	var before feed.Beacon
	for _, b := range hub.beacons {
		if b.Term < before.Term || b.Term == before.Term && b.Sequence <= before.Sequence {
			t.Errorf("beacon %d of term %d after %d of %d", b.Sequence, b.Term, before.Sequence, before.Term)
		}
		before = b
	}
}

// TestStaleLeader: a leader that was paused, and does not know yet that another one
// leads, says what is true, and its beacons are of the past.
func TestStaleLeader(t *testing.T) {
	prefix := rand.Text()
	store := open(t, prefix)
	to := newWriter(t, store)
	old, next := newReplica(t, store), newReplica(t, open(t, prefix))
	election := func() registry.Leadership {
		l, err := store.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := election()
	old.Lead(first.Term())
	if err := first.Resign(t.Context()); err != nil { // as etcd does when it is not heard of
		t.Fatal(err)
	}
	second := election()
	next.Lead(second.Term())
	last := to.publish("acme", "route", "1").Revision
	old.reached(t, last)
	next.reached(t, last)
	old.Pulse()
	next.Pulse()
	if gaps := differ(t, "the old leader", old.wire("all"), next.wire("all")); gaps != 0 || len(old.wire("all")) != 1 {
		t.Errorf("%d events with %d gaps, want the same as the new leader's", len(old.wire("all")), gaps)
	}
	if stale, now := old.lastBeacon("all"), next.lastBeacon("all"); stale.Term >= now.Term || stale.Position != now.Position {
		t.Errorf("beacons: %+v of the old leader, %+v of the new one", stale, now)
	}
	if err := second.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	<-second.Lost()
}
