package mirror_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	key     = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	keyring = seal.NewKeyring(key.Public().(ed25519.PublicKey))
)

const fleet = "F1"

func newMirror() *mirror.Mirror {
	return mirror.New(seal.NewSealer(key), slog.New(slog.DiscardHandler))
}

func selector(tb testing.TB, globs ...string) script.Selector {
	tb.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func version(number uint64, source string) script.Version {
	return script.Version{Number: number, Digest: script.DigestOf([]byte(source)), Engine: "lua", Entrypoint: "handle", Size: len(source), Author: "ann"}
}

// release of tenant/name at the revision, that retains the sources; the last one is
// active. Without any it is a tombstone.
func release(tenant, name string, revision script.Revision, sources ...string) script.Release {
	r := script.Release{
		Name: script.Name{Tenant: tenant, Script: name}, Revision: revision, Deleted: len(sources) == 0,
		Latest: uint64(len(sources)), Enabled: true, ChangedAt: time.Unix(1_700_000_000+int64(revision), 0).UTC(),
	}
	for i, source := range sources {
		r.Retained = append(r.Retained, version(uint64(i+1), source))
	}
	if !r.Deleted {
		r.Active = r.Retained[len(r.Retained)-1]
	}
	return r
}

// value of tenant/key at the revision; without content it is a tombstone.
func value(tenant, key string, revision script.Revision, content ...string) script.Value {
	v := script.Value{
		Key: script.ValueKey{Tenant: tenant, Key: key}, Revision: revision, Deleted: len(content) == 0, Author: "ann",
		ChangedAt: time.Unix(1_700_000_000+int64(revision), 0).UTC(),
	}
	if !v.Deleted {
		v.Digest, v.Size = script.DigestOf([]byte(content[0])), len(content[0])
	}
	return v
}

// settings of a tenant at the revision; without a concurrency they are a tombstone.
func settings(tenant string, revision script.Revision, concurrency int) script.Tenant {
	return script.Tenant{
		Name: tenant, Revision: revision, Deleted: concurrency == 0, Settings: script.TenantSettings{Concurrency: concurrency},
		ChangedAt: time.Unix(1_700_000_000+int64(revision), 0).UTC(),
	}
}

// model is what a mirror must answer, by the shortest way.
type model struct {
	head, floor script.Revision
	heads       map[string]script.Revision
	objects     map[string]script.Object
}

func (m *model) apply(t registry.Transaction) {
	m.head = t.Revision
	for o := range t.Objects() {
		m.heads[o.TenantName()] = t.Revision
		m.objects[o.Key()] = o
	}
}

func (m *model) state() registry.State {
	s := registry.State{Fleet: fleet, Head: m.head, Floor: m.floor, Heads: maps.Clone(m.heads)}
	for _, o := range m.objects {
		switch o.Kind() {
		case script.Releases:
			s.Releases = append(s.Releases, *o.Release)
		case script.Values:
			s.Values = append(s.Values, *o.Value)
		case script.Tenants:
			s.Tenants = append(s.Tenants, *o.Tenant)
		}
	}
	return s
}

// position returns where the group is, and the checksums of its releases, values and
// tenants.
func (m *model) position(tenants script.Selector) (head script.Revision, sums map[script.ObjectKind]wire.Sum) {
	for tenant, at := range m.heads {
		if tenants.Matches(tenant) {
			head = max(head, at)
		}
	}
	sums = map[script.ObjectKind]wire.Sum{}
	for _, o := range m.objects {
		if tenants.Matches(o.TenantName()) {
			sum := sums[o.Kind()]
			sum.Add(wire.FingerprintObject(o))
			sums[o.Kind()] = sum
		}
	}
	return head, sums
}

// lacks returns the keys of what a follower at since lacks, with their revisions.
func (m *model) lacks(since script.Revision, tenants script.Selector, releasesOnly bool) (full bool, lacks map[string]script.Revision) {
	lacks = map[string]script.Revision{}
	full = since <= 0 || since > m.head || since < m.floor
	for key, o := range m.objects {
		if releasesOnly && o.Release == nil || !tenants.Matches(o.TenantName()) {
			continue
		}
		if full && !o.Deleted() || !full && o.Revision() > since {
			lacks[key] = o.Revision()
		}
	}
	return full, lacks
}

func (m *model) readable(digest script.Digest, may func(string) bool) (known, readable bool) {
	for _, o := range m.objects {
		for d := range o.Retained {
			if d == digest {
				known, readable = true, readable || may(o.TenantName())
			}
		}
	}
	return known, readable
}

// TestAgainstAModel: after random histories, through transactions and snapshots,
// the mirror answers what the model does.
func TestAgainstAModel(t *testing.T) {
	for range 6 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { againstModel(t, seed) })
	}
}

