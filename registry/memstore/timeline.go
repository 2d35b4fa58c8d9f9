package memstore

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

var _ timeline.Store = (*Store)(nil)

// recordedEvent is a record with its number, which is its place.
type recordedEvent struct {
	number int
	record timeline.Record
}

// Mark implements timeline.Store.
func (s *Store) Mark(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.last), nil
}

// Writes implements timeline.Store.
func (s *Store) Writes(_ context.Context, q timeline.Query[script.AuditEntry]) (timeline.Page[script.AuditEntry], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.audit, q, func(a *audited) (int, time.Time, script.AuditEntry) { return a.number, a.entry.Time, a.entry }), nil
}

// Records implements timeline.Store.
func (s *Store) Records(_ context.Context, q timeline.Query[timeline.Record]) (timeline.Page[timeline.Record], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return page(s.records, q, func(e *recordedEvent) (int, time.Time, timeline.Record) { return e.number, e.record.Time, e.record }), nil
}

// page returns a page of the list, which is in order of time.
func page[E, T any](list []E, q timeline.Query[T], read func(*E) (number int, at time.Time, of T)) (out timeline.Page[T]) {
	seen := q.After == ""
	for i := range slices.Backward(list) {
		number, at, of := read(&list[i])
		place := strconv.Itoa(number)
		switch {
		case !seen:
			seen = place == q.After
			continue
		case at.Before(q.Since) || !q.Wants(&of):
			continue
		case len(out.Items) == q.Limit:
			last := len(out.Items) - 1
			out.Next = out.Items[last].Place
			return out
		}
		out.Items, out.Down = append(out.Items, timeline.Item[T]{Of: of, Place: place}), at
	}
	return out
}

// PutRecords implements timeline.Store.
func (s *Store) PutRecords(_ context.Context, records []timeline.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	for _, r := range records {
		s.moment++
		r.ID, r.Revision, r.Subjects = "e"+strconv.FormatInt(s.moment, 10), s.last, slices.Clone(r.Subjects)
		at := len(s.records)
		for at > 0 && r.Time.Before(s.records[at-1].record.Time) {
			at--
		}
		s.records = slices.Insert(s.records, at, recordedEvent{number: int(s.moment), record: r})
		b := s.batch(s.last)
		b.Records = append(b.Records, r)
	}
	kept := map[script.EventType]int{}
	for i := len(s.records) - 1; i >= 0; i-- {
		of := s.records[i].record.Type
		if kept[of]++; kept[of] > timeline.Kept(of) {
			s.records = slices.Delete(s.records, i, i+1)
		}
	}
	s.wake()
	return nil
}

// batch returns that of the revision, which is the last.
func (s *Store) batch(revision script.Revision) *timeline.Batch {
	if n := len(s.batches); n == 0 || s.batches[n-1].Revision != int64(revision) {
		s.batches = append(s.batches, timeline.Batch{Revision: int64(revision)})
	}
	return &s.batches[len(s.batches)-1]
}

// TrimEvents implements registry.Garbage.
func (s *Store) TrimEvents(_ context.Context, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := len(s.records)
	s.records = slices.DeleteFunc(s.records, func(e recordedEvent) bool {
		return e.record.Time.Before(before) && timeline.Expires(e.record.Type)
	})
	return all - len(s.records), nil
}

// WatchEvents implements timeline.Store.
func (s *Store) WatchEvents(ctx context.Context, after int64) iter.Seq2[timeline.Batch, error] {
	return func(yield func(timeline.Batch, error) bool) {
		for {
			news, grown, err := s.newerEvents(after)
			if err != nil {
				yield(timeline.Batch{}, err)
				return
			}
			for _, b := range news {
				if ctx.Err() != nil || !yield(b, nil) {
					return
				}
				after = b.Revision
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

// newerEvents returns copies of the batches above after, and what is closed when there are more.
func (s *Store) newerEvents(after int64) ([]timeline.Batch, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < int64(s.forgotten) {
		return nil, nil, script.Errorf(script.Unavailable, "", "up to revision %d: %w", s.forgotten, registry.ErrForgotten)
	}
	var news []timeline.Batch
	for _, b := range s.batches {
		if b.Revision > after {
			b.Writes, b.Records = slices.Clone(b.Writes), slices.Clone(b.Records)
			news = append(news, b)
		}
	}
	return news, s.grown, nil
}
