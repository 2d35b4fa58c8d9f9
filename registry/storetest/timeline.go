package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (h Harness) runTimeline(t *testing.T) {
	t.Helper()
	t.Run("Records", h.testRecords)
	t.Run("RecordsAreBounded", h.testRecordsAreBounded)
	t.Run("TrimEvents", h.testTrimEvents)
	t.Run("EventsAreWatched", h.testEventsAreWatched)
	t.Run("EventsAreNoTransactions", h.testEventsAreNoTransactions)
}

// noted is a record of that type, from that many seconds after at.
func noted(of script.EventType, what string, seconds int) timeline.Record {
	return timeline.Record{Event: script.Event{
		Time: at.Add(time.Duration(seconds) * time.Second), Since: at.Add(-time.Hour), Type: of, What: what, Tenant: "acme", Author: "ann",
		Count: 4812, Subjects: []string{"edge-1", "edge-2"}, Text: fmt.Sprint(seconds),
	}, State: "as it is"}
}

func record(t *testing.T, s registry.Store, records ...timeline.Record) {
	t.Helper()
	for batch := range slices.Chunk(records, timeline.MaxBatch) {
		if err := s.(timeline.Store).PutRecords(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// recordsOf reads all pages.
func recordsOf(t *testing.T, s registry.Store, q timeline.Query[timeline.Record]) (all []timeline.Record) {
	t.Helper()
	if q.Wants == nil {
		q.Wants = func(*timeline.Record) bool { return true }
	}
	for {
		page, err := s.(timeline.Store).Records(t.Context(), q)
		if err != nil || len(page.Items) > q.Limit {
			t.Fatalf("a page of %d, %v; the limit is %d", len(page.Items), err, q.Limit)
		}
		for _, item := range page.Items {
			if page.Next != "" && item.Of.Time.Before(page.Down) {
				t.Errorf("%v is on a page that goes down to %v", item.Of.Time, page.Down)
			}
			all = append(all, item.Of)
		}
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

func texts(records []timeline.Record) string {
	var all []string
	for i := range records {
		all = append(all, records[i].Text)
	}
	return strings.Join(all, " ")
}

func (h Harness) testRecords(t *testing.T) {
	s := h.Open(t)
	if got := recordsOf(t, s, timeline.Query[timeline.Record]{Limit: 10}); len(got) != 0 {
		t.Errorf("the records of an empty store: %v", got)
	}
	before, err := s.(timeline.Store).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := noted(script.EventAgent, "lost", 1)
	record(t, s, want, noted(script.EventQuota, "refused", 3))
	record(t, s, noted(script.EventKey, "signing", 0), noted(script.EventAgent, "back", 2), noted(script.EventAgent, "back", -5))
	s = h.Reopen(t, s)
	for what, c := range map[string]struct {
		query timeline.Query[timeline.Record]
		want  string
	}{
		"all":      {timeline.Query[timeline.Record]{}, "3 2 1 0 -5"},
		"since":    {timeline.Query[timeline.Record]{Since: at.Add(time.Second)}, "3 2 1"},
		"just":     {timeline.Query[timeline.Record]{Since: at.Add(3*time.Second + 1)}, ""},
		"long ago": {timeline.Query[timeline.Record]{Since: time.Unix(-1, 0)}, "3 2 1 0 -5"},
		"agents":   {timeline.Query[timeline.Record]{Wants: func(r *timeline.Record) bool { return r.Type == script.EventAgent }}, "2 1 -5"},
	} {
		for _, size := range []int{1, 2, 5, 100} {
			c.query.Limit = size
			if got := texts(recordsOf(t, s, c.query)); got != c.want {
				t.Errorf("%s, pages of %d: %q, want %q", what, size, got, c.want)
			}
		}
	}
	all := recordsOf(t, s, timeline.Query[timeline.Record]{Limit: 10})
	ids := map[string]bool{}
	for i := range all {
		ids[all[i].ID] = true
		if all[i].ID == "" || int64(all[i].Revision) <= before {
			t.Errorf("id %q, revision %d; the mark before was %d", all[i].ID, all[i].Revision, before)
		}
	}
	got := all[2]
	want.ID, want.Revision = got.ID, got.Revision
	if len(ids) != 5 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d ids; got %+v, want %+v", len(ids), got, want)
	}
	page, err := s.(timeline.Store).Records(t.Context(), timeline.Query[timeline.Record]{Limit: 3, Wants: func(*timeline.Record) bool { return true }})
	if err != nil || len(page.Items) != 3 {
		t.Fatal(err)
	}
	rest := recordsOf(t, s, timeline.Query[timeline.Record]{Limit: 10, After: page.Items[1].Place})
	if texts(rest) != "1 0 -5" {
		t.Errorf("after the place of an item: %q", texts(rest))
	}
}

// testRecordsAreBounded: however many there are of one type, those of others stay.
func (h Harness) testRecordsAreBounded(t *testing.T) {
	s := h.Open(t)
	record(t, s, noted(script.EventKey, "signing", -1000))
	const flood = 4000
	var many []timeline.Record
	for i := range flood {
		many = append(many, noted(script.EventAgent, "lost", i))
	}
	record(t, s, many...)
	agents, keys := 0, 0
	for _, r := range recordsOf(t, s, timeline.Query[timeline.Record]{Limit: 1000}) {
		switch r.Type {
		case script.EventAgent:
			if want := fmt.Sprint(flood - 1 - agents); r.Text != want {
				t.Fatalf("record %d of agents is %s, want %s", agents, r.Text, want)
			}
			agents++
		default:
			keys++
		}
	}
	const slack = 2 * timeline.MaxBatch
	if most := timeline.KeptOfAll() + slack; agents < timeline.Kept(script.EventAgent) || agents > most || keys != 1 {
		t.Errorf("%d records of agents are kept, and %d of keys; want %d to %d, and 1", agents, keys, timeline.Kept(script.EventAgent), most)
	}
}

func (h Harness) testTrimEvents(t *testing.T) {
	s := h.Open(t)
	record(t, s, noted(script.EventAgent, "lost", 0), noted(script.EventKey, "signing", 0), noted(script.EventQuota, "near", 5), noted(script.EventAgent, "back", 6))
	for _, c := range []struct {
		before  int
		trimmed int
		left    string
	}{{-1, 0, "6 5 0 0"}, {5, 1, "6 5 0"}, {6, 1, "6 0"}, {100, 1, "0"}} {
		n, err := s.(registry.Garbage).TrimEvents(t.Context(), at.Add(time.Duration(c.before)*time.Second))
		if err != nil || n != c.trimmed {
			t.Errorf("before %d: %d trimmed, %v; want %d", c.before, n, err, c.trimmed)
		}
		if got := texts(recordsOf(t, s, timeline.Query[timeline.Record]{Limit: 10})); got != c.left {
			t.Errorf("before %d: %q is left, want %q", c.before, got, c.left)
		}
	}
}

// happened returns what the first n batches above the mark have.
func happened(t *testing.T, s registry.Store, after int64, n int) (all []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := after
	for b, err := range s.(timeline.Store).WatchEvents(ctx, after) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Revision <= last {
			t.Errorf("a batch of revision %d follows %d", b.Revision, last)
		}
		last = b.Revision
		var of []string
		for _, w := range b.Writes {
			of = append(of, fmt.Sprintf("%s %s", w.Change, w.Note))
			if int64(w.Revision) != b.Revision {
				t.Errorf("a write of revision %d is in the batch of %d", w.Revision, b.Revision)
			}
		}
		for _, r := range b.Records {
			of = append(of, fmt.Sprintf("%s %s", r.What, r.Text))
			if int64(r.Revision) != b.Revision || r.ID == "" {
				t.Errorf("the record %q of revision %d is in the batch of %d", r.ID, r.Revision, b.Revision)
			}
		}
		slices.Sort(of)
		all = append(all, strings.Join(of, ", "))
		if len(all) == n {
			break
		}
	}
	return all
}

// testEventsAreWatched: a watch brings writes and records in one order, each once, from any mark on that the
// store remembers.
func (h Harness) testEventsAreWatched(t *testing.T) {
	s := h.Open(t)
	start, err := s.(timeline.Store).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, audited(publish(script.Release{}, named(0), "x"), 0))
	record(t, s, noted(script.EventAgent, "lost", 1), noted(script.EventAgent, "back", 2))
	commit(t, s, publish(script.Release{}, named(1), "x")) // without an entry
	middle, err := s.(timeline.Store).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	freeze := script.Freeze{Author: "ann", Since: at, ChangedAt: at}
	if _, err := s.CommitFreeze(t.Context(), registry.FreezeCommit{Freeze: freeze, Audit: script.AuditEntry{Time: at, Change: script.ChangeFreeze, Note: "3"}}); err != nil {
		t.Fatal(err)
	}
	go func() { // a watch that waits hears of it
		if err := s.(timeline.Store).PutRecords(t.Context(), []timeline.Record{noted(script.EventDrift, "found", 4)}); err != nil {
			t.Error(err)
		}
	}()
	want := []string{"publish 0", "back 2, lost 1", "freeze 3", "found 4"}
	if got := happened(t, s, start, 4); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := happened(t, s, middle, 2); !slices.Equal(got, want[2:]) {
		t.Errorf("from the middle on: %q, want %q", got, want[2:])
	}
	now, err := s.(timeline.Store).Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.Compact(t, s, script.Revision(now))
	for _, err := range s.(timeline.Store).WatchEvents(t.Context(), start) {
		if !errors.Is(err, registry.ErrForgotten) {
			t.Errorf("of what was compacted: %v", err)
		}
		break
	}
}

// testEventsAreNoTransactions: agents and replicas that follow the objects do not see them.
func (h Harness) testEventsAreNoTransactions(t *testing.T) {
	s := h.Open(t)
	first := commit(t, s, audited(publish(script.Release{}, named(0), "x"), 0))
	record(t, s, noted(script.EventAgent, "lost", 1))
	if head, err := s.Head(t.Context()); err != nil || head != first.Revision {
		t.Errorf("the head is %d, %v; want %d", head, err, first.Revision)
	}
	if got := trail(t, s, registry.AuditFilter{}, 10); len(got) != 1 {
		t.Errorf("the audit trail has %d entries, want 1", len(got))
	}
	next := commit(t, s, audited(publish(first, named(0), "y"), 0))
	for tx, err := range s.Watch(t.Context(), first.Revision) {
		if err != nil || tx.Revision != next.Revision || tx.Written != 2 {
			t.Errorf("watched %+v, %v; want revision %d next", tx, err, next.Revision)
		}
		break
	}
}
