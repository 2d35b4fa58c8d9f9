package storetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// gather collects what is yielded.
func gather[T any](t *testing.T, all iter.Seq2[T, error]) []T {
	t.Helper()
	var got []T
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, item)
	}
	return got
}

func object(r script.Release) script.Object { return script.Object{Release: &r} }

func (h Harness) testTombstones(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	garbage := s.(registry.Garbage)
	commit(t, s, publish(script.Release{}, named(0), "live"))
	var tombstones []script.Release
	for i := range 3 {
		c := tombstone(commit(t, s, publish(script.Release{}, named(1+i), "x")))
		c.Release.ChangedAt = at.Add(time.Duration(i) * time.Hour)
		tombstones = append(tombstones, commit(t, s, c))
	}
	for want := range 4 {
		got := gather(t, garbage.Tombstones(ctx, at.Add(time.Duration(want)*time.Hour)))
		if len(got) != want {
			t.Fatalf("%d tombstones are older than %d h, want %d", len(got), want, want)
		}
		for _, o := range got {
			if !slices.ContainsFunc(tombstones, func(tomb script.Release) bool { return o.Release != nil && same(*o.Release, tomb) }) {
				t.Errorf("got %s at %d", o.Key(), o.Revision())
			}
		}
	}
}

func (h Harness) testPurge(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	garbage := s.(registry.Garbage)
	two := commit(t, s, publish(commit(t, s, publish(script.Release{}, named(1), "1")), named(1), "2"))
	gone := commit(t, s, tombstone(two))
	other := commit(t, s, tombstone(commit(t, s, publish(script.Release{}, named(2), "1"))))
	if err := garbage.Purge(ctx, object(other)); err != nil {
		t.Fatal(err)
	}
	if err := garbage.Purge(ctx, object(gone)); err != nil { // a lower revision: the floor stays
		t.Fatal(err)
	}
	head, heads, floor, all := snapshot(t, s)
	if head != other.Revision || heads["acme"] != other.Revision || floor != other.Revision || len(all) != 0 {
		t.Errorf("head %d, heads %v, floor %d, %v; want all at %d and no release", head, heads, floor, all, other.Revision)
	}
	want := script.Release{Name: named(1), Latest: 2, Deleted: true}
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, want) {
		t.Errorf("Release: %+v, %v; want %+v", got, err, want)
	}
	if entries, err := s.History(ctx, named(1)); err != nil || len(entries) != 0 {
		t.Errorf("History: %v, %v; want none", entries, err)
	}
	versionFloors := gather(t, s.VersionFloors(ctx))
	slices.SortFunc(versionFloors, func(a, b script.Release) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	if len(versionFloors) != 2 || !same(versionFloors[0], want) || versionFloors[1].Latest != 1 {
		t.Errorf("VersionFloors: %+v", versionFloors)
	}

	testLifeAfterBurial(t, s, want, gone)
}

// testLifeAfterBurial: the numbers go on, nobody can begin at 1 again, and a collector
// that is late does no harm.
func testLifeAfterBurial(t *testing.T, s registry.Store, want, gone script.Release) {
	t.Helper()
	ctx, garbage := t.Context(), s.(registry.Garbage)
	_, err := s.Commit(ctx, publish(script.Release{}, named(1), "again"))
	wantKind(t, err, script.Conflict)
	again := commit(t, s, publish(want, named(1), "again"))
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, again) || got.Latest != 3 {
		t.Errorf("made again: %+v, %v; want version 3", got, err)
	}
	if entries, err := s.History(ctx, named(1)); err != nil || len(entries) != 1 || entries[0].Revision != again.Revision {
		t.Errorf("History of the new one: %+v, %v", entries, err)
	}
	if err := garbage.Purge(ctx, object(gone)); err != nil {
		t.Errorf("Purge what is gone: %v", err)
	}
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, again) {
		t.Errorf("after a late Purge: %+v, %v; want %+v", got, err, again)
	}
	last := commit(t, s, tombstone(again))
	if err := garbage.Purge(ctx, object(last)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Release(ctx, named(1)); err != nil || got.Latest != 3 {
		t.Errorf("purged again: %+v, %v; want the number 3 kept", got, err)
	}
}

