package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (h Harness) runValueHistories(t *testing.T) {
	t.Helper()
	t.Run("CollectorOfValues", h.testCollectorOfValues)
	t.Run("ValuesRaceTheCollector", h.testValuesRaceTheCollector)
	t.Run("ValueHistory", h.testValueHistory)
	t.Run("ValueHistoryIsCollected", h.testValueHistoryIsCollected)
	t.Run("ValueHistoryIsBounded", h.testValueHistoryIsBounded)
	t.Run("ValueHistoryOfAnOlderRegistry", h.testOlderRegistry)
	t.Run("ValueHistoryAndAnOlderCollector", h.testOlderCollector)
	t.Run("ValueHistoryWithoutAValue", h.testHistoryWithoutAValue)
	t.Run("ValueHistoryThatIsUnreadable", h.testUnreadableHistory)
	t.Run("ValueHistoryIsPurgedWhileCounted", h.testPurgeWhileCounted)
	t.Run("ValueHistoryIsLostWithItsValue", h.testLostHistory)
	t.Run("RollbacksRace", h.testRollbacksRace)
}

// values are a registry's, of one key.
type values struct {
	t   *testing.T
	s   registry.Store
	r   *registry.Registry
	key script.ValueKey
}

func valuesOf(t *testing.T, s registry.Store, key script.ValueKey) *values {
	t.Helper()
	return &values{t: t, s: s, r: rules(s), key: key}
}

func (v *values) put(content string) script.Value {
	v.t.Helper()
	got, _, err := v.r.PutValue(v.t.Context(), registry.PutValue{Key: v.key, Content: []byte(content), Author: "ann", Note: "put " + content[:min(len(content), 9)], By: access.Everybody("unix")})
	if err != nil {
		v.t.Fatal(err)
	}
	return got
}

func (v *values) delete() {
	v.t.Helper()
	if _, err := v.r.DeleteValue(v.t.Context(), registry.DeleteValue{Key: v.key, Author: "bob", By: access.Everybody("unix")}); err != nil {
		v.t.Fatal(err)
	}
}

func (v *values) rollback(version uint64) (script.Value, error) {
	got, _, err := v.r.RollbackValue(v.t.Context(), registry.RollbackValue{Key: v.key, Version: version, Author: "eve", By: access.Everybody("unix")})
	return got, err
}

// wants checks the history, "put 1" for each line, newest first, and that what it retains is there.
func (v *values) wants(want ...string) {
	v.t.Helper()
	h, err := v.r.ValueHistory(v.t.Context(), access.Everybody("unix"), v.key)
	if err != nil && script.KindOf(err) != script.NotFound {
		v.t.Fatal(err)
	}
	var lines []string
	last := script.Revision(1 << 60)
	for _, l := range h.Lines {
		lines = append(lines, fmt.Sprint(l.Change, " ", l.Version))
		if l.Revision >= last || l.Revision <= 0 || l.Time.IsZero() || l.Version > h.Latest {
			v.t.Errorf("the line %+v, after one of revision %d, of %d versions", l, last, h.Latest)
		}
		last = l.Revision
		if l.Version == 0 {
			continue
		}
		if content, err := v.s.Source(v.t.Context(), l.Digest); err != nil || script.DigestOf(content) != l.Digest || len(content) != l.Size {
			v.t.Errorf("the content of version %d: %d bytes of %d, %v", l.Version, len(content), l.Size, err)
		}
	}
	if !slices.Equal(lines, want) {
		v.t.Errorf("the history is %q, want %q", lines, want)
	}
}

