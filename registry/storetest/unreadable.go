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

func (h Harness) runUnreadable(t *testing.T) {
	t.Helper()
	t.Run("UnreadableIsNamed", h.testUnreadableIsNamed)
	t.Run("UnreadableIsInSnapshots", h.testUnreadableIsInSnapshots)
	t.Run("UnreadableIsWatched", h.testUnreadableIsWatched)
	t.Run("UnreadableIsReplaced", h.testUnreadableIsReplaced)
	t.Run("UnreadableSettingsBoundNothing", h.testUnreadableSettings)
	t.Run("UnreadableIsSpared", h.testUnreadableIsSpared)
	t.Run("UnreadableIsLeftOutOfExports", h.testUnreadableIsLeftOutOfExports)
}

// records are what somebody may put in place of a record: no message, none at all, and that
// of another object.
var records = []string{"\xff\xff\xff", "", "\x0a\x05other\x12\x05other"}

// spoilable fills a store with two objects of each kind, and returns the keys of the first
// ones, which the tests spoil.
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
	s, ctx := h.Open(t), t.Context()
	keys := spoilable(t, s)
	for i, key := range keys {
		h.Spoil(t, s, key, records[i], false)
	}
	releases, lost, err := s.Releases(ctx, "acme", script.Name{}, 10)
	if err != nil || len(releases) != 1 || releases[0].Name != named(1) || !slices.Equal(keysOf(lost), keys[:1]) {
		t.Errorf("releases %+v without %+v, %v", releases, lost, err)
	}
	if releases, lost, err := s.Releases(ctx, "acme", named(0), 10); err != nil || len(releases) != 1 || len(lost) != 0 {
		t.Errorf("the releases after it: %+v without %+v, %v", releases, lost, err)
	}
	if values, lost, err := s.Values(ctx, "acme", "", "", 10); err != nil || len(values) != 1 || !slices.Equal(keysOf(lost), keys[1:2]) {
		t.Errorf("values %+v without %+v, %v", values, lost, err)
	}
	if tenants, lost, err := s.Tenants(ctx, "", 10); err != nil || len(tenants) != 1 || !slices.Equal(keysOf(lost), keys[2:]) {
		t.Errorf("tenants %+v without %+v, %v", tenants, lost, err)
	}
	_, err = s.Release(ctx, named(0))
	if _, ok := errors.AsType[*registry.Unreadable](err); !ok || script.KindOf(err) != script.Internal {
		t.Errorf("the release: %v", err)
	}
	data, err := s.DataUsage(ctx, keyed("acme", "a"))
	if err != nil || data.UnreadableValue == nil || data.UnreadableTenant == nil {
		t.Errorf("the usage: %+v, %v", data, err)
	}
}

// testUnreadableIsInSnapshots: a snapshot names all of them, says what they were before if the
// store remembers, and has all others.
func (h Harness) testUnreadableIsInSnapshots(t *testing.T) {
	for _, record := range records {
		for _, forgets := range []bool{false, true} {
			s := h.Open(t)
			keys := spoilable(t, s)
			for _, key := range keys {
				h.Spoil(t, s, key, record, forgets)
			}
			found, whole := lostIn(t, s)
			for _, u := range found {
				if forgets != (u.Last == nil) || u.Last != nil && u.Last.Key() != u.Key {
					t.Errorf("%q: what was there before %s: %+v; the store has forgotten it: %v", record, u.Key, u.Last, forgets)
				}
			}
			if want := slices.Sorted(slices.Values(keys)); whole != 3 || !slices.Equal(keysOf(found), want) {
				t.Errorf("%q: a snapshot has %d objects and names %v", record, whole, keysOf(found))
			}
		}
	}
}

