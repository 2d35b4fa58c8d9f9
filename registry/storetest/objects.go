package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testPurgeObjects: tombstones of values and of settings go as those of scripts do.
func (h Harness) testPurgeObjects(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	garbage := s.(registry.Garbage)
	put(t, s, keyed("acme", "kept"), "kept")
	set(t, s, "zoo", 1)
	put(t, s, keyed("acme", "a/b"), "x")
	value := remove(t, s, keyed("acme", "a/b"))
	set(t, s, "acme", 1)
	tenant := set(t, s, "acme", 0)
	release := commit(t, s, tombstone(commit(t, s, publish(script.Release{}, named(1), "1"))))
	put(t, s, keyed("acme", "again"), "x")
	stale := remove(t, s, keyed("acme", "again"))
	again := put(t, s, keyed("acme", "again"), "y")
	if got := gather(t, garbage.Tombstones(ctx, at)); len(got) != 0 {
		t.Errorf("%d tombstones are older than they are", len(got))
	}
	found := map[string]script.Revision{}
	for _, o := range gather(t, garbage.Tombstones(ctx, at.Add(time.Hour))) {
		found[o.Key()] = o.Revision()
	}
	if len(found) != 3 || found["values/acme/a/b"] != value.Revision || found["tenants/acme"] != tenant.Revision || found["releases/"+release.Name.String()] != release.Revision {
		t.Errorf("tombstones: %v", found)
	}
	for _, o := range []script.Object{{Tenant: &tenant}, {Value: &value}, {Value: &stale}} {
		if err := garbage.Purge(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, floor, _ := snapshot(t, s); floor != tenant.Revision {
		t.Errorf("the floor is %d, want %d", floor, tenant.Revision)
	}
	all := everything(t, s)
	if len(all) != 4 || all["values/acme/again"] != described(script.Object{Value: &again}) || all["values/acme/kept"] == "" || all["tenants/zoo"] == "" {
		t.Errorf("left: %v", all)
	}
	if got := data(t, s, keyed("acme", "a/b")); got.Value != (script.Value{}) || got.Usage.Values != 2 {
		t.Errorf("of what was purged: %+v", got)
	}
	put(t, s, keyed("acme", "a/b"), "made again")
}

// testCollectorOfValues: a content stays while a value has it, and goes after.
func (h Harness) testCollectorOfValues(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	c := collector(s)
	put(t, s, keyed("acme", "a"), "replaced")
	put(t, s, keyed("acme", "a"), "kept")
	put(t, s, keyed("acme", "b"), "removed")
	remove(t, s, keyed("acme", "b"))
	commit(t, s, publish(script.Release{}, named(1), "shared"))
	put(t, s, keyed("acme", "c"), "shared")
	remove(t, s, keyed("acme", "c"))
	for round, want := range []registry.Collected{{Tombstones: 2}, {Sources: 2}, {}} {
		if got, err := c.Collect(ctx); err != nil || got != want {
			t.Errorf("round %d: %+v, %v; want %+v", round, got, err, want)
		}
	}
	for content, want := range map[string]bool{"replaced": false, "removed": false, "kept": true, "shared": true} {
		if _, err := s.Source(ctx, script.DigestOf([]byte(content))); (err == nil) != want {
			t.Errorf("%q: %v; want it there: %v", content, err, want)
		}
	}
	// One that is put again between two rounds stays.
	put(t, s, keyed("acme", "a"), "other")
	if _, err := c.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	put(t, s, keyed("acme", "d"), "kept")
	if got, err := c.Collect(ctx); err != nil || got.Sources != 0 {
		t.Errorf("a content that is put again: %+v, %v", got, err)
	}
	if _, err := s.Source(ctx, script.DigestOf([]byte("kept"))); err != nil {
		t.Error(err)
	}
}

// testValuesRaceTheCollector: values come and go with the same few contents while
// collectors run; none ever loses its content.
func (h Harness) testValuesRaceTheCollector(t *testing.T) {
	s := h.Open(t)
	ctx, stop := context.WithCancel(t.Context())
	var collecting, writing sync.WaitGroup
	collecting.Go(func() {
		c := collector(s)
		for ctx.Err() == nil {
			if _, err := c.Collect(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
				t.Error(err)
			}
		}
	})
	for w := range 3 {
		writing.Go(func() {
			r, key := rules(s), keyed(fmt.Sprint("tenant-", w), "key")
			for i := range 25 {
				v, _, err := r.PutValue(t.Context(), registry.PutValue{Key: key, Content: fmt.Append(nil, "content ", (w+i)%4), Author: "ann", By: access.Everybody("unix")})
				if err != nil {
					t.Error(err)
				}
				if source, err := s.Source(t.Context(), v.Digest); err != nil || script.DigestOf(source) != v.Digest {
					t.Errorf("a value lost its content: %v", err)
				}
				if i%3 > 0 {
					continue
				}
				if _, err := r.DeleteValue(t.Context(), registry.DeleteValue{Key: key, Author: "ann", By: access.Everybody("unix")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	stop()
	collecting.Wait()
}
