package etcdstore

import (
	"context"
	"crypto/rand"
	"math"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *Store) newAuditKey(t time.Time) string { return s.keys.auditAt(t) + "-" + rand.Text() }

// timeOf returns the time that a key below the prefix says, of an entry or of an event; the zero Time if it
// says none.
func (k keys) timeOf(prefix string, key []byte) time.Time {
	text, _, _ := strings.Cut(strings.TrimPrefix(string(key), prefix), "-")
	before, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, math.MaxInt64-before).UTC()
}

// Audit implements registry.Store.
func (s *Store) Audit(ctx context.Context, filter registry.AuditFilter, last string, limit int) ([]script.AuditEntry, string, error) {
	page, err := s.Writes(ctx, timeline.Query[script.AuditEntry]{
		Since: filter.Since, After: last, Limit: limit, Wants: func(e *script.AuditEntry) bool { return filter.Matches(*e) },
	})
	if err != nil {
		return nil, "", err
	}
	entries := make([]script.AuditEntry, len(page.Items))
	for i := range page.Items {
		entries[i] = page.Items[i].Of
	}
	return entries, page.Next, nil
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
