package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

func backTo(version uint64) registry.RollbackValue {
	return registry.RollbackValue{Key: flag, Version: version, Author: "eve", Note: "carts lost", By: everybody}
}

// historyOf returns the history of the flag, "put 1" for each line, newest first.
func (b *bench) historyOf() string {
	b.t.Helper()
	h, err := b.ValueHistory(b.t.Context(), everybody, flag)
	if err != nil {
		b.t.Fatal(err)
	}
	var lines []string
	for _, l := range h.Lines {
		lines = append(lines, fmt.Sprint(l.Change, " ", l.Version))
	}
	return strings.Join(lines, ", ")
}

func TestRollbackValue(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	counts := map[string]int{}
	b.Registry = registry.New(registry.Config{
		Store: b.store, OnWrite: func(change script.Change, outcome registry.Outcome) { counts[fmt.Sprint(change, " ", outcome)]++ },
	})
	_, _, err := b.RollbackValue(ctx, backTo(0))
	wantKind(t, err, script.NotFound, "key")
	one := b.put(flag, "one")
	_, _, err = b.RollbackValue(ctx, backTo(0))
	wantKind(t, err, script.NotFound, "version")
	b.put(flag, "two")
	three := b.put(flag, "three")
	for version, want := range map[uint64]string{9: "acme/flags/new-ui has no version 9; it keeps versions 1 to 3", 4: "has no version 4;"} {
		_, _, err = b.RollbackValue(ctx, backTo(version))
		wantKind(t, err, script.NotFound, "version")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if same, changed, err := b.RollbackValue(ctx, backTo(3)); err != nil || changed || same != three {
		t.Errorf("to the present version: %+v, %v, %v", same, changed, err)
	}
	guarded := backTo(1)
	guarded.ExpectedRevision = one.Revision
	_, _, err = b.RollbackValue(ctx, guarded)
	wantKind(t, err, script.Conflict, "expected_revision")
	guarded.ExpectedRevision = three.Revision
	back, changed, err := b.RollbackValue(ctx, guarded)
	if err != nil || !changed || back.Version != 1 || back.Digest != one.Digest || back.Size != one.Size || back.Author != "eve" || back.Revision != three.Revision+1 {
		t.Errorf("to version 1: %+v, %v, %v", back, changed, err)
	}
	if now, content, err := b.Value(ctx, everybody, flag, 0); err != nil || now != back || string(content) != "one" {
		t.Errorf("the value: %+v, %q, %v; want %+v", now, content, err, back)
	}
	if past, content, err := b.Value(ctx, everybody, flag, 3); err != nil || past != three || string(content) != "three" {
		t.Errorf("version 3: %+v, %q, %v; want %+v", past, content, err, three)
	}
	_, _, err = b.Value(ctx, everybody, flag, 4)
	wantKind(t, err, script.NotFound, "version")
	b.put(flag, "four")
	if got, want := b.historyOf(), "put 4, rollback 1, put 3, put 2, put 1"; got != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if counts["rollback changed"] != 1 || counts["rollback refused"] != 4 || counts["rollback unchanged"] != 1 || counts["rollback conflict"] != 1 {
		t.Errorf("counted: %v", counts)
	}
	result, err := b.Audit(ctx, registry.AuditRequest{By: everybody})
	if err != nil || len(result.Entries) != 5 {
		t.Fatalf("the audit trail: %+v, %v", result, err)
	}
	if e := result.Entries[1]; e.Change != script.ChangeRollback || e.Key != flag.Key || e.Version != 1 || e.Note != "carts lost" || e.Author != "eve" {
		t.Errorf("the entry of the rollback: %+v", e)
	}
}

// TestRollbackIsWithinTheQuota: it is a put.
func TestRollbackIsWithinTheQuota(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	b.set("acme", &script.TenantSettings{ValueBytes: 100})
	b.put(flag, strings.Repeat("x", 90))
	b.put(flag, "y")
	b.put(script.ValueKey{Tenant: "acme", Key: "other"}, strings.Repeat("z", 20))
	_, _, err := b.RollbackValue(ctx, backTo(1))
	wantKind(t, err, script.Limit, "content")
	if page, err := b.Values(ctx, everybody, "acme", "", "", 10); err != nil || page.Used != 21 {
		t.Errorf("%d bytes are used, %v; want 21", page.Used, err)
	}
	b.set("acme", &script.TenantSettings{ValueBytes: 110})
	if _, _, err := b.RollbackValue(ctx, backTo(1)); err != nil {
		t.Error(err)
	}
	if page, err := b.Values(ctx, everybody, "acme", "", "", 10); err != nil || page.Used != 110 {
		t.Errorf("%d bytes are used, %v; want 110", page.Used, err)
	}
}

// TestRollbackAcrossAnException: a freeze that excepts all of the tenant lets it pass.
func TestRollbackAcrossAnException(t *testing.T) {
	b := newBench(t)
	b.put(flag, "one")
	b.put(flag, "two")
	b.freeze("acme/route")
	_, _, err := b.RollbackValue(t.Context(), backTo(0))
	wantKind(t, err, script.Denied, script.FieldFreeze)
	b.freeze("acme")
	if _, changed, err := b.RollbackValue(t.Context(), backTo(0)); err != nil || !changed {
		t.Errorf("%v, %v", changed, err)
	}
}

// TestImportsAndRepairsAreInTheHistory: so is a value that was made of what the store remembers.
func TestImportsAndRepairsAreInTheHistory(t *testing.T) {
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: b.store, Checkup: b.store})
	b.put(flag, "one")
	items, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	b.put(flag, "two")
	again := importing(everybody)
	again.Overwrite = true
	if _, err := b.Import(t.Context(), again, from(items)); err != nil {
		t.Fatal(err)
	}
	b.store.Spoil("values/acme/"+flag.Key, false)
	b.repairs("values/acme/" + flag.Key)
	if got, want := b.historyOf(), "repair 3, import 3, put 2, put 1"; got != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
	// In another registry the numbers are its own.
	other := newBench(t)
	if _, err := other.Import(t.Context(), importing(everybody), from(items)); err != nil {
		t.Fatal(err)
	}
	if got, want := other.historyOf(), "import 1"; got != want {
		t.Errorf("the other history is %q, want %q", got, want)
	}
}

