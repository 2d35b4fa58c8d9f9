package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// records are what somebody may put in place of a record: no message, none at all, and that
// of another object.
var records = []string{"\xff\xff\xff", "", "\x0a\x05other\x12\x05other"}

// spoilable fills a store with two objects of each kind, the first of which are to be
// spoiled, and returns the keys of these.
func spoilable(t *testing.T, s registry.Store) []string {
	t.Helper()
	for i := range 2 {
		if _, err := rules(s).Publish(t.Context(), registry.PublishRequest{Write: write(named(i)), Source: fmt.Append(nil, "source ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, keyed("acme", "a"), "content of a")
	put(t, s, keyed("acme", "b"), "content of b")
	set(t, s, "acme", 4)
	set(t, s, "other", 4)
	return []string{"releases/acme/s0000", "values/acme/a", "tenants/acme"}
}

func keysOf(lost []registry.Unreadable) []string {
	keys := make([]string, len(lost))
	for i, u := range lost {
		keys[i] = u.Key
	}
	slices.Sort(keys)
	return keys
}

// testUnreadableIsNamed: a record that cannot be read is named wherever it is read, and
// keeps nobody from the others.
func (h Harness) testUnreadableIsNamed(t *testing.T) {
	for _, record := range records {
		for _, forgets := range []bool{false, true} {
			h.namesUnreadable(t, record, forgets)
		}
	}
}

func (h Harness) namesUnreadable(t *testing.T, record string, forgets bool) {
	t.Helper()
	s, ctx := h.Open(t), t.Context()
	keys := spoilable(t, s)
	for _, key := range keys {
		h.Spoil(t, s, key, record, forgets)
	}
	releases, lost, err := s.Releases(ctx, "acme", script.Name{}, 10)
	if err != nil || len(releases) != 1 || releases[0].Name != named(1) || !slices.Equal(keysOf(lost), keys[:1]) {
		t.Errorf("%q: releases %+v without %+v, %v", record, releases, lost, err)
	}
	if releases, lost, err := s.Releases(ctx, "acme", named(0), 10); err != nil || len(releases) != 1 || len(lost) != 0 {
		t.Errorf("%q: the releases after it: %+v without %+v, %v", record, releases, lost, err)
	}
	values, lost, err := s.Values(ctx, "acme", "", "", 10)
	if err != nil || len(values) != 1 || !slices.Equal(keysOf(lost), keys[1:2]) {
		t.Errorf("%q: values %+v without %+v, %v", record, values, lost, err)
	}
	tenants, lost, err := s.Tenants(ctx, "", 10)
	if err != nil || len(tenants) != 1 || !slices.Equal(keysOf(lost), keys[2:]) {
		t.Errorf("%q: tenants %+v without %+v, %v", record, tenants, lost, err)
	}
	_, err = s.Release(ctx, named(0))
	if _, ok := errors.AsType[*registry.Unreadable](err); !ok || script.KindOf(err) != script.Internal {
		t.Errorf("%q: the release: %v", record, err)
	}
	stock, err := s.Stock(ctx, keyed("acme", "a"))
	if err != nil || stock.UnreadableValue == nil || stock.UnreadableTenant == nil {
		t.Errorf("%q: the stock: %+v, %v", record, stock, err)
	}
	snapshot, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var found []registry.Unreadable
	whole := 0
	for _, err := range snapshot.Objects() {
		u, ok := errors.AsType[*registry.Unreadable](err)
		switch {
		case ok:
			found = append(found, *u)
			if forgets != (u.Last == nil) || u.Last != nil && u.Last.Key() != u.Key {
				t.Errorf("%q: what was there before %s: %+v; the store has forgotten it: %v", record, u.Key, u.Last, forgets)
			}
		case err != nil:
			t.Fatal(err)
		default:
			whole++
		}
	}
	if want := slices.Sorted(slices.Values(keys)); whole != 3 || !slices.Equal(keysOf(found), want) {
		t.Errorf("%q: a snapshot has %d objects and names %v", record, whole, keysOf(found))
	}
}

// testUnreadableIsWatched: a watch tells of the record and goes on; what others than
// registries write is no revision of the store's head.
func (h Harness) testUnreadableIsWatched(t *testing.T) {
	s := h.Open(t)
	keys := spoilable(t, s)
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		h.Spoil(t, s, key, "", false)
	}
	if now, err := s.Head(t.Context()); err != nil || now != head {
		t.Errorf("the head moves from %d to %d, %v", head, now, err)
	}
	put(t, s, keyed("acme", "b"), "changed")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lost []registry.Unreadable
	for tx, err := range s.Watch(ctx, head) {
		if err != nil {
			t.Fatal(err)
		}
		if tx.Foreign != (len(tx.Unreadable) > 0) {
			t.Errorf("transaction %d: foreign %v, with %+v", tx.Revision, tx.Foreign, tx.Unreadable)
		}
		lost = append(lost, tx.Unreadable...)
		if len(tx.Values) > 0 {
			break
		}
	}
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(keysOf(lost), want) {
		t.Errorf("the watch names %v, want %v", keysOf(lost), want)
	}
}

// testUnreadableIsReplaced: a record that cannot be read is replaced by whoever may, with its
// revision as the guard.
func (h Harness) testUnreadableIsReplaced(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		s, ctx := h.Open(t), t.Context()
		keys := spoilable(t, s)
		for _, key := range keys {
			h.Spoil(t, s, key, "garbage", forgets)
		}
		r := rules(s)
		again := registry.PublishRequest{Write: write(named(0)), Source: []byte("source 0")}
		if _, err := r.Publish(ctx, again); script.KindOf(err) != script.Internal {
			t.Errorf("a publish that does not force: %v", err)
		}
		if _, err := r.Pin(ctx, registry.PinRequest{Write: write(named(0)), Version: 1}); script.KindOf(err) != script.Internal {
			t.Errorf("a pin: %v", err)
		}
		unbounded := registry.PublishRequest{Write: write(named(1)), Source: []byte("source 1, changed")}
		if _, err := r.Publish(ctx, unbounded); script.KindOf(err) != script.Internal {
			t.Errorf("a version whose tenant's limits nobody knows: %v", err)
		}
		set(t, s, "acme", 5)
		again.Force = true
		result, err := r.Publish(ctx, again)
		if err != nil || !result.Changed || result.Version.Number != 1 || result.Release.Latest != 1 || !result.Release.Enabled {
			t.Errorf("a forced publish of what was there: %+v, %v", result, err)
		}
		if now, err := s.Release(ctx, named(0)); err != nil || now.Active.Number != 1 || now.Revision != result.Release.Revision {
			t.Errorf("after it: %+v, %v", now, err)
		}
		h.Spoil(t, s, keys[0], "garbage", forgets)
		again.Source = []byte("source 0, changed")
		if result, err := r.Publish(ctx, again); err != nil || result.Version.Number != 2 || len(result.Release.Retained) != 2 {
			t.Errorf("a forced publish: %+v, %v", result, err)
		}
		h.Spoil(t, s, keys[0], "garbage", forgets)
		if result, err := r.Delete(ctx, registry.DeleteRequest{Write: write(named(0))}); err != nil || !result.Release.Deleted || result.Release.Latest != 2 {
			t.Errorf("a delete: %+v, %v", result, err)
		}
		put(t, s, keyed("acme", "a"), "content of a")
		h.Spoil(t, s, keys[1], "garbage", forgets)
		remove(t, s, keyed("acme", "a"))
		snapshot, err := s.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range snapshot.Objects() {
			if err != nil {
				t.Errorf("in the end: %v", err)
			}
		}
	}
}

// testUnreadableIsSpared: garbage is collected all the same, but for what the object may
// need.
func (h Harness) testUnreadableIsSpared(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		s, ctx := h.Open(t), t.Context()
		keys := spoilable(t, s)
		gone := put(t, s, keyed("acme", "gone"), "content that is gone")
		remove(t, s, keyed("acme", "gone"))
		h.Spoil(t, s, keys[0], "garbage", forgets)
		h.Spoil(t, s, keys[2], "garbage", forgets)
		collector := collector(s)
		for range 3 {
			if _, err := collector.Collect(ctx); err != nil {
				t.Fatalf("a round: %v", err)
			}
		}
		for content, kept := range map[string]bool{"source 0": true, "source 1": true, "content of a": true, "content that is gone": false} {
			if _, err := s.Source(ctx, script.DigestOf([]byte(content))); (err == nil) != kept {
				t.Errorf("forgets %v: %q is kept: %v, want %v", forgets, content, err, kept)
			}
		}
		if stock, err := s.Stock(ctx, gone.Key); err != nil || stock.Value.Revision != 0 {
			t.Errorf("forgets %v: the tombstone: %+v, %v", forgets, stock.Value, err)
		}
	}
}

// testUnreadableIsLeftOutOfExports: an export has all the others, and names it.
func (h Harness) testUnreadableIsLeftOutOfExports(t *testing.T) {
	s := h.Open(t)
	keys := spoilable(t, s)
	for _, key := range keys {
		h.Spoil(t, s, key, "garbage", false)
	}
	var lost []registry.Unreadable
	var left []string
	for _, item := range gather(t, rules(s).Export(t.Context(), registry.ExportRequest{By: access.Everybody("unix")})) {
		switch {
		case item.Unreadable != nil:
			lost = append(lost, *item.Unreadable)
		case item.Record != nil:
			left = append(left, item.Record.Release.Name.String())
		case item.Value != nil:
			left = append(left, item.Value.Value.Key.String())
		case item.Tenant != nil:
			left = append(left, item.Tenant.Name)
		}
	}
	slices.Sort(left)
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(keysOf(lost), want) || !slices.Equal(left, []string{"acme/b", "acme/s0001", "other"}) {
		t.Errorf("the export has %v and names %v", left, keysOf(lost))
	}
}