func againstModel(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	tenants := []string{"acme", "shop-a", "shop-b", "zoo"}
	sources := []string{"s1", "s2", "s3", "s4", "s5"}
	groups := []script.Selector{{}, selector(t, "shop-*"), selector(t, "acme", "zoo"), selector(t, "nobody"), selector(t, "*o*")}

	m := newMirror()
	want := &model{heads: map[string]script.Revision{}, objects: map[string]script.Object{}}
	m.Reset(want.state())
	for range 300 {
		switch random.IntN(40) {
		case 0:
			m.Reset(want.state())
		case 1:
			m.Keep(groups[random.IntN(len(groups))])
		case 2:
			m.Drop(groups[random.IntN(len(groups))])
		case 3:
			before := want.head - script.Revision(random.IntN(20))
			m.Forget(time.Unix(1_700_000_000+int64(before), 0))
			for key, o := range want.objects {
				if o.Deleted() && o.Revision() < before {
					delete(want.objects, key)
					want.floor = max(want.floor, o.Revision())
				}
			}
		default:
			tx := randomTransaction(random, want.head+script.Revision(1+random.IntN(3)), tenants, sources)
			want.apply(tx)
			m.Apply(tx)
		}
		compare(t, m, want, groups[random.IntN(len(groups))], want.head+5-script.Revision(random.IntN(60)))
		if t.Failed() {
			return
		}
		tenant := pick(tenants...)
		may := func(of string) bool { return of == tenant }
		for _, source := range sources {
			digest := script.DigestOf([]byte(source))
			known, readable := want.readable(digest, may)
			got, unknown := m.Readable([]script.Digest{digest}, may)
			if unknown == 0 != known || len(got) == 1 != readable {
				t.Errorf("source %s for %s: unknown %d, readable %d; want known %v, readable %v", source, tenant, unknown, len(got), known, readable)
			}
		}
	}
}

// randomTransaction changes a release or two, a value or a tenant's settings.
func randomTransaction(random *rand.Rand, at script.Revision, tenants, sources []string) registry.Transaction {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	tx := registry.Transaction{Revision: at}
	switch random.IntN(6) {
	case 0:
		tx.Tenants = append(tx.Tenants, settings(pick(tenants...), at, random.IntN(3)))
		return tx
	case 1, 2:
		var content []string
		if random.IntN(3) > 0 {
			content = append(content, pick(sources...))
		}
		tx.Values = append(tx.Values, value(pick(tenants...), pick("a", "b/c"), at, content...))
		return tx
	}
	for range 1 + random.IntN(2) {
		var retained []string
		for range random.IntN(4) {
			retained = append(retained, pick(sources...))
		}
		r := release(pick(tenants...), pick("a", "b", "c"), at, retained...)
		if !slices.ContainsFunc(tx.Releases, func(o script.Release) bool { return o.Name == r.Name }) {
			tx.Releases = append(tx.Releases, r)
		}
	}
	return tx
}

