package etcdstore

import (
	"context"
	"crypto/rand"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *Store) newAuditKey(t time.Time) string { return s.keys.auditAt(t) + "-" + rand.Text() }

// auditTime returns the time that an entry's key says; the zero Time if it says none.
func (s *Store) auditTime(key string) time.Time {
	text, _, _ := strings.Cut(strings.TrimPrefix(key, s.keys.audit()), "-")
	before, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, math.MaxInt64-before).UTC()
}

// auditPages are read for one page of the audit trail at most.
const auditPages = 20

// Audit implements registry.Store. Newer entries have lower keys, so that a page is
// read without etcd having to sort all there are.
func (s *Store) Audit(ctx context.Context, filter registry.AuditFilter, last string, limit int) ([]script.AuditEntry, string, error) {
	from, end := s.keys.audit(), clientv3.GetPrefixRangeEnd(s.keys.audit())
	if last != "" {
		from = after(s.keys.audit() + last)
	}
	if !filter.Since.IsZero() {
		end = s.keys.auditAt(filter.Since.Add(-1))
	}
	var entries []script.AuditEntry
	for range auditPages {
		if from >= end {
			return entries, "", nil
		}
		resp, err := s.get(ctx, "read the audit trail", from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return nil, "", err
		}
		for i, kv := range resp.Kvs {
			from = after(string(kv.Key))
			e, err := decodeAudit(kv)
			if err != nil { // one bad record must not hide all others
				e = script.AuditEntry{Revision: script.Revision(kv.ModRevision), Time: s.auditTime(string(kv.Key)), Note: err.Error()}
			}
			if !filter.Matches(e) || !utf8.Valid(kv.Key) {
				continue
			}
			entries = append(entries, e)
			if len(entries) < limit {
				continue
			}
			if i == len(resp.Kvs)-1 && !resp.More {
				return entries, "", nil
			}
			return entries, strings.TrimPrefix(string(kv.Key), s.keys.audit()), nil
		}
		if !resp.More {
			return entries, "", nil
		}
		last = string(resp.Kvs[len(resp.Kvs)-1].Key)
	}
	return entries, strings.TrimPrefix(last, s.keys.audit()), nil
}

// AddAudit implements registry.Store.
func (s *Store) AddAudit(ctx context.Context, e script.AuditEntry) error {
	entry, err := encodeAudit(e)
	if err != nil {
		return script.Errorf(script.Internal, "", "encode an audit entry: %w", err)
	}
	_, err = s.commit(ctx, "add to the audit trail", nil, []clientv3.Op{clientv3.OpPut(s.newAuditKey(e.Time), string(entry))}, nil)
	return err
}

// TrimAudit implements registry.Garbage, page by page: a large removal at once would
// stop all else.
func (s *Store) TrimAudit(ctx context.Context, before time.Time) (int, error) {
	from, end := s.keys.auditAt(before.Add(-1)), clientv3.GetPrefixRangeEnd(s.keys.audit())
	trimmed := 0
	for {
		page, err := s.get(ctx, "trim the audit trail", from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithKeysOnly())
		if err != nil || len(page.Kvs) == 0 {
			return trimmed, err
		}
		upTo := after(string(page.Kvs[len(page.Kvs)-1].Key))
		resp, err := s.commit(ctx, "trim the audit trail", nil, []clientv3.Op{clientv3.OpDelete(from, clientv3.WithRange(upTo))}, nil)
		if err != nil {
			return trimmed, err
		}
		trimmed += int(resp.Responses[0].GetResponseDeleteRange().GetDeleted())
		from = upTo
	}
}
