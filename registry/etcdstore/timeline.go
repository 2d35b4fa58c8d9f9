package etcdstore

import (
	"context"
	"crypto/rand"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ timeline.Store = (*Store)(nil)

// The timeline has its own part of the keys, right behind the audit trail, so that one watch brings both in
// order:
//
//	auditevents/<t>-<type>-<random>  scriptorium.registry.v1.EventRecord; t falls as that of audit/
func (k keys) events() string { return k.prefix + "auditevents/" }

// newEvent is the key of a record of that type and time.
func (k keys) newEvent(of script.EventType, t time.Time) string {
	return k.events() + strings.TrimPrefix(k.auditAt(t), k.audit()) + "-" + string(of) + "-" + rand.Text()
}

// eventType returns the type of a record by its key; "" if it says none.
func (k keys) eventType(key string) script.EventType {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, k.events()), "-")
	of, _, _ := strings.Cut(rest, "-")
	return script.EventType(of)
}

// trail returns a range of keys that has the audit trail, and the events behind it.
func (k keys) trail() (from, end string) {
	return k.audit(), clientv3.GetPrefixRangeEnd(k.events())
}

// Mark implements timeline.Store.
func (s *Store) Mark(ctx context.Context) (int64, error) {
	resp, err := s.get(ctx, "read etcd's revision", s.keys.head(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return resp.Header.GetRevision(), nil
}

// Writes implements timeline.Store.
func (s *Store) Writes(ctx context.Context, q timeline.Query[script.AuditEntry]) (timeline.Page[script.AuditEntry], error) {
	return trailPage(ctx, s, "read the audit trail", s.keys.audit(), q, s.auditEntry)
}

// auditEntry returns the entry. One bad record must not hide all others.
func (s *Store) auditEntry(kv *mvccpb.KeyValue) script.AuditEntry {
	e, err := decodeAudit(kv)
	if err != nil {
		return script.AuditEntry{Revision: script.Revision(kv.ModRevision), Time: s.keys.timeOf(s.keys.audit(), kv.Key), Note: err.Error()}
	}
	return e
}

// Records implements timeline.Store.
func (s *Store) Records(ctx context.Context, q timeline.Query[timeline.Record]) (timeline.Page[timeline.Record], error) {
	wants := q.Wants
	q.Wants = func(r *timeline.Record) bool { return r.Type != "" && wants(r) }
	return trailPage(ctx, s, "read the events", s.keys.events(), q, s.eventRecord)
}

// eventRecord returns the record; the zero Record, without a type, if it cannot be read: nothing but the
// eyes of people depends on it.
func (s *Store) eventRecord(kv *mvccpb.KeyValue) timeline.Record {
	var m registryv1.EventRecord
	if proto.Unmarshal(kv.Value, &m) != nil {
		return timeline.Record{}
	}
	r := timeline.Record{Event: wire.ToEvent(m.GetEvent()), State: m.GetState()}
	r.ID, r.Revision = strings.TrimPrefix(string(kv.Key), s.keys.events()), script.Revision(kv.ModRevision)
	return r
}

// trailPages are read for one page at most.
const trailPages = 20

// trailPage returns a page of what lies below the prefix. Newer items have lower keys, so that a page is
// read without etcd having to sort all there are.
func trailPage[T any](ctx context.Context, s *Store, what, prefix string, q timeline.Query[T], decode func(*mvccpb.KeyValue) T) (page timeline.Page[T], err error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	if q.After != "" {
		from = after(prefix + q.After)
	}
	if !q.Since.IsZero() {
		end = prefix + strings.TrimPrefix(s.keys.auditAt(q.Since.Add(-1)), s.keys.audit())
	}
	var last []byte
	for range trailPages {
		if from >= end {
			return page, nil
		}
		resp, err := s.get(ctx, what, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return timeline.Page[T]{}, err
		}
		for i, kv := range resp.Kvs {
			from, last = after(string(kv.Key)), kv.Key
			item := decode(kv)
			if !q.Wants(&item) || !utf8.Valid(kv.Key) {
				continue
			}
			page.Items = append(page.Items, timeline.Item[T]{Of: item, Place: strings.TrimPrefix(string(kv.Key), prefix)})
			if len(page.Items) < q.Limit {
				continue
			}
			if i < len(resp.Kvs)-1 || resp.More {
				page.Next, page.Down = strings.TrimPrefix(string(kv.Key), prefix), s.keys.timeOf(prefix, kv.Key)
			}
			return page, nil
		}
		if !resp.More {
			return page, nil
		}
	}
	page.Next, page.Down = strings.TrimPrefix(string(last), prefix), s.keys.timeOf(prefix, last)
	return page, nil
}

// eventSlack is how many records may be more than are kept, so that not every write has to remove some.
const eventSlack = 64

// PutRecords implements timeline.Store.
func (s *Store) PutRecords(ctx context.Context, records []timeline.Record) error {
	ops := make([]clientv3.Op, 0, len(records)+1)
	for i := range records {
		r := records[i]
		r.ID, r.Revision = "", 0 // the key says them
		value, err := proto.Marshal(&registryv1.EventRecord{Event: wire.FromEvent(r.Event), State: r.State})
		if err != nil {
			return script.Errorf(script.Internal, "", "encode an event: %w", err)
		}
		ops = append(ops, clientv3.OpPut(s.keys.newEvent(r.Type, r.Time), string(value)))
	}
	ops = append(ops, clientv3.OpGet(s.keys.events(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	resp, err := s.commit(ctx, "store events", nil, ops, nil)
	if err != nil {
		return err
	}
	if n := resp.Responses[len(ops)-1].GetResponseRange().GetCount(); n > int64(timeline.KeptOfAll()+eventSlack) {
		s.trimRecords(ctx)
	}
	return nil
}

// trimRecords removes the oldest records of each type that has too many. The next write tries again if it
// fails.
func (s *Store) trimRecords(ctx context.Context) {
	kept := map[script.EventType]int{}
	var excess []string
	for kv, err := range s.pages(ctx, "trim the events", s.keys.events(), now, clientv3.WithKeysOnly()) {
		if err != nil {
			return
		}
		of := s.keys.eventType(string(kv.Key))
		if kept[of]++; kept[of] > timeline.Kept(of) {
			excess = append(excess, string(kv.Key))
		}
	}
	_ = s.removeKeys(ctx, "trim the events", excess)
}

// removeKeys removes keys that nobody writes again.
func (s *Store) removeKeys(ctx context.Context, what string, keys []string) error {
	for len(keys) > 0 {
		batch := keys[:min(opsPerTxn, len(keys))]
		keys = keys[len(batch):]
		ops := make([]clientv3.Op, len(batch))
		for i, key := range batch {
			ops[i] = clientv3.OpDelete(key)
		}
		if _, err := s.commit(ctx, what, nil, ops, nil); err != nil {
			return err
		}
	}
	return nil
}

// TrimEvents implements registry.Garbage.
func (s *Store) TrimEvents(ctx context.Context, before time.Time) (int, error) {
	var old []string
	from := s.keys.events() + strings.TrimPrefix(s.keys.auditAt(before.Add(-1)), s.keys.audit())
	for kv, err := range s.pages(ctx, "trim the events", s.keys.events(), now, clientv3.WithKeysOnly()) {
		if err != nil {
			return 0, err
		}
		if key := string(kv.Key); key >= from && timeline.Expires(s.keys.eventType(key)) {
			old = append(old, key)
		}
	}
	if err := s.removeKeys(ctx, "trim the events", old); err != nil {
		return 0, err
	}
	return len(old), nil
}

// WatchEvents implements timeline.Store.
func (s *Store) WatchEvents(ctx context.Context, after int64) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, end := s.keys.trail()
		updates := s.client.Watch(clientv3.WithRequireLeader(ctx), from, clientv3.WithRange(end), clientv3.WithRev(after+1), clientv3.WithFilterDelete())
		for resp := range updates {
			if err := resp.Err(); err != nil { // of a compaction, too
				yield(timeline.Batch{}, s.failure(ctx, "watch the events", err))
				return
			}
			for batch := range s.batches(resp.Events) {
				if !yield(batch, nil) {
					return
				}
			}
		}
		if ctx.Err() != nil {
			return
		}
		yield(timeline.Batch{}, script.Errorf(script.Unavailable, "", "the watch on etcd at %s was closed", s.endpoints))
	}
}

// batches groups what was written by revision: etcd never splits a revision between two responses.
func (s *Store) batches(events []*clientv3.Event) iter.Seq[timeline.Batch] {
	return func(yield func(timeline.Batch) bool) {
		var b timeline.Batch
		for _, event := range events {
			kv := event.Kv
			if kv.ModRevision != b.Revision {
				if b.Revision != 0 && !yield(b) {
					return
				}
				b = timeline.Batch{Revision: kv.ModRevision}
			}
			if !strings.HasPrefix(string(kv.Key), s.keys.events()) {
				b.Writes = append(b.Writes, s.auditEntry(kv))
			} else if r := s.eventRecord(kv); r.Type != "" {
				b.Records = append(b.Records, r)
			}
		}
		if b.Revision != 0 {
			yield(b)
		}
	}
}