// TestARestoredStore may have another release, or tombstone, at a revision that was
// there before.
func TestARestoredStore(t *testing.T) {
	state := func(releases ...script.Release) registry.State {
		return registry.State{Fleet: fleet, Head: 5, Heads: map[string]script.Revision{"acme": 5}, Releases: releases}
	}
	gone := release("acme", "gone", 4)
	later := gone
	later.ChangedAt = later.ChangedAt.Add(time.Hour)
	m := newMirror()
	m.Reset(state(release("acme", "route", 5, "before"), gone))
	for _, e := range m.Entries("releases/acme/route", wire.ReleaseKey(gone.Name)) {
		if _, err := e.Sealed(); err != nil {
			t.Fatal(err)
		}
	}
	want := release("acme", "route", 5, "after")
	m.Reset(state(want, later))
	if got := m.Group(script.Selector{}).Sums.Of(script.Releases); got != wire.Fingerprint(want) {
		t.Error("the checksum is of what was before")
	}
	for i, want := range []script.Release{want, later} {
		o, err := m.Entries(wire.ReleaseKey(want.Name))[0].Object()
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := wire.ToReleaseObject(o); err != nil || got.Active.Digest != want.Active.Digest || !got.ChangedAt.Equal(want.ChangedAt) {
			t.Errorf("entry %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
	m.Forget(gone.ChangedAt.Add(time.Minute))
	if m.Size() != 2 {
		t.Error("the tombstone went by the time of the one before")
	}
}

func compare(t *testing.T, m *mirror.Mirror, want *model, tenants script.Selector, since script.Revision) {
	t.Helper()
	releasesOnly := since%2 == 0
	got := m.Changes(mirror.Query{Fleet: fleet, Since: since, Tenants: tenants, ReleasesOnly: releasesOnly})
	full, lacks := want.lacks(since, tenants, releasesOnly)
	if got.Full != full || got.Head != want.head || got.Fleet != fleet || len(got.Entries) != len(lacks) {
		t.Errorf("%v since %d of %d: %d entries, full %v; want %d, %v", tenants, since, got.Head, len(got.Entries), got.Full, len(lacks), full)
	}
	last := int64(0)
	for _, e := range got.Entries {
		o, err := e.Object()
		if err != nil || lacks[o.GetKey()] != script.Revision(o.GetRevision()) || o.GetRevision() < last {
			t.Errorf("%v since %d: object %s at %d, %v; want it at %d, in order", tenants, since, o.GetKey(), o.GetRevision(), err, lacks[o.GetKey()])
		}
		last = o.GetRevision()
	}
	head, sums := want.position(tenants)
	if got.Group.Head != head || m.Group(tenants) != got.Group {
		t.Errorf("%v: at %+v and %+v, want %d", tenants, got.Group, m.Group(tenants), head)
	}
	for _, kind := range []script.ObjectKind{script.Releases, script.Values, script.Tenants} {
		if got.Group.Sums.Of(kind) != sums[kind] {
			t.Errorf("%v: the checksum of the %s is %v, want %v", tenants, kind, got.Group.Sums.Of(kind), sums[kind])
		}
	}
}

// TestSealedEntries: two replicas seal the same bytes, whichever way a release came
// to them; they are sealed once, and hold what the store had.
func TestSealedEntries(t *testing.T) {
	one, two := newMirror(), newMirror()
	r := release("acme", "route", 7, "v1", "v2")
	empty := registry.State{Fleet: fleet, Head: 6}
	one.Reset(empty)
	one.Apply(registry.Transaction{Revision: 7, Releases: []script.Release{r}})
	state := registry.State{Fleet: fleet, Head: 7, Heads: map[string]script.Revision{"acme": 7}, Releases: []script.Release{r}}
	two.Reset(state)
	sealed := func(m *mirror.Mirror) []byte {
		data, err := m.Entries(wire.ReleaseKey(r.Name))[0].Sealed()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := sealed(one)
	if !bytes.Equal(first, sealed(two)) {
		t.Error("two replicas seal different bytes")
	}
	one.Reset(state)
	if again := sealed(one); &again[0] != &first[0] {
		t.Error("an entry that had not changed was sealed again")
	}
	var entry eventv1.Entry
	if _, err := keyring.Open(first, &entry); err != nil {
		t.Fatal(err)
	}
	got, ok, err := wire.ToReleaseObject(entry.GetObject())
	if err != nil || !ok || entry.GetFleet() != fleet || wire.Fingerprint(got) != wire.Fingerprint(r) {
		t.Errorf("%+v, %v, %v; want %+v", got, ok, err, r)
	}
	if inline := slices.Collect(one.Entries(wire.ReleaseKey(r.Name))[0].Inline); len(inline) != 1 || inline[0] != (script.Content{Digest: r.Active.Digest, Size: 2}) {
		t.Errorf("inline: %v", inline)
	}
	one.Reset(registry.State{Fleet: "F2", Head: 7, Releases: []script.Release{r}})
	if _, err := keyring.Open(sealed(one), &entry); err != nil || entry.GetFleet() != "F2" {
		t.Errorf("after a change of fleet: %v, %v", &entry, err)
	}
}

func TestReached(t *testing.T) {
	m := newMirror()
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if m.Reached(expired, 0) == nil {
		t.Error("a mirror that knows nothing yet has reached something")
	}
	var waiting sync.WaitGroup
	for revision := range script.Revision(5) {
		waiting.Go(func() {
			if err := m.Reached(t.Context(), revision); err != nil {
				t.Error(err)
			}
		})
	}
	m.Reset(registry.State{Fleet: fleet, Head: 2})
	for revision := range script.Revision(2) {
		m.Apply(registry.Transaction{Revision: revision + 3, Releases: []script.Release{release("acme", "route", revision+3, "x")}})
	}
	waiting.Wait()
	if m.Reached(expired, 5) == nil {
		t.Error("reached what has not been")
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	m := newMirror()
	var state registry.State
	state.Fleet = fleet
	for i := range script.Revision(200) {
		state.Head = i + 1
		state.Releases = append(state.Releases, release("acme", fmt.Sprint("s", i), i+1, fmt.Sprint(i)))
	}
	m.Reset(state)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.SealAll(ctx) })
	group := selector(t, "ac*")
	for range 3 {
		running.Go(func() {
			for ctx.Err() == nil {
				for _, e := range m.Changes(mirror.Query{Fleet: fleet, Tenants: group}).Entries {
					if _, err := e.Sealed(); err != nil {
						t.Error(err)
					}
				}
				m.Keep(group)
				m.Readable([]script.Digest{script.DigestOf([]byte("1"))}, group.Matches)
				m.Drop(group)
			}
		})
	}
	for i := range script.Revision(300) {
		if i%100 == 99 {
			m.Reset(state)
			continue
		}
		m.Apply(registry.Transaction{Revision: 201 + i, Releases: []script.Release{release("acme", fmt.Sprint("s", i%50), 201+i, fmt.Sprint(i))}})
		m.Forget(time.Unix(0, 0))
	}
	cancel()
	running.Wait()
}
