package etcdstore

import (
	"context"
	"encoding/json"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// usage is what is stored of a registry.Usage: its mark is the key's mod revision.
type usage struct {
	Bytes  int64 `json:"bytes"`
	Values int   `json:"values"`
	// Older is left out by registries that know no histories.
	Older *int64 `json:"older,omitempty"`
}

// is returns what the registry knows of it.
func (u usage) is(mark int64) registry.Usage {
	usage := registry.Usage{Bytes: u.Bytes, Values: u.Values, Older: -1, Mark: mark}
	if u.Older != nil {
		usage.Older = max(*u.Older, 0)
	}
	return usage
}

// DataUsage implements registry.Store.
func (s *Store) DataUsage(ctx context.Context, key script.ValueKey) (registry.DataUsage, error) {
	reads := []clientv3.Op{clientv3.OpGet(s.keys.usage(key.Tenant)), clientv3.OpGet(s.keys.settings(key.Tenant)), clientv3.OpGet(s.keys.freeze())}
	if key.Key != "" {
		reads = append(reads, clientv3.OpGet(s.keys.value(key)), clientv3.OpGet(s.keys.valueHistory(key)))
	}
	resp, err := s.read(ctx, "read "+key.String(), reads)
	if err != nil {
		return registry.DataUsage{}, err
	}
	data := registry.DataUsage{Freeze: freezeIn(resp.Responses[2])}
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		var u usage
		if json.Unmarshal(kvs[0].Value, &u) != nil {
			if u, err = s.count(ctx, key.Tenant); err != nil {
				return registry.DataUsage{}, err
			}
		}
		data.Usage = u.is(kvs[0].ModRevision)
	}
	if kvs := resp.Responses[1].GetResponseRange().GetKvs(); len(kvs) > 0 {
		data.Tenant, err = s.keys.decodeTenant(kvs[0])
		if u, ok := errors.AsType[*registry.Unreadable](err); ok {
			if last := s.past(ctx, kvs[0]); last != nil {
				u.Last, data.Tenant = last, *last.Tenant
			}
			data.UnreadableTenant, data.Tenant.Name, data.Tenant.Revision = u, key.Tenant, u.Revision
		}
	}
	if key.Key == "" {
		return data, nil
	}
	if kvs := resp.Responses[3].GetResponseRange().GetKvs(); len(kvs) > 0 {
		data.Value, err = s.keys.decodeValue(kvs[0])
		if u, ok := errors.AsType[*registry.Unreadable](err); ok {
			if last := s.past(ctx, kvs[0]); last != nil {
				u.Last, data.Value = last, *last.Value
			}
			data.UnreadableValue, data.Value.Key, data.Value.Revision = u, key, u.Revision
		}
	}
	for _, kv := range resp.Responses[4].GetResponseRange().GetKvs() {
		if data.History, err = s.valueHistory(ctx, kv); err != nil { // which hinders nobody
			data.Usage.Older = -1
		}
	}
	return data, nil
}

// count counts the tenant's values, but for those whose records cannot be read. Each change of
// one also changes the record of the usage, whose revision thus guards the count.
func (s *Store) count(ctx context.Context, tenant string) (usage, error) {
	var u usage
	for kv, err := range s.pages(ctx, "count the values of "+tenant, s.keys.valuesOf(tenant), now) {
		if err != nil {
			return usage{}, err
		}
		if v, err := s.keys.decodeValue(kv); err == nil && !v.Deleted {
			u.Bytes, u.Values = u.Bytes+int64(v.Size), u.Values+1
		}
	}
	return u, nil
}

// Values implements registry.Store.
func (s *Store) Values(ctx context.Context, tenant, prefix, last string, limit int) ([]script.Value, []registry.Unreadable, error) {
	from := s.keys.valuesOf(tenant) + prefix
	end := clientv3.GetPrefixRangeEnd(from)
	if last != "" {
		from = max(from, after(s.keys.valuesOf(tenant)+last))
	}
	return livePage(ctx, s, "list values", from, end, limit, s.keys.decodeValue, func(v script.Value) bool { return !v.Deleted })
}