// lostIn returns what a snapshot cannot read, and how many objects it can.
func lostIn(t *testing.T, s registry.Store) (lost []registry.Unreadable, whole int) {
	t.Helper()
	snapshot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range snapshot.Objects() {
		u, ok := errors.AsType[*registry.Unreadable](err)
		switch {
		case ok:
			lost = append(lost, *u)
		case err != nil:
			t.Fatal(err)
		default:
			whole++
		}
	}
	return lost, whole
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
		r := rules(s)
		spoil := func(key string) { h.Spoil(t, s, key, "garbage", forgets) }
		spoil(keys[0])
		again := registry.PublishRequest{Write: write(named(0)), Source: []byte("source 0")}
		_, err := r.Publish(ctx, again)
		wantKind(t, err, script.Internal) // it does not force
		_, err = r.Pin(ctx, registry.PinRequest{Write: write(named(0)), Version: 1})
		wantKind(t, err, script.Internal)
		again.Force = true
		result, err := r.Publish(ctx, again)
		if err != nil || !result.Changed || result.Version.Number != 1 || result.Release.Latest != 1 || !result.Release.Enabled {
			t.Errorf("a forced publish of what was there: %+v, %v", result, err)
		}
		if now, err := s.Release(ctx, named(0)); err != nil || now.Active.Number != 1 || now.Revision != result.Release.Revision {
			t.Errorf("after it: %+v, %v", now, err)
		}
		spoil(keys[0])
		again.Source = []byte("source 0, changed")
		if result, err := r.Publish(ctx, again); err != nil || result.Version.Number != 2 || len(result.Release.Retained) != 2 {
			t.Errorf("a forced publish: %+v, %v", result, err)
		}
		spoil(keys[0])
		if result, err := r.Delete(ctx, registry.DeleteRequest{Write: write(named(0))}); err != nil || !result.Release.Deleted || result.Release.Latest != 2 {
			t.Errorf("a delete: %+v, %v", result, err)
		}
		spoil(keys[1])
		put(t, s, keyed("acme", "a"), "content of a")
		spoil(keys[1])
		remove(t, s, keyed("acme", "a"))
		if lost, _ := lostIn(t, s); len(lost) != 0 {
			t.Errorf("in the end %+v cannot be read", lost)
		}
	}
}

// testUnreadableSettings: what the settings of a tenant may forbid waits until they are set
// again; nothing else does.
func (h Harness) testUnreadableSettings(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	keys := spoilable(t, s)
	h.Spoil(t, s, keys[2], "garbage", true)
	r := rules(s)
	req := registry.PublishRequest{Write: write(named(1)), Source: []byte("source 1, changed")}
	_, err := r.Publish(ctx, req)
	wantKind(t, err, script.Internal)
	value := registry.PutValue{Key: keyed("acme", "c"), Content: []byte("more"), Author: "ann", By: access.Everybody("unix")}
	_, _, err = r.PutValue(ctx, value)
	wantKind(t, err, script.Internal)
	if _, err := r.SetEnabled(ctx, registry.SetEnabledRequest{Write: write(named(1))}); err != nil {
		t.Errorf("disable: %v", err)
	}
	if _, err := r.DeleteValue(ctx, registry.DeleteValue{Key: keyed("acme", "b"), Author: "ann", By: access.Everybody("unix")}); err != nil {
		t.Errorf("delete a value: %v", err)
	}
	settings := registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{Concurrency: 5}, Author: "ann", By: access.Everybody("unix")}
	if _, changed, err := r.SetTenant(ctx, settings); err != nil || !changed {
		t.Errorf("set the settings: %v, %v", changed, err)
	}
	if _, err := r.Publish(ctx, req); err != nil {
		t.Errorf("a publish after it: %v", err)
	}
	if _, _, err := r.PutValue(ctx, value); err != nil {
		t.Errorf("a value after it: %v", err)
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
		if data, err := s.DataUsage(ctx, gone.Key); err != nil || data.Value.Revision != 0 {
			t.Errorf("forgets %v: the tombstone: %+v, %v", forgets, data.Value, err)
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
