package etcdstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAFloodOfEvents: when 10,000 agents are lost at once, and a tenant is refused writes all the time, etcd gets a
// few small records, in a few transactions.
func TestAFloodOfEvents(t *testing.T) {
	prefix := "/" + rand.Text()
	s := open(t, prefix)
	r := timeline.NewRecorder(timeline.Config{Store: s, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	before, err := s.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		r.Note(timeline.Note{Type: script.EventAgent, What: "lost", Subject: fmt.Sprint("edge-", i)})
	}
	notes := uint64(0)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); <-ticker.C {
		r.Note(timeline.Note{Type: script.EventQuota, What: "refused", Tenant: "acme", About: "writes", Text: "writes: 20 a second"})
		notes++
	}
	cancel()
	running.Wait()
	after, err := s.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := client(t).Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, kv := range stored.Kvs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	page, err := s.Records(t.Context(), timeline.Query[timeline.Record]{Limit: 100, Wants: func(*timeline.Record) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	counted := map[script.EventType]uint64{}
	for _, item := range page.Items {
		counted[item.Of.Type] += max(1, item.Of.Count)
	}
	if counted[script.EventAgent] != 10_000 || counted[script.EventQuota] != notes {
		t.Errorf("records count %v, want 10000 and %d", counted, notes)
	}
	if len(page.Items) > 4 || bytes > 4096 {
		t.Errorf("%d records, and etcd has %d bytes", len(page.Items), bytes)
	}
	t.Logf("%d records in %d revisions of etcd, %d bytes", len(page.Items), after-before, bytes)
}

// TestABadEvent hides no other one.
func TestABadEvent(t *testing.T) {
	prefix := "/" + rand.Text()
	s := open(t, prefix)
	at := time.Now()
	put := func(text string) {
		t.Helper()
		at = at.Add(time.Second)
		record := timeline.Record{Event: script.Event{Time: at, Type: script.EventAgent, What: "lost", Text: text}}
		if err := s.PutRecords(t.Context(), []timeline.Record{record}); err != nil {
			t.Fatal(err)
		}
	}
	mark, err := s.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put("1")
	for _, key := range []string{"/auditevents/x", "/auditevents/09223372036854775807-agent-x", "/audit/09223372036854775807-x"} {
		if _, err := client(t).Put(t.Context(), prefix+key, "\xff\xff"); err != nil {
			t.Fatal(err)
		}
	}
	put("2")
	for _, limit := range []int{1, 10} {
		var got []string
		for after := ""; ; {
			page, err := s.Records(t.Context(), timeline.Query[timeline.Record]{After: after, Limit: limit, Wants: func(*timeline.Record) bool { return true }})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				got = append(got, item.Of.Text)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(got) != "[2 1]" {
			t.Errorf("pages of %d: %v", limit, got)
		}
	}
	var watched []string
	for b, err := range s.WatchEvents(t.Context(), mark) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			watched = append(watched, r.Text)
		}
		if len(watched) == 2 {
			break
		}
	}
	if fmt.Sprint(watched) != "[1 2]" {
		t.Errorf("watched %v", watched)
	}
	if n, err := s.TrimEvents(t.Context(), at.Add(time.Hour)); err != nil || n != 4 {
		t.Errorf("%d are trimmed, %v", n, err)
	}
}