// Tenants implements registry.Store.
func (s *Store) Tenants(ctx context.Context, last string, limit int) ([]script.Tenant, []registry.Unreadable, error) {
	from := s.keys.allSettings()
	end := clientv3.GetPrefixRangeEnd(from)
	if last != "" {
		from = after(s.keys.settings(last))
	}
	return livePage(ctx, s, "list tenants", from, end, limit, s.keys.decodeTenant, func(t script.Tenant) bool { return !t.Deleted })
}

func (s *Store) putUsage(tenant string, u usage) (clientv3.Op, error) {
	text, err := json.Marshal(u)
	if err != nil {
		return clientv3.Op{}, script.Errorf(script.Internal, "", "encode what the values of %s take: %w", tenant, err)
	}
	return clientv3.OpPut(s.keys.usage(tenant), string(text)), nil
}

// CommitValue implements registry.Store. It is one transaction of at most nine
// operations.
func (s *Store) CommitValue(ctx context.Context, c registry.ValueCommit) (script.Revision, error) {
	ch, err := s.writesValue(c)
	if err != nil {
		return 0, err
	}
	return s.commitObject(ctx, ch)
}

// writesValue are the operations of one commit: at most three on keys that are the value's alone.
func (s *Store) writesValue(c registry.ValueCommit) (*change, error) {
	key := c.Value.Key
	value, err := encodeValue(c.Value)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode the value %s: %w", key, err)
	}
	ch := &change{
		object: script.Object{Value: &c.Value},
		guards: []clientv3.Cmp{
			s.freezeIs(c.FreezeGuard),
			clientv3.Compare(clientv3.ModRevision(s.keys.value(key)), "=", int64(c.Guard)),
			clientv3.Compare(clientv3.ModRevision(s.keys.usage(key.Tenant)), "=", c.Usage.Mark),
		},
		ops: []clientv3.Op{clientv3.OpPut(s.keys.value(key), string(value))},
	}
	taken := usage{Bytes: c.Usage.Bytes, Values: c.Usage.Values}
	if c.History != nil {
		taken.Older = &c.Usage.Older
		history, err := encodeValueHistory(*c.History)
		if err != nil {
			return nil, script.Errorf(script.Internal, "", "encode the history of %s: %w", key, err)
		}
		ch.ops = append(ch.ops, clientv3.OpPut(s.keys.valueHistory(key), string(history)))
	}
	put, err := s.putUsage(key.Tenant, taken)
	if err != nil {
		return nil, err
	}
	ch.usage = &put
	if !c.Value.Deleted {
		ch.blobs = append(ch.blobs, registry.Source{Digest: c.Value.Digest, Content: c.Content})
	}
	ch.announce(c.Announced())
	return ch, s.audited(ch, c.Audit)
}

// CommitTenant implements registry.Store.
func (s *Store) CommitTenant(ctx context.Context, c registry.TenantCommit) (script.Revision, error) {
	key := s.keys.settings(c.Tenant.Name)
	value, err := encodeTenant(c.Tenant)
	if err != nil {
		return 0, script.Errorf(script.Internal, "", "encode the settings of %s: %w", c.Tenant.Name, err)
	}
	ch := &change{
		object: script.Object{Tenant: &c.Tenant},
		guards: []clientv3.Cmp{s.freezeIs(c.FreezeGuard), clientv3.Compare(clientv3.ModRevision(key), "=", int64(c.Guard))},
		ops:    []clientv3.Op{clientv3.OpPut(key, string(value))},
	}
	if err := s.audited(ch, c.Audit); err != nil {
		return 0, err
	}
	return s.commitObject(ctx, ch)
}

// commitObject commits the change of a value, or of a tenant's settings.
func (s *Store) commitObject(ctx context.Context, c *change) (script.Revision, error) {
	ctx, end := s.begin(ctx, c.object.Key())
	resp, err := s.commit(ctx, "change "+c.object.Key(), c.guards, s.operations(ctx, c), nil)
	end(outcome(resp, err))
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, script.Errorf(script.Conflict, "", "%s, or what bounds it, was changed by somebody else first", c.object.Key())
	}
	return script.Revision(resp.Header.Revision), nil
}