// testValueHistory: each change has a line, and numbers go on.
func (h Harness) testValueHistory(t *testing.T) {
	s := h.Open(t)
	v := valuesOf(t, s, keyed("acme", "flags/a"))
	v.wants()
	if _, err := v.rollback(0); script.KindOf(err) != script.NotFound {
		t.Errorf("a rollback of nothing: %v", err)
	}
	v.put("one")
	two := v.put("two")
	v.put("two")
	v.put("three")
	v.wants("put 3", "put 2", "put 1")
	back, err := v.rollback(0)
	if err != nil || back.Version != 2 || back.Digest != two.Digest || back.Revision <= two.Revision {
		t.Errorf("a rollback: %+v, %v; want %+v", back, err, two)
	}
	if again, err := v.rollback(0); err != nil || again.Version != 1 {
		t.Errorf("another rollback: %+v, %v; want version 1", again, err)
	}
	if four := v.put("two"); four.Version != 4 {
		t.Errorf("a put after it: %+v; want version 4", four)
	}
	v.delete()
	v.wants("delete 0", "put 4", "rollback 1", "rollback 2", "put 3", "put 2", "put 1")
	v = valuesOf(t, h.Reopen(t, s), v.key)
	if four, err := v.rollback(0); err != nil || four.Version != 4 {
		t.Errorf("a rollback of the delete: %+v, %v; want version 4", four, err)
	}
	v.delete()
	if five := v.put("four"); five.Version != 5 {
		t.Errorf("a put after a delete: %+v; want version 5", five)
	}
	v.wants("put 5", "delete 0", "rollback 4", "delete 0", "put 4", "rollback 1", "rollback 2", "put 3", "put 2", "put 1")
	v.put("five")
	v.wants("put 6", "put 5", "delete 0", "rollback 4", "delete 0", "put 4", "rollback 1", "rollback 2", "put 3", "put 2")
	if page, _, err := v.s.Values(t.Context(), "acme", "", "", 10); err != nil || len(page) != 1 || page[0].Version != 6 {
		t.Errorf("the list: %+v, %v", page, err)
	}
	if usage := data(t, v.s, v.key).Usage; usage.Bytes != 4 || usage.Values != 1 {
		t.Errorf("%+v is used; want 4 bytes of one value", usage)
	}
}

// wantOlder checks that what the histories of acme take is counted right, and returns it.
func wantOlder(t *testing.T, s registry.Store) int64 {
	t.Helper()
	counted, err := s.OlderBytes(t.Context(), "acme")
	if usage := data(t, s, keyed("acme", "")).Usage; err != nil || usage.Older != counted {
		t.Errorf("the histories take %d, %v; the usage says %+v", counted, err, usage)
	}
	return counted
}

// testValueHistoryIsCollected: the contents of retained versions stay, and go with the history.
func (h Harness) testValueHistoryIsCollected(t *testing.T) {
	s := h.Open(t)
	v, c := valuesOf(t, s, keyed("acme", "a")), collector(s)
	collect := func() {
		t.Helper()
		for range 3 {
			if _, err := c.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range script.MaxValueLines + 2 {
		v.put(fmt.Sprint("content ", i))
	}
	collect()
	v.wants("put 12", "put 11", "put 10", "put 9", "put 8", "put 7", "put 6", "put 5", "put 4", "put 3")
	for i, want := range []bool{false, false, true} {
		if _, err := s.Source(t.Context(), script.DigestOf(fmt.Append(nil, "content ", i))); (err == nil) != want {
			t.Errorf("the content of version %d: %v; want it there: %v", i+1, err, want)
		}
	}
	if _, err := v.rollback(3); err != nil {
		t.Error(err)
	}
	other := valuesOf(t, s, keyed("acme", "b"))
	other.put("content 4") // has version 5's content
	wantOlder(t, s)
	v.delete()
	collect() // the tombstone, and then what nobody needs any more
	v.wants()
	if older := wantOlder(t, s); older != 0 {
		t.Errorf("the histories of what is gone take %d", older)
	}
	if left := gather(t, s.(registry.Garbage).Blobs(t.Context())); len(left) != 1 {
		t.Errorf("%d contents are left, want one", len(left))
	}
	if again := v.put("again"); again.Version != 1 {
		t.Errorf("a put when everything is gone: %+v; want version 1", again)
	}
}

// testValueHistoryIsBounded: what a tenant's histories take is bounded, whatever it puts; no put
// fails for that, and the last value still gets a history.
func (h Harness) testValueHistoryIsBounded(t *testing.T) {
	s := h.Open(t)
	const quota = 4 << 20
	if _, _, err := rules(s).SetTenant(t.Context(), registry.SetTenant{
		Tenant: "acme", Settings: &script.TenantSettings{ValueBytes: quota, WriteBytes: 1 << 30}, Author: "ann", By: access.Everybody("unix"),
	}); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), script.MaxValueBytes-1)
	for i := range 30 {
		v := valuesOf(t, s, keyed("acme", fmt.Sprint("large-", i%5)))
		v.put(string(append(large, byte(i))))
		if i%5 > 1 {
			v.put("small")
		}
		if i%7 == 6 {
			v.delete()
		}
		if older := wantOlder(t, s); older > quota {
			t.Fatalf("after %d puts the histories take %d of %d", i, older, quota)
		}
	}
	c := collector(s)
	for range 3 {
		if _, err := c.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left := gather(t, s.(registry.Garbage).Blobs(t.Context())); len(left) > 2*quota/script.MaxValueBytes+1 {
		t.Errorf("%d contents are left", len(left))
	}
	last := valuesOf(t, s, keyed("acme", "last"))
	last.put("one")
	last.put("two")
	last.wants("put 2", "put 1")
	// Less room than there was: what is there stays until it changes.
	if _, _, err := rules(s).SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{ValueBytes: 1}, Author: "ann", By: access.Everybody("unix")}); err != nil {
		t.Fatal(err)
	}
	last.put("3")
	last.wants("put 3")
}