// repairs checks that doctor finds this alone, and repairs it.
func (b *bench) repairs(key string) {
	b.t.Helper()
	var found []registry.Finding
	for f, err := range b.Doctor(b.t.Context(), registry.DoctorRequest{By: everybody, Author: "doc", Repair: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		found = append(found, f)
	}
	if len(found) != 1 || found[0].Key != key || !found[0].Repaired {
		b.t.Errorf("doctor finds %+v, want %s, repaired", found, key)
	}
	for f, err := range b.Doctor(b.t.Context(), registry.DoctorRequest{By: everybody}) {
		b.t.Errorf("after the repair doctor finds %+v, %v", f, err)
	}
}

// TestDoctorOfHistories: a history that cannot be read is restored, or begins anew; the value
// stays what it is.
func TestDoctorOfHistories(t *testing.T) {
	for forgets, want := range map[bool]string{false: "repair 2, put 2, put 1", true: "repair 2, put 2"} {
		b := newBench(t)
		b.Registry = registry.New(registry.Config{Store: b.store, Checkup: b.store})
		b.put(flag, "one")
		two := b.put(flag, "two")
		b.store.Spoil("kvhistory/"+flag.String(), forgets)
		b.repairs("kvhistory/" + flag.String())
		if got := b.historyOf(); got != want {
			t.Errorf("the history is %q, want %q", got, want)
		}
		if now, content, err := b.Value(t.Context(), everybody, flag, 0); err != nil || now.Version != 2 || now.Digest != two.Digest || string(content) != "two" {
			t.Errorf("the value: %+v, %q, %v", now, content, err)
		}
		if three := b.put(flag, "three"); three.Version < 3 {
			t.Errorf("put: %+v", three)
		}
	}
}

// TestDoctorOfRetainedContents: it says what cannot be returned to, also without agents.
func TestDoctorOfRetainedContents(t *testing.T) {
	store := &losing{Store: memstore.New(), lost: map[script.Digest]bool{}}
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: store, Checkup: store})
	one := b.put(flag, "one")
	b.put(flag, "two")
	store.lost[one.Digest] = true
	var found []registry.Finding
	for f, err := range b.Doctor(t.Context(), registry.DoctorRequest{By: everybody, Author: "doc", Repair: true}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, f)
	}
	if len(found) != 1 || found[0].Key != "sources/"+one.Digest.String() || found[0].Reason != "it is missing; kvhistory/"+flag.String()+" needs it" ||
		found[0].Repaired || !strings.Contains(found[0].Remedy, "nobody can roll back to this version") {
		t.Errorf("doctor finds %+v", found)
	}
	b.put(flag, "one")
	if back, _, err := b.RollbackValue(t.Context(), backTo(1)); err != nil || back.Version != 1 {
		t.Errorf("%+v, %v; want version 1, whose content was put again", back, err)
	}
}

