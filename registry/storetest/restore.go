package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// restoration is that of a script with the versions 2, 4, 6… of the sources.
func restoration(cur script.Release, name script.Name, sources ...string) registry.Restoration {
	r := registry.Restoration{
		Guard:   cur.Revision,
		Release: script.Release{Name: name, Enabled: true, ChangedAt: at.Add(time.Hour), Owner: "cr"},
		History: []script.HistoryEntry{
			{Change: script.ChangeImport, Version: uint64(2 * len(sources)), Author: "eve", Time: at.Add(time.Hour)},
			{Revision: 77, Change: script.ChangePin, Version: 4, Author: "ann", Time: at},
			{Revision: 76, Change: script.ChangePublish, Version: 2, Author: "ann", Time: at},
		},
		Audit: script.AuditEntry{Time: at, Name: name, Change: script.ChangeImport, Note: "import"},
	}
	for i, source := range sources {
		v := script.Version{Number: uint64(2 * (i + 1)), Digest: script.DigestOf([]byte(source)), Engine: "lua", Size: len(source), CreatedAt: at}
		r.Release.Retained = append(r.Release.Retained, v)
		r.Release.Active, r.Release.Latest = v, max(v.Number, cur.Latest)
		v.Author, v.Note = "ann", fmt.Sprint("note ", i)
		r.Version = append(r.Version, v)
	}
	return r
}

func (h Harness) testRestore(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	r := restoration(script.Release{}, named(1), "two", "four")
	_, err := s.Restore(ctx, r)
	wantKind(t, err, script.NotFound)
	putSource(t, s, "two")
	_, err = s.Restore(ctx, r)
	wantKind(t, err, script.NotFound)
	if head, err := s.Head(ctx); head != 0 || err != nil {
		t.Errorf("what is refused was stored: head %d, %v", head, err)
	}
	putSource(t, s, "four")
	revision, err := s.Restore(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	want := r.Release
	want.Revision = revision
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, want) {
		t.Errorf("Release: %+v, %v; want %+v", got, err, want)
	}
	head, heads, _, _ := snapshot(t, s)
	if head != revision || heads["acme"] != revision {
		t.Errorf("head %d, %v; want %d", head, heads, revision)
	}
	for _, v := range r.Version {
		if got, err := s.Version(ctx, named(1), v.Number); err != nil || got != v {
			t.Errorf("Version: %+v, %v; want %+v", got, err, v)
		}
	}
	testRestoredHistory(t, s, want)
}

// testRestoredHistory: the lines that were restored are below the line that says so,
// and further ones come on top.
func testRestoredHistory(t *testing.T, s registry.Store, restored script.Release) {
	t.Helper()
	ctx, revision := t.Context(), restored.Revision
	history, err := s.History(ctx, named(1))
	if err != nil || len(history) != 3 || history[0].Change != script.ChangeImport || history[0].Revision != revision ||
		history[1].Revision != 0 || history[1].Change != script.ChangePin || history[2].Change != script.ChangePublish {
		t.Errorf("History: %+v, %v", history, err)
	}
	if got := trail(t, s, registry.AuditFilter{}, 10); len(got) != 1 || got[0].Revision != revision || got[0].Note != "import" {
		t.Errorf("Audit: %+v", got)
	}
	next := commit(t, s, publish(restored, named(1), "five"))
	if next.Latest != 5 {
		t.Errorf("the next version is %d, want 5", next.Latest)
	}
	if history, err := s.History(ctx, named(1)); err != nil || len(history) != 4 || history[0].Revision != next.Revision {
		t.Errorf("History after a publish: %+v, %v; want one line more", history, err)
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	versions, lines, err := s.Record(ctx, next, snap.At)
	if err != nil || fmt.Sprint(numbers(versions)) != "[2 4 5]" || len(lines) != 4 {
		t.Errorf("Record: %v, %v, %v", numbers(versions), lines, err)
	}
}

// testRestoreInPlace: nothing is left of what was there, but the numbers it had.
func (h Harness) testRestoreInPlace(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	var cur script.Release
	for i := range 9 {
		cur = commit(t, s, publish(cur, named(1), fmt.Sprint("old ", i)))
	}
	putSource(t, s, "new")
	r := restoration(cur, named(1), "new")
	stale := r
	stale.Guard--
	_, err := s.Restore(ctx, stale)
	wantKind(t, err, script.Conflict)
	fewer := r
	fewer.Release.Latest = 8 // the number 9 could be given again
	_, err = s.Restore(ctx, fewer)
	wantKind(t, err, script.Conflict)
	revision, err := s.Restore(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	for number := uint64(1); number <= 9; number++ {
		_, err := s.Version(ctx, named(1), number)
		if number == 2 && err != nil || number != 2 && script.KindOf(err) != script.NotFound {
			t.Errorf("version %d: %v", number, err)
		}
	}
	history, err := s.History(ctx, named(1))
	if err != nil || len(history) != 3 || history[0].Revision != revision || history[2].Version != 2 {
		t.Errorf("History: %+v, %v; want the restored lines alone", history, err)
	}
	if got, err := s.Release(ctx, named(1)); err != nil || got.Latest != 9 || got.Active.Number != 2 {
		t.Errorf("Release: %+v, %v", got, err)
	}
}

// testRestoreMany: as many versions as a script can have come in place of as many.
func (h Harness) testRestoreMany(t *testing.T) {
	s := h.Open(t)
	const most = script.MaxHistoryLimit + 2
	var cur script.Release
	for i := range most {
		cur = commit(t, s, publish(cur, named(1), fmt.Sprint("old ", i)))
	}
	var sources []string
	for i := range most {
		sources = append(sources, fmt.Sprint("new ", i))
		putSource(t, s, sources[i])
	}
	r := restoration(cur, named(1), sources...)
	for len(r.History) < registry.MaxHistory {
		r.History = append(r.History, script.HistoryEntry{Change: script.ChangePublish, Version: 1, Author: "ann", Time: at})
	}
	if _, err := s.Restore(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if history, err := s.History(t.Context(), named(1)); err != nil || len(history) != registry.MaxHistory {
		t.Errorf("%d lines, %v", len(history), err)
	}
}

// testRestoreOnAVersionFloor: numbers that a purged script had are not given again.
func (h Harness) testRestoreOnAVersionFloor(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	var cur script.Release
	for i := range 5 {
		cur = commit(t, s, publish(cur, named(1), fmt.Sprint("old ", i)))
	}
	if err := s.(registry.Garbage).Purge(ctx, object(commit(t, s, tombstone(cur)))); err != nil {
		t.Fatal(err)
	}
	putSource(t, s, "new")
	r := restoration(script.Release{}, named(1), "new")
	_, err := s.Restore(ctx, r)
	wantKind(t, err, script.Conflict)
	r.Release.Latest = 5
	if _, err := s.Restore(ctx, r); err != nil {
		t.Error(err)
	}
	gone := restoration(script.Release{}, named(2))
	gone.Release = script.Release{Name: named(2), Latest: 12, Deleted: true, ChangedAt: at}
	if _, err := s.Restore(ctx, gone); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Release(ctx, named(2)); err != nil || !got.Deleted || got.Latest != 12 || got.Revision == 0 {
		t.Errorf("a restored tombstone: %+v, %v", got, err)
	}
}