// testPurgeAtOnce: the floor is that of the highest, whoever buries what when.
func (h Harness) testPurgeAtOnce(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	garbage := s.(registry.Garbage)
	var tombstones []script.Release
	for i := range 20 {
		tombstones = append(tombstones, commit(t, s, tombstone(commit(t, s, publish(script.Release{}, named(i), "x")))))
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range tombstones {
				if err := garbage.Purge(ctx, object(tombstones[(i*7+w*5)%len(tombstones)])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, _, floor, all := snapshot(t, s); floor != tombstones[19].Revision || len(all) != 0 {
		t.Errorf("floor %d, %d releases; want %d, 0", floor, len(all), tombstones[19].Revision)
	}
}

// testPurgeIsSilent: a watch does not bring a removal.
func (h Harness) testPurgeIsSilent(t *testing.T) {
	s := h.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gone := commit(t, s, tombstone(commit(t, s, publish(script.Release{}, named(1), "1"))))
	watch, _ := watching(ctx, s, gone.Revision)
	if err := s.(registry.Garbage).Purge(ctx, object(gone)); err != nil {
		t.Fatal(err)
	}
	want := commit(t, s, publish(script.Release{}, named(2), "1"))
	if tx := <-watch; len(tx.Releases) != 1 || !same(tx.Releases[0], want) {
		t.Errorf("got %+v, want %+v", tx, want)
	}
}

func blobOf(t *testing.T, s registry.Store, source string) registry.Blob {
	t.Helper()
	for _, b := range gather(t, s.(registry.Garbage).Blobs(t.Context())) {
		if b.Digest == script.DigestOf([]byte(source)) {
			return b
		}
	}
	t.Fatalf("the source %q is not listed", source)
	return registry.Blob{}
}

func (h Harness) testDiscard(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	garbage := s.(registry.Garbage)
	if blobs := gather(t, garbage.Blobs(ctx)); len(blobs) != 0 {
		t.Errorf("an empty store has %v", blobs)
	}
	cur := commit(t, s, publish(script.Release{}, named(1), "one"))
	commit(t, s, tombstone(cur))
	for what, use := range map[string]func(i int){
		"a publish needs it": func(i int) { commit(t, s, publish(script.Release{}, named(10+i), "one")) },
		"it is put":          func(int) { putSource(t, s, "one") },
		"a restoration needs it": func(i int) {
			if _, err := s.Restore(ctx, restoration(script.Release{}, named(20+i), "one")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		listed := blobOf(t, s, "one")
		use(len(what))
		if done, err := garbage.Discard(ctx, listed); done || err != nil {
			t.Errorf("%s: it was discarded: %v, %v", what, done, err)
		}
		if source, err := s.Source(ctx, listed.Digest); err != nil || string(source) != "one" {
			t.Errorf("%s: %q, %v", what, source, err)
		}
	}
	putSource(t, s, "other")
	listed := blobOf(t, s, "one")
	commit(t, s, publish(script.Release{}, named(30), "other")) // nothing to do with it
	if done, err := garbage.Discard(ctx, listed); !done || err != nil {
		t.Errorf("Discard: %v, %v; want it done", done, err)
	}
	_, err := s.Source(ctx, listed.Digest)
	wantKind(t, err, script.NotFound)
	if blobs := gather(t, garbage.Blobs(ctx)); len(blobs) != 1 {
		t.Errorf("%d sources are listed, want the other alone", len(blobs))
	}
	commit(t, s, publish(script.Release{}, named(31), "one"))
	if source, err := s.Source(ctx, listed.Digest); err != nil || string(source) != "one" {
		t.Errorf("published again: %q, %v", source, err)
	}
	if done, err := garbage.Discard(ctx, listed); done || err != nil {
		t.Errorf("with a mark from before it was published again: %v, %v", done, err)
	}
}

// testManyBlobs lists more than any page holds.
func (h Harness) testManyBlobs(t *testing.T) {
	s := h.Open(t)
	const count = 450
	seen := map[script.Digest]bool{}
	for i := range count {
		putSource(t, s, fmt.Sprint("source ", i))
	}
	for _, b := range gather(t, s.(registry.Garbage).Blobs(t.Context())) {
		seen[b.Digest] = true
	}
	if len(seen) != count {
		t.Errorf("%d sources, want %d", len(seen), count)
	}
}

func putSource(t *testing.T, s registry.Store, source string) {
	t.Helper()
	digest, err := s.PutSource(t.Context(), []byte(source))
	if err != nil || digest != script.DigestOf([]byte(source)) {
		t.Fatalf("PutSource: %s, %v", digest, err)
	}
}
