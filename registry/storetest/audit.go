package storetest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (h Harness) runAudits(t *testing.T) {
	t.Helper()
	t.Run("Audit", h.testAudit)
	t.Run("LongTrail", h.testLongTrail)
	t.Run("TrimAudit", h.testTrimAudit)
}

// audited adds an entry of the audit trail from that many seconds after at.
func audited(c registry.Commit, seconds int) registry.Commit {
	c.Audit = script.AuditEntry{
		Time: at.Add(time.Duration(seconds) * time.Second), Name: c.Release.Name, Change: c.Entry.Change,
		Version: c.Entry.Version, Digest: c.Entry.Digest, Candidate: 7, CandidateDigest: script.DigestOf([]byte("seven")), Author: "ann", Identity: "ci", Peer: "10.0.0.1:1", Owner: "cr",
		Forced: true, Note: fmt.Sprint(seconds),
	}
	return c
}

func notes(entries []script.AuditEntry) []string {
	var notes []string
	for _, e := range entries {
		notes = append(notes, e.Note)
	}
	return notes
}

// trail reads all pages.
func trail(t *testing.T, s registry.Store, filter registry.AuditFilter, size int) []script.AuditEntry {
	t.Helper()
	var all []script.AuditEntry
	for token := ""; ; {
		page, next, err := s.Audit(t.Context(), filter, token, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > size {
			t.Fatalf("a page of %d, the limit is %d", len(page), size)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		token = next
	}
}

func (h Harness) testAudit(t *testing.T) {
	t.Run("AddAudit", h.testAddAudit)
	s := h.Open(t)
	if got := trail(t, s, registry.AuditFilter{}, 10); len(got) != 0 {
		t.Errorf("the trail of an empty store: %v", got)
	}
	first := audited(publish(script.Release{}, named(0), "x"), 0)
	r := commit(t, s, first)
	commit(t, s, audited(publish(script.Release{}, named(1), "x"), 1))
	commit(t, s, audited(publish(script.Release{}, script.Name{Tenant: "other", Script: "s0000"}, "x"), 2))
	commit(t, s, audited(tombstone(r), 3))
	commit(t, s, audited(publish(script.Release{}, script.Name{Tenant: "acme-eu", Script: "s"}, "x"), 4))
	for what, c := range map[string]struct {
		filter registry.AuditFilter
		want   string
	}{
		"all":      {registry.AuditFilter{}, "[4 3 2 1 0]"},
		"a tenant": {registry.AuditFilter{Tenant: "acme"}, "[3 1 0]"},
		"a script": {registry.AuditFilter{Tenant: "acme", Script: "s0000"}, "[3 0]"},
		"nobody's": {registry.AuditFilter{Tenant: "nobody"}, "[]"},
		"since":    {registry.AuditFilter{Since: at.Add(2 * time.Second)}, "[4 3 2]"},
		"just":     {registry.AuditFilter{Since: at.Add(4*time.Second + 1)}, "[]"},
		"long ago": {registry.AuditFilter{Since: time.Unix(-1, 0)}, "[4 3 2 1 0]"},
	} {
		for _, size := range []int{1, 2, 5, 100} {
			if got := fmt.Sprint(notes(trail(t, s, c.filter, size))); got != c.want {
				t.Errorf("%s, pages of %d: %s, want %s", what, size, got, c.want)
			}
		}
	}
	got := trail(t, s, registry.AuditFilter{}, 10)[4]
	want := first.Audit
	want.Revision = r.Revision
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func (h Harness) testTrimAudit(t *testing.T) {
	s := h.Open(t)
	garbage := s.(registry.Garbage)
	var cur script.Release
	for i := range 10 {
		cur = commit(t, s, audited(publish(cur, named(1), fmt.Sprint(i)), i))
	}
	for _, c := range []struct {
		before  time.Duration
		trimmed int
		want    string
	}{
		{0, 0, "[9 8 7 6 5 4 3 2 1 0]"},
		{3 * time.Second, 3, "[9 8 7 6 5 4 3]"},
		{3 * time.Second, 0, "[9 8 7 6 5 4 3]"},
		{3*time.Second + 1, 1, "[9 8 7 6 5 4]"},
		{time.Hour, 6, "[]"},
	} {
		n, err := garbage.TrimAudit(t.Context(), at.Add(c.before))
		if got := fmt.Sprint(notes(trail(t, s, registry.AuditFilter{}, 100))); err != nil || n != c.trimmed || got != c.want {
			t.Errorf("before %v: %d, %v, %s; want %d, %s", c.before, n, err, got, c.trimmed, c.want)
		}
	}
	if head, err := s.Head(t.Context()); err != nil || head != cur.Revision {
		t.Errorf("the head is %d, %v; trimming moved it from %d", head, err, cur.Revision)
	}
}

// testLongTrail reads more than any page of the store holds, of which few match.
func (h Harness) testLongTrail(t *testing.T) {
	s := h.Open(t)
	const count, writers = 520, 16
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < count; i += writers {
				if _, err := s.Commit(t.Context(), audited(publish(script.Release{}, named(i), "x"), i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := trail(t, s, registry.AuditFilter{}, 1000); len(got) != count {
		t.Errorf("%d entries, want %d", len(got), count)
	}
	one, token, err := s.Audit(t.Context(), registry.AuditFilter{Tenant: "acme", Script: named(0).Script}, "", 5)
	if err != nil || len(one) != 1 || token != "" {
		t.Errorf("of one script: %v, %q, %v; want its one entry", one, token, err)
	}
	if n, err := s.(registry.Garbage).TrimAudit(t.Context(), at.Add(time.Hour)); err != nil || n != count {
		t.Errorf("trimmed %d, %v; want %d", n, err, count)
	}
}

func (h Harness) testRequests(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	id := rand.Text()
	if _, ok, err := s.Request(ctx, named(1), id); ok || err != nil {
		t.Errorf("a request that never was: %v, %v", ok, err)
	}
	c := publish(script.Release{}, named(1), "one")
	c.RequestID, c.Fingerprint = id, asked("one")
	first := commit(t, s, c)
	want := registry.Done{Name: named(1), Fingerprint: c.Fingerprint, Change: script.ChangePublish, Revision: first.Revision, Version: 1}
	if done, ok, err := s.Request(ctx, named(1), id); !ok || err != nil || done != want {
		t.Errorf("Request: %+v, %v, %v; want %+v", done, ok, err, want)
	}
	second := publish(first, named(1), "two")
	second.RequestID = id
	_, err := s.Commit(ctx, second)
	wantKind(t, err, script.Conflict)
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, first) {
		t.Errorf("after conflicts: %+v, %v; want %+v", got, err, first)
	}
	_, err = s.Source(ctx, script.DigestOf([]byte("two")))
	wantKind(t, err, script.NotFound)

	other := publish(script.Release{}, named(2), "one")
	other.RequestID = id // of another script: nobody shares ids
	commit(t, s, other)
	if done, ok, err := s.Request(ctx, named(2), id); !ok || err != nil || done.Name != named(2) {
		t.Errorf("Request of another script: %+v, %v, %v", done, ok, err)
	}

	settings := registry.Commit{
		Guard: first.Revision, Release: first, RequestID: rand.Text(), Found: 1,
		Entry: script.HistoryEntry{Change: script.ChangeConfigure, Version: 1, Time: at},
	}
	r := commit(t, s, settings)
	want = registry.Done{Name: named(1), Change: script.ChangeConfigure, Revision: r.Revision, Version: 1}
	if done, ok, err := s.Request(ctx, named(1), settings.RequestID); !ok || err != nil || done != want {
		t.Errorf("Request: %+v, %v, %v; want %+v", done, ok, err, want)
	}
	s = h.Reopen(t, s)
	if _, ok, err := s.Request(ctx, named(1), id); !ok || err != nil {
		t.Errorf("after a restart: %v, %v; want it remembered", ok, err)
	}
}

func asked(source string) registry.Fingerprint {
	return registry.Fingerprint{Change: script.ChangePublish, Digest: script.DigestOf([]byte(source))}
}

// testAddAudit: an entry of its own is in the trail, and is no change.
func (h Harness) testAddAudit(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, audited(publish(script.Release{}, named(1), "one"), 0))
	before, heads, _, _ := snapshot(t, s)
	entry := script.AuditEntry{Time: at.Add(time.Second), Change: script.ChangeProfile, Identity: "ann", Note: "agent edge-1"}
	if err := s.AddAudit(ctx, entry); err != nil {
		t.Fatal(err)
	}
	entries := trail(t, s, registry.AuditFilter{}, 10)
	if len(entries) != 2 || entries[0].Change != script.ChangeProfile || entries[0].Identity != "ann" || entries[0].Note != entry.Note || !entries[0].Time.Equal(entry.Time) {
		t.Errorf("%+v, want %+v first", entries, entry)
	}
	if only := trail(t, s, registry.AuditFilter{Tenant: "acme"}, 10); len(only) != 1 {
		t.Errorf("the trail of a tenant has %+v", only)
	}
	head, after, _, all := snapshot(t, s)
	if head != before || after["acme"] != heads["acme"] || !same(all[named(1)], first) {
		t.Errorf("head %d, %v, %+v; want them as before: %d, %v, %+v", head, after, all[named(1)], before, heads, first)
	}
	next := commit(t, s, publish(first, named(1), "two"))
	for tx, err := range s.Watch(ctx, before) {
		if err != nil || tx.Revision != next.Revision {
			t.Errorf("watched %+v, %v; want revision %d next", tx, err, next.Revision)
		}
		break
	}
}

// testNoteRequest: what became of a write that changed nothing is remembered, and is
// no change.
func (h Harness) testNoteRequest(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	first := commit(t, s, publish(script.Release{}, named(1), "one"))
	before, heads, _, _ := snapshot(t, s)
	id, done := rand.Text(), registry.Done{Name: named(1), Fingerprint: asked("one"), Version: 1}
	wantKind(t, s.NoteRequest(ctx, first.Revision-1, id, done), script.Conflict)
	if _, ok, err := s.Request(ctx, named(1), id); ok || err != nil {
		t.Errorf("what was refused is remembered: %v, %v", ok, err)
	}
	if err := s.NoteRequest(ctx, first.Revision, id, done); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.NoteRequest(ctx, first.Revision, id, done), script.Conflict)
	got, ok, err := s.Request(ctx, named(1), id)
	got.Revision = 0
	if !ok || err != nil || got != done {
		t.Errorf("Request: %+v, %v, %v; want %+v", got, ok, err, done)
	}
	c := publish(first, named(1), "two")
	c.RequestID = id
	_, err = s.Commit(ctx, c)
	wantKind(t, err, script.Conflict)
	head, after, _, all := snapshot(t, s)
	if head != before || after["acme"] != heads["acme"] || !same(all[named(1)], first) {
		t.Errorf("head %d, %v, %+v; want them as before: %d, %v, %+v", head, after, all[named(1)], before, heads, first)
	}
	next := commit(t, s, publish(first, named(1), "two"))
	for tx, err := range s.Watch(ctx, before) {
		if err != nil || tx.Revision != next.Revision {
			t.Errorf("watched %+v, %v; want revision %d next", tx, err, next.Revision)
		}
		break
	}
}

// testOneRequestAtOnce: of many writers that do one request at the same time, and
// again where somebody else was first, one does it.
func (h Harness) testOneRequestAtOnce(t *testing.T) {
	s, ctx, id := h.Open(t), t.Context(), rand.Text()
	cur := commit(t, s, publish(script.Release{}, named(1), "x"))
	var happened atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			cur := cur
			for known := false; !known; {
				c := publish(cur, named(1), "x")
				if i%2 == 0 { // others are in the way
					c.RequestID = id
				}
				_, err := s.Commit(ctx, c)
				switch {
				case err == nil && c.RequestID != "":
					happened.Add(1)
				case err != nil && script.KindOf(err) != script.Conflict:
					t.Error(err)
				}
				var lookErr, readErr error
				_, known, lookErr = s.Request(ctx, named(1), id)
				cur, readErr = s.Release(ctx, named(1))
				if lookErr != nil || readErr != nil {
					t.Error(lookErr, readErr)
					return
				}
			}
		})
	}
	wg.Wait()
	if happened.Load() != 1 {
		t.Errorf("it happened %d times, want once", happened.Load())
	}
}

// numbers are those of the versions, in order.
func numbers(versions []script.Version) []uint64 {
	var numbers []uint64
	for _, v := range versions {
		numbers = append(numbers, v.Number)
	}
	slices.Sort(numbers)
	return numbers
}