// TestLargeNotes: what tenants write into the lines counts, too.
func TestLargeNotes(t *testing.T) {
	b := newBench(t)
	b.set("acme", &script.TenantSettings{Writes: 100_000, WriteBytes: 1 << 30})
	for key := range 400 {
		for i := range script.MaxValueLines {
			req := put(script.ValueKey{Tenant: "acme", Key: fmt.Sprint("k", key)}, string(bytes.Repeat([]byte("x"), 10_000+i)))
			req.Note = strings.Repeat("n", registry.MaxNoteBytes)
			if _, _, err := b.PutValue(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := b.store.DataUsage(t.Context(), script.ValueKey{Tenant: "acme"})
	if most := script.DefaultTenantSettings().ValueBytes; err != nil || data.Usage.Older > most || data.Usage.Older < most/2 {
		t.Errorf("the histories take %d of %d, %v", data.Usage.Older, most, err)
	}
}

// TestRollbacksCountForTheRate: each is a write of its content, like a put of it.
func TestRollbacksCountForTheRate(t *testing.T) {
	b := newBench(t)
	b.set("acme", &script.TenantSettings{WriteBytes: 10_000}) // 128 times as many at once
	b.put(flag, strings.Repeat("x", 100_000))
	b.put(flag, strings.Repeat("y", 100_000))
	for i := range 30 {
		_, _, err := b.RollbackValue(t.Context(), backTo(uint64(1+i%2)))
		if err != nil {
			wantKind(t, err, script.Overloaded, "writeBytes")
			return
		}
	}
	t.Error("30 rollbacks of 100 kB came through at 10 kB a second")
}

// recounting is a store that tells how often it counted the histories.
type recounting struct {
	*memstore.Store
	counts int
}

func (s *recounting) OlderBytes(ctx context.Context, tenant string) (int64, error) {
	s.counts++
	return s.Store.OlderBytes(ctx, tenant)
}

// TestNobodyCountsForNothing: what the histories take is counted for a write that stores
// something, and not for one that changes nothing, is refused or is a trial.
func TestNobodyCountsForNothing(t *testing.T) {
	store := &recounting{Store: memstore.New()}
	b := newBench(t)
	b.store, b.Registry = store.Store, registry.New(registry.Config{Store: store})
	b.set("acme", &script.TenantSettings{Writes: 1, ValueBytes: 100})
	one := b.put(flag, "one")
	data, err := store.DataUsage(t.Context(), flag)
	if err != nil {
		t.Fatal(err)
	}
	one.Version = 0
	older := registry.ValueCommit{Guard: one.Revision, Value: one, Content: []byte("one"), Usage: data.Usage} // of a registry without histories
	if _, err := store.CommitValue(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	if _, changed, err := b.PutValue(t.Context(), put(flag, "one")); err != nil || changed {
		t.Errorf("put of what is there: %v, %v", changed, err)
	}
	_, _, err = b.PutValue(t.Context(), put(flag, strings.Repeat("x", 200)))
	wantKind(t, err, script.Limit, "content")
	if store.counts > 0 {
		t.Errorf("counted %d times for nothing", store.counts)
	}
	b.put(flag, "two")
	b.put(flag, "three")
	if store.counts != 1 {
		t.Errorf("counted %d times, want once", store.counts)
	}
	usage, err := store.DataUsage(t.Context(), flag)
	if older, _ := store.Store.OlderBytes(t.Context(), "acme"); err != nil || usage.Usage.Older != older || older == 0 {
		t.Errorf("the histories take %d; the usage says %+v, %v", older, usage.Usage, err)
	}
}

// TestDoctorOfALostHistory: a history that cannot be read, of no value, goes as doctor says.
func TestDoctorOfALostHistory(t *testing.T) {
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: b.store, Checkup: b.store})
	b.put(flag, "one")
	b.store.Lose("values/" + flag.String())
	b.store.Spoil("kvhistory/"+flag.String(), true)
	for f, err := range b.Doctor(t.Context(), registry.DoctorRequest{By: everybody}) {
		if err != nil || f.Repairable || !strings.Contains(f.Remedy, "the registry removes its history") {
			t.Errorf("doctor finds %+v, %v", f, err)
		}
	}
	c := registry.NewCollector(registry.CollectorConfig{Store: b.store, Garbage: b.store, Log: slog.New(slog.DiscardHandler)})
	if _, err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for f, err := range b.Doctor(t.Context(), registry.DoctorRequest{By: everybody}) {
		t.Errorf("after that doctor finds %+v, %v", f, err)
	}
}
