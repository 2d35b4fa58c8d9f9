package registryclient

import (
	"context"
	"iter"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// DataWrite is what a write of a value, or of a tenant's settings, says of itself. It
// has no id: what is sent again finds things as it left them, and is no change then.
// One that could not tell its own change from another's, a delete or one with an
// ExpectedRevision, is sent once only; one that ends in Unavailable or Timeout may have
// happened.
type DataWrite struct {
	Author string // who asks for it; required
	Note   string // why; of values alone
	// ExpectedRevision: if not 0, the write happens only if the value, or the settings,
	// still have this revision, and is a Conflict otherwise. With script.Absent there must be none.
	ExpectedRevision script.Revision
}

// PutValue stores a key of a tenant's own data, which its scripts read, and returns it
// as it is then and whether that is a change. Content of more than
// script.MaxValueBytes is Invalid; more than the tenant may have together is a Limit.
func (c *Client) PutValue(ctx context.Context, key script.ValueKey, content []byte, w DataWrite) (script.Value, bool, error) {
	resp, err := callUpTo(ctx, c, w.attempts(), c.registry.PutValue, &registryv1.PutValueRequest{
		Tenant: key.Tenant, Key: key.Key, Content: content,
		Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
	})
	if err != nil {
		return script.Value{}, false, err
	}
	value, err := toValue(resp.GetValue())
	return value, resp.GetChanged(), err
}

// RollbackValue makes a retained version of a key its value again, and returns the value and
// whether that is a change. Version 0 is the last one below the present version, or the one that
// was deleted. NotFound names the versions that the registry retains.
func (c *Client) RollbackValue(ctx context.Context, key script.ValueKey, version uint64, w DataWrite) (script.Value, bool, error) {
	most := w.attempts()
	if version == 0 {
		most = 1 // sent again it would go further back
	}
	resp, err := callUpTo(ctx, c, most, c.registry.RollbackValue, &registryv1.RollbackValueRequest{
		Tenant: key.Tenant, Key: key.Key, Version: version, Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
	})
	if err != nil {
		return script.Value{}, false, err
	}
	value, err := toValue(resp.GetValue())
	return value, resp.GetChanged(), err
}

// ValueHistory returns the last changes of a key, also of one that was deleted, and NotFound if
// there are none.
func (c *Client) ValueHistory(ctx context.Context, key script.ValueKey) (script.ValueHistory, error) {
	resp, err := call(ctx, c, c.registry.GetValueHistory, &registryv1.GetValueHistoryRequest{Tenant: key.Tenant, Key: key.Key})
	if err != nil {
		return script.ValueHistory{}, err
	}
	history, err := wire.ToValueHistory(resp.GetHistory())
	if err != nil {
		return script.ValueHistory{}, malformed(err)
	}
	return history, nil
}

// DeleteValue removes a key, and returns the tombstone; NotFound if there is none.
func (c *Client) DeleteValue(ctx context.Context, key script.ValueKey, w DataWrite) (script.Value, error) {
	resp, err := callUpTo(ctx, c, 1, c.registry.DeleteValue, &registryv1.DeleteValueRequest{
		Tenant: key.Tenant, Key: key.Key, Author: w.Author, Note: w.Note, ExpectedRevision: int64(w.ExpectedRevision),
	})
	if err != nil {
		return script.Value{}, err
	}
	return toValue(resp.GetValue())
}

// Value returns a value with its content, and NotFound if there is none.
func (c *Client) Value(ctx context.Context, key script.ValueKey) (script.Value, []byte, error) {
	return c.ValueVersion(ctx, key, 0)
}

// ValueVersion returns a retained version of a value with its content; 0 is the present one.
// NotFound names the versions that the registry retains.
func (c *Client) ValueVersion(ctx context.Context, key script.ValueKey, version uint64) (script.Value, []byte, error) {
	resp, err := call(ctx, c, c.registry.GetValue, &registryv1.GetValueRequest{Tenant: key.Tenant, Key: key.Key, Version: version})
	if err != nil {
		return script.Value{}, nil, err
	}
	value, err := toValue(resp.GetValue())
	if err != nil {
		return script.Value{}, nil, err
	}
	if version != 0 && value.Version != version {
		return script.Value{}, nil, script.Errorf(script.Invalid, "version", "the registry is older than this client, and keeps no versions of values: upgrade registryd")
	}
	if script.DigestOf(resp.GetContent()) != value.Digest {
		return script.Value{}, nil, script.Errorf(script.Internal, "", "the registry's answer cannot be read: the content of %s does not match its digest", key)
	}
	return value, resp.GetContent(), nil
}

// Values yields a tenant's values whose keys begin with prefix, in the order of the
// keys, byte by byte. It asks for them page by page as they are consumed. Errors are as
// those of List.
func (c *Client) Values(ctx context.Context, tenant, prefix string) iter.Seq2[script.Value, error] {
	return func(yield func(script.Value, error) bool) {
		req := &registryv1.ListValuesRequest{Tenant: tenant, Prefix: prefix}
		for {
			resp, err := call(ctx, c, c.registry.ListValues, req)
			if err != nil {
				yield(script.Value{}, err)
				return
			}
			for _, m := range resp.GetValues() {
				value, err := toValue(m)
				if !yield(value, err) || err != nil {
					return
				}
			}
			for _, u := range toUnreadable(resp.GetUnreadable()) {
				if !yield(script.Value{}, &u) {
					return
				}
			}
			if resp.GetNextPageToken() == "" {
				return
			}
			req.PageToken = resp.GetNextPageToken()
		}
	}
}

// ValueUsage returns how many bytes all of a tenant's values have together, and how
// many they may have.
func (c *Client) ValueUsage(ctx context.Context, tenant string) (used, quota int64, err error) {
	resp, err := call(ctx, c, c.registry.ListValues, &registryv1.ListValuesRequest{Tenant: tenant, PageSize: 1})
	if err != nil {
		return 0, 0, err
	}
	return resp.GetUsedBytes(), resp.GetQuotaBytes(), nil
}

// SetTenant replaces what holds for all scripts of a tenant, or takes it away if
// settings is nil. It returns what holds then, and whether that is a change.
func (c *Client) SetTenant(ctx context.Context, tenant string, settings *script.TenantSettings, w DataWrite) (script.Tenant, bool, error) {
	req := &registryv1.SetTenantRequest{Tenant: tenant, Author: w.Author, ExpectedRevision: int64(w.ExpectedRevision)}
	if settings != nil {
		req.Settings = wire.FromTenantSettings(*settings)
	}
	resp, err := callUpTo(ctx, c, w.attempts(), c.registry.SetTenant, req)
	if err != nil {
		return script.Tenant{}, false, err
	}
	set, err := toTenant(resp.GetTenant())
	return set, resp.GetChanged(), err
}

// Tenant returns what holds for all scripts of a tenant: the zero settings, at
// revision 0, if nothing was set.
func (c *Client) Tenant(ctx context.Context, tenant string) (script.Tenant, error) {
	resp, err := call(ctx, c, c.registry.GetTenant, &registryv1.GetTenantRequest{Tenant: tenant})
	if err != nil {
		return script.Tenant{}, err
	}
	return toTenant(resp.GetTenant())
}

// Tenants yields the tenants for which something was set, in the order of their names.
// It asks for them page by page as they are consumed. Errors are as those of List.
func (c *Client) Tenants(ctx context.Context) iter.Seq2[script.Tenant, error] {
	return func(yield func(script.Tenant, error) bool) {
		req := &registryv1.ListTenantsRequest{}
		for {
			resp, err := call(ctx, c, c.registry.ListTenants, req)
			if err != nil {
				yield(script.Tenant{}, err)
				return
			}
			for _, m := range resp.GetTenants() {
				tenant, err := toTenant(m)
				if !yield(tenant, err) || err != nil {
					return
				}
			}
			for _, u := range toUnreadable(resp.GetUnreadable()) {
				if !yield(script.Tenant{}, &u) {
					return
				}
			}
			if resp.GetNextPageToken() == "" {
				return
			}
			req.PageToken = resp.GetNextPageToken()
		}
	}
}

// attempts is how often the write may be sent: again if that makes no difference.
func (w *DataWrite) attempts() uint {
	if w.ExpectedRevision != 0 {
		return 1
	}
	return attempts
}

func toValue(m *scriptv1.Value) (script.Value, error) {
	v, err := wire.ToValue(m)
	if err != nil {
		return script.Value{}, malformed(err)
	}
	return v, nil
}

func toTenant(m *scriptv1.Tenant) (script.Tenant, error) {
	t, err := wire.ToTenant(m)
	if err != nil {
		return script.Tenant{}, malformed(err)
	}
	return t, nil
}