// testOlderRegistry: a registry that knows no histories has written before, in between and last.
// commitValue is what it does.
func (h Harness) testOlderRegistry(t *testing.T) {
	s := h.Open(t)
	key := keyed("acme", "a")
	v := valuesOf(t, s, key)
	numbers := func(want uint64) {
		t.Helper()
		page, err := v.r.Values(t.Context(), access.Everybody("unix"), "acme", "", "", 10)
		if err != nil || len(page.Values) != 1 || page.Values[0].Version != want {
			t.Errorf("the list: %+v, %v; want version %d", page.Values, err, want)
		}
		value, _, err := v.r.Value(t.Context(), access.Everybody("unix"), key, 0)
		if err != nil || value.Version != want {
			t.Errorf("the value: %+v, %v; want version %d", value, err, want)
		}
	}
	put(t, s, key, "older 1")
	put(t, s, key, "older 2")
	v.wants("put 1")
	numbers(1)
	v.put("newer 1")
	v.wants("put 2", "put 1")
	put(t, s, key, "older 3")
	v.wants("put 3", "put 2", "put 1")
	numbers(3)
	put(t, s, key, "older 4")
	v.wants("put 3", "put 2", "put 1")
	if _, err := v.rollback(3); err != nil { // it is
		t.Error(err)
	}
	if two, err := v.rollback(0); err != nil || two.Version != 2 || two.Digest != script.DigestOf([]byte("newer 1")) {
		t.Errorf("rolled back to %+v, %v", two, err)
	}
	v.wants("rollback 2", "put 3", "put 2", "put 1")
	numbers(2)
	remove(t, s, key)
	v.wants("delete 0", "rollback 2", "put 3", "put 2", "put 1")
	v.put("newer 2")
	v.wants("put 4", "delete 0", "rollback 2", "put 3", "put 2", "put 1")
	wantOlder(t, s)
	gone := keyed("acme", "gone")
	put(t, s, gone, "older")
	remove(t, s, gone)
	if two := valuesOf(t, s, gone).put("newer"); two.Version != 2 {
		t.Errorf("put again: %+v; want version 2", two)
	}
}

// testOlderCollector: the collector of such a registry does not know what is retained.
func (h Harness) testOlderCollector(t *testing.T) {
	s := h.Open(t)
	key := keyed("acme", "a")
	v := valuesOf(t, s, key)
	v.put("one")
	v.put("newer 1")
	three := v.put("three")
	v.put("four")
	garbage := s.(registry.Garbage)
	for _, blob := range gather(t, garbage.Blobs(t.Context())) {
		if blob.Digest != script.DigestOf([]byte("newer 1")) {
			continue
		}
		if done, err := garbage.Discard(t.Context(), blob); !done || err != nil {
			t.Errorf("Discard: %v, %v", done, err)
		}
	}
	_, err := v.rollback(2)
	if script.KindOf(err) != script.NotFound || !strings.Contains(err.Error(), "the content of version 2 of acme/a is gone") {
		t.Errorf("a rollback to what is gone: %v", err)
	}
	if _, _, err := v.r.Value(t.Context(), access.Everybody("unix"), key, 2); script.KindOf(err) != script.NotFound {
		t.Errorf("a version whose content is gone: %v", err)
	}
	if back, err := v.rollback(3); err != nil || back.Digest != three.Digest {
		t.Errorf("rolled back to %+v, %v", back, err)
	}
}
