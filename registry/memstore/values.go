package memstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DataUsage implements registry.Store.
func (s *Store) DataUsage(_ context.Context, key script.ValueKey) (registry.DataUsage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := registry.DataUsage{Value: s.values[key], Usage: s.usage[key.Tenant], Tenant: s.tenants[key.Tenant], History: s.histories[key], Freeze: s.freeze}
	if u, ok := s.spoiled[script.Object{Value: &script.Value{Key: key}}.Key()]; ok {
		data.UnreadableValue, data.Value.Revision = &u, u.Revision
	}
	if _, ok := s.spoiled[historyKey(key)]; ok {
		data.Usage.Older = -1
	}
	if u, ok := s.spoiled[script.Object{Tenant: &script.Tenant{Name: key.Tenant}}.Key()]; ok {
		data.UnreadableTenant, data.Tenant.Revision = &u, u.Revision
	}
	return data, nil
}

// Values implements registry.Store.
func (s *Store) Values(_ context.Context, tenant, keys, after string, limit int) ([]script.Value, []registry.Unreadable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := slices.DeleteFunc(s.sortedValues(), func(v script.Value) bool {
		return s.isSpoiled(script.Object{Value: &v}) || v.Deleted || v.Key.Tenant != tenant || !strings.HasPrefix(v.Key.Key, keys) || v.Key.Key <= after
	})
	prefix, from := "values/"+tenant+"/", ""
	if after != "" {
		from = prefix + after
	}
	page, lost := cut(s, page, limit, prefix+keys, from, func(v *script.Value) script.Object { return script.Object{Value: v} })
	return page, lost, nil
}

func (s *Store) sortedValues() []script.Value {
	return slices.SortedFunc(maps.Values(s.values), func(a, b script.Value) int { return strings.Compare(a.Key.String(), b.Key.String()) })
}

// CommitValue implements registry.Store.
func (s *Store) CommitValue(ctx context.Context, c registry.ValueCommit) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayCommitValue(c); err != nil {
		return 0, err
	}
	var t transaction
	s.applyValue(&t, c)
	return s.changed(ctx, c.Value.Key.Tenant, t), nil
}

// mayCommitValue returns an error if a guard of the commit does not hold.
func (s *Store) mayCommitValue(c registry.ValueCommit) error {
	key := c.Value.Key
	if now := s.revision(script.Object{Value: &c.Value}, s.values[key].Revision); now != c.Guard {
		return script.Errorf(script.Conflict, "", "%s is at revision %d, not %d: somebody else changed it first", key, now, c.Guard)
	}
	if err := s.freezeIs(c.FreezeGuard); err != nil {
		return err
	}
	if s.usage[key.Tenant].Mark != c.Usage.Mark {
		return script.Errorf(script.Conflict, "", "somebody else changed a value of %s in the meantime", key.Tenant)
	}
	return nil
}

// applyValue makes the commit part of the next transaction.
func (s *Store) applyValue(t *transaction, c registry.ValueCommit) {
	v, tenant := c.Value, c.Value.Key.Tenant
	v.Revision = s.last + 1
	s.values[v.Key] = v
	c.Usage.Mark++
	if c.History == nil {
		c.Usage.Older = -1
	} else {
		h := *c.History
		h.Lines = slices.Clone(h.Lines)
		h.Lines[0].Revision = v.Revision
		s.histories[v.Key] = h
		delete(s.spoiled, historyKey(v.Key))
	}
	s.usage[tenant] = c.Usage
	if !v.Deleted {
		s.putSource(v.Digest, c.Content)
	}
	t.Values = append(t.Values, v)
	t.audit = append(t.audit, c.Audit)
	t.announce(c.Announced())
}

// historyKey is what Spoil calls the history of a value.
func historyKey(key script.ValueKey) string { return "kvhistory/" + key.String() }

// ValueNumbers implements registry.Store.
func (s *Store) ValueNumbers(_ context.Context, keys []script.ValueKey) (map[script.ValueKey]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := map[script.ValueKey]uint64{}
	for _, key := range keys {
		if h, ok := s.histories[key]; ok {
			latest[key] = h.Latest
		}
	}
	return latest, nil
}

// OlderBytes implements registry.Store.
func (s *Store) OlderBytes(_ context.Context, tenant string) (n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range s.histories {
		if key.Tenant == tenant {
			n += h.OlderBytes()
		}
	}
	return n, nil
}

// snapshotHistories yields all histories as they are now. s.mu is held.
func (s *Store) snapshotHistories() iter.Seq2[script.ValueHistory, error] {
	type read struct {
		history script.ValueHistory
		err     error
	}
	var all []read
	for key, h := range s.histories {
		r := read{history: h}
		if u, ok := s.spoiled[historyKey(key)]; ok {
			r.err = script.Errorf(script.Internal, "", "%w", &u)
		}
		all = append(all, r)
	}
	return func(yield func(script.ValueHistory, error) bool) {
		for _, r := range all {
			if !yield(r.history, r.err) {
				return
			}
		}
	}
}

// Tenants implements registry.Store.
func (s *Store) Tenants(_ context.Context, after string, limit int) ([]script.Tenant, []registry.Unreadable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := slices.DeleteFunc(s.sortedTenants(), func(t script.Tenant) bool {
		return s.isSpoiled(script.Object{Tenant: &t}) || t.Deleted || t.Name <= after
	})
	const prefix = "tenants/"
	from := ""
	if after != "" {
		from = prefix + after
	}
	page, lost := cut(s, page, limit, prefix, from, func(t *script.Tenant) script.Object { return script.Object{Tenant: t} })
	return page, lost, nil
}

func (s *Store) sortedTenants() []script.Tenant {
	return slices.SortedFunc(maps.Values(s.tenants), func(a, b script.Tenant) int { return strings.Compare(a.Name, b.Name) })
}

// CommitTenant implements registry.Store.
func (s *Store) CommitTenant(ctx context.Context, c registry.TenantCommit) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := c.Tenant
	if now := s.revision(script.Object{Tenant: &t}, s.tenants[t.Name].Revision); now != c.Guard {
		return 0, script.Errorf(script.Conflict, "", "the settings of %s are at revision %d, not %d: somebody else changed them first", t.Name, now, c.Guard)
	}
	if err := s.freezeIs(c.FreezeGuard); err != nil {
		return 0, err
	}
	t.Revision = s.last + 1
	s.tenants[t.Name] = t
	return s.changed(ctx, t.Name, transaction{Transaction: registry.Transaction{Tenants: []script.Tenant{t}}, audit: []script.AuditEntry{c.Audit}}), nil
}
