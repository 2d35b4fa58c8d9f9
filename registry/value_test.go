package registry_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

var flag = script.ValueKey{Tenant: "acme", Key: "flags/new-ui"}

func put(key script.ValueKey, content string) registry.PutValue {
	return registry.PutValue{Key: key, Content: []byte(content), Author: "ann", By: everybody}
}

func (b *bench) put(key script.ValueKey, content string) script.Value {
	b.t.Helper()
	v, changed, err := b.PutValue(b.t.Context(), put(key, content))
	if err != nil || !changed {
		b.t.Fatalf("put %s: %v, %v", key, changed, err)
	}
	return v
}

func (b *bench) set(tenant string, settings *script.TenantSettings) script.Tenant {
	b.t.Helper()
	got, _, err := b.SetTenant(b.t.Context(), registry.SetTenant{Tenant: tenant, Settings: settings, Author: "ann", By: everybody})
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

func TestPutValue(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	one := b.put(flag, "on")
	if one.Revision != 1 || one.Size != 2 || one.Author != "ann" || one.Digest != script.DigestOf([]byte("on")) {
		t.Errorf("put: %+v", one)
	}
	if again, changed, err := b.PutValue(ctx, put(flag, "on")); err != nil || changed || again != one || b.head() != one.Revision {
		t.Errorf("the same content: %+v, %v, %v, head %d; want nothing changed", again, changed, err, b.head())
	}
	guarded := put(flag, "off")
	guarded.ExpectedRevision = 9
	_, _, err := b.PutValue(ctx, guarded)
	wantKind(t, err, script.Conflict, "expected_revision")
	guarded.ExpectedRevision = one.Revision
	two, changed, err := b.PutValue(ctx, guarded)
	if err != nil || !changed || two.Revision != 2 {
		t.Errorf("guarded: %+v, %v, %v", two, changed, err)
	}
	got, content, err := b.Value(ctx, everybody, flag, 0)
	if err != nil || got != two || string(content) != "off" {
		t.Errorf("Value: %+v, %q, %v; want %+v", got, content, err, two)
	}
	gone, err := b.DeleteValue(ctx, registry.DeleteValue{Key: flag, Author: "bob", By: everybody})
	if err != nil || !gone.Deleted || gone.Revision != 3 || gone.Author != "bob" || !gone.Digest.IsZero() {
		t.Errorf("DeleteValue: %+v, %v", gone, err)
	}
	_, _, err = b.Value(ctx, everybody, flag, 0)
	wantKind(t, err, script.NotFound, "key")
	_, err = b.DeleteValue(ctx, registry.DeleteValue{Key: flag, Author: "bob", By: everybody})
	wantKind(t, err, script.NotFound, "key")
	if v := b.put(flag, ""); v.Size != 0 || v.Digest.IsZero() {
		t.Errorf("an empty content: %+v", v)
	}
	result, err := b.Audit(ctx, registry.AuditRequest{By: everybody})
	if err != nil || len(result.Entries) != 4 {
		t.Fatalf("the audit trail: %+v, %v", result, err)
	}
	if e := result.Entries[1]; e.Change != script.ChangeRemove || e.Key != flag.Key || e.Name != (script.Name{Tenant: "acme"}) || e.Author != "bob" || e.Identity != everybody.Name {
		t.Errorf("the entry of the removal: %+v", e)
	}
}

func TestValueLimits(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	_, _, err := b.PutValue(ctx, put(flag, strings.Repeat("x", script.MaxValueBytes+1)))
	wantKind(t, err, script.Invalid, "content")
	for _, key := range []string{"", "a b", "a//b", "..", "a/../b", strings.Repeat("k", script.MaxValueKeyLen+1)} {
		_, _, err := b.PutValue(ctx, put(script.ValueKey{Tenant: "acme", Key: key}, "x"))
		wantKind(t, err, script.Invalid, "key")
	}
	anonymous := put(flag, "x")
	anonymous.Author = ""
	_, _, err = b.PutValue(ctx, anonymous)
	wantKind(t, err, script.Invalid, "author")

	b.set("acme", &script.TenantSettings{ValueBytes: 100})
	b.put(flag, strings.Repeat("x", 60))
	other := script.ValueKey{Tenant: "acme", Key: "other"}
	_, _, err = b.PutValue(ctx, put(other, strings.Repeat("y", 41)))
	wantKind(t, err, script.Limit, "content")
	if !strings.HasSuffix(err.Error(), ": scriptctl tenant set acme --values SIZE") {
		t.Errorf("%q names no next command", err)
	}
	if !strings.Contains(err.Error(), "60 of 100") {
		t.Errorf("%v does not say what is used, and the quota", err)
	}
	b.put(other, strings.Repeat("y", 40))
	b.put(flag, strings.Repeat("z", 60)) // in place of as much
	if page, err := b.Values(ctx, everybody, "acme", "", "", 10); err != nil || page.Used != 100 || page.Quota != 100 {
		t.Errorf("used %d of %d, %v; want 100 of 100", page.Used, page.Quota, err)
	}
	b.set("acme", &script.TenantSettings{ValueBytes: 50})
	b.put(flag, strings.Repeat("z", 20)) // still too much, but less
	_, _, err = b.PutValue(ctx, put(flag, strings.Repeat("z", 21)))
	wantKind(t, err, script.Limit, "content")
	b.put(script.ValueKey{Tenant: "zoo", Key: "a"}, strings.Repeat("z", 200)) // another tenant's quota
}

func TestValueCount(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	key := func(i int) script.ValueKey { return script.ValueKey{Tenant: "acme", Key: fmt.Sprint("k", i)} }
	for i := range script.MaxValues {
		b.put(key(i), "")
	}
	_, _, err := b.PutValue(ctx, put(key(script.MaxValues), ""))
	wantKind(t, err, script.Limit, "key")
	b.put(key(1), "changed")
	if _, err := b.DeleteValue(ctx, registry.DeleteValue{Key: key(2), Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	b.put(key(script.MaxValues), "")
}

func TestListValues(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	for _, key := range []string{"a/1", "a/2", "b"} {
		b.put(script.ValueKey{Tenant: "acme", Key: key}, key)
	}
	page, err := b.Values(ctx, everybody, "acme", "a/", "", 1)
	if err != nil || len(page.Values) != 1 || page.Values[0].Key.Key != "a/1" || page.Used != 7 || page.Quota != script.DefaultTenantSettings().ValueBytes {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = b.Values(ctx, everybody, "acme", "a/", "a/1", 10)
	if err != nil || len(page.Values) != 1 || page.Values[0].Key.Key != "a/2" {
		t.Errorf("the next page: %+v, %v", page, err)
	}
	for field, list := range map[string]func() error{
		"tenant":     func() error { _, err := b.Values(ctx, everybody, "", "", "", 1); return err },
		"page_token": func() error { _, err := b.Values(ctx, everybody, "acme", "", "a b", 1); return err },
		"page_size":  func() error { _, err := b.Values(ctx, everybody, "acme", "", "", -1); return err },
		"prefix": func() error {
			_, err := b.Values(ctx, everybody, "acme", strings.Repeat("p", script.MaxValueKeyLen+1), "", 1)
			return err
		},
	} {
		wantKind(t, list(), script.Invalid, field)
	}
}

func TestSetTenant(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	if got, err := b.Tenant(ctx, everybody, "acme"); err != nil || got != (script.Tenant{Name: "acme"}) {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	want := script.TenantSettings{Isolation: script.IsolationProcess, Concurrency: 4}
	set := b.set("acme", &want)
	if set.Revision != 1 || set.Settings != want {
		t.Errorf("set: %+v", set)
	}
	if again, changed, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Settings: &want, Author: "ann", By: everybody}); err != nil || changed || again != set {
		t.Errorf("again: %+v, %v, %v", again, changed, err)
	}
	if got, err := b.Tenant(ctx, everybody, "acme"); err != nil || got != set {
		t.Errorf("Tenant: %+v, %v; want %+v", got, err, set)
	}
	_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Author: "ann", By: everybody, ExpectedRevision: 7})
	wantKind(t, err, script.Conflict, "expected_revision")
	_, _, err = b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{CPU: -1}, Author: "ann", By: everybody})
	wantKind(t, err, script.Invalid, "settings.cpu")
	b.set("zoo", &script.TenantSettings{CPU: 500})
	all, _, err := b.Tenants(ctx, everybody, "", 10)
	if err != nil || len(all) != 2 || all[0] != set {
		t.Errorf("Tenants: %+v, %v", all, err)
	}
	gone := b.set("acme", nil)
	if !gone.Deleted || gone.Revision != 3 || gone.Settings != (script.TenantSettings{}) {
		t.Errorf("taken away: %+v", gone)
	}
	if _, changed, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Author: "ann", By: everybody}); err != nil || changed {
		t.Errorf("taken away again: %v, %v", changed, err)
	}
	if got, err := b.Tenant(ctx, everybody, "acme"); err != nil || got != (script.Tenant{Name: "acme"}) {
		t.Errorf("after: %+v, %v", got, err)
	}
	result, err := b.Audit(ctx, registry.AuditRequest{By: everybody, AuditFilter: registry.AuditFilter{Tenant: "acme"}})
	if err != nil || len(result.Entries) != 2 || result.Entries[0].Change != script.ChangeSetTenant {
		t.Errorf("the audit trail: %+v, %v", result, err)
	}
}

// TestTenantsCeiling: what a publish or a configuration asks for is within the
// tenant's limits; what is there already stays.
func TestTenantsCeiling(t *testing.T) {
	b := newBench(t)
	high := script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 5000}}}
	b.publish("one", settings(high))
	b.set("acme", &script.TenantSettings{Limits: script.Limits{Instructions: 2000, Timeout: 1e9}})
	b.publish("two")
	b.publish("three", settings(high)) // no other limits than it has
	_, err := b.tryPublish("four", settings(script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 4000}}}))
	wantKind(t, err, script.Invalid, "settings.limits.instructions")
	_, err = b.configure(write(route), script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: 2e9}}})
	wantKind(t, err, script.Invalid, "settings.limits.timeout")
	if !strings.Contains(err.Error(), "2s") || !strings.Contains(err.Error(), "1s") {
		t.Errorf("%v does not say what was asked for, and what may be", err)
	}
	b.publish("four", settings(script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 2000, LogBytes: 7}}}))
}

// TestTenantsSourceBytes: what a tenant's sources are at most holds for scripts that
// set no limits, too; a version that is there already stays, and can be pinned.
func TestTenantsSourceBytes(t *testing.T) {
	b := newBench(t)
	large := strings.Repeat("x", 2000)
	b.publish(large)
	b.set("acme", &script.TenantSettings{Limits: script.Limits{SourceBytes: 1000}})
	for _, options := range [][]func(*registry.PublishRequest){nil, {settings(script.Settings{})}, {settings(script.Settings{Spec: script.Spec{Limits: script.Limits{Instructions: 1000}}})}} {
		_, err := b.tryPublish("y"+large, options...)
		wantKind(t, err, script.Invalid, "source")
		if !strings.Contains(err.Error(), "1000") {
			t.Errorf("%v does not say what may be", err)
		}
	}
	b.publish(large) // nothing new
	b.publish(strings.Repeat("z", 1000))
	if _, err := b.Pin(t.Context(), registry.PinRequest{Write: write(route), Version: 1}); err != nil {
		t.Error(err)
	}
}

// TestRolesOfValues: each call needs the role that it says, of that tenant.
func TestRolesOfValues(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	b.put(flag, "on")
	acme, err := script.ParseSelector([]string{"acme"})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(by access.Identity) error{
		"put": func(by access.Identity) error {
			req := put(flag, "off")
			req.By = by
			_, _, err := b.PutValue(ctx, req)
			return err
		},
		"delete": func(by access.Identity) error {
			b.put(script.ValueKey{Tenant: "acme", Key: "gone"}, string(bytes.Repeat([]byte("x"), int(b.head()))))
			_, err := b.DeleteValue(ctx, registry.DeleteValue{Key: script.ValueKey{Tenant: "acme", Key: "gone"}, Author: "ann", By: by})
			return err
		},
		"roll back": func(by access.Identity) error {
			b.put(flag, fmt.Sprint(b.head()))
			_, _, err := b.RollbackValue(ctx, registry.RollbackValue{Key: flag, Author: "ann", By: by})
			return err
		},
		"history": func(by access.Identity) error { _, err := b.ValueHistory(ctx, by, flag); return err },

		"get":  func(by access.Identity) error { _, _, err := b.Value(ctx, by, flag, 0); return err },
		"list": func(by access.Identity) error { _, err := b.Values(ctx, by, "acme", "", "", 1); return err },
		"set tenant": func(by access.Identity) error {
			_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{}, Author: "ann", By: by})
			return err
		},
		"get tenant": func(by access.Identity) error { _, err := b.Tenant(ctx, by, "acme"); return err },
		"tenants":    func(by access.Identity) error { _, _, err := b.Tenants(ctx, by, "", 1); return err },
	}
	for role, may := range map[access.Role]string{
		"":             "",
		access.Read:    "get list history get tenant",
		access.Release: "get list history get tenant",
		access.Publish: "get list history get tenant put delete roll back",
		access.Admin:   "get list history get tenant put delete roll back set tenant",
	} {
		who := access.Identity{Name: "who"}
		if role != "" {
			who.Grants = []access.Grant{{Roles: []access.Role{role}, Tenants: acme}}
		}
		for name, call := range calls {
			want := script.Denied
			if name != "tenants" && strings.Contains(may, name) {
				want = ""
			}
			if err := call(who); script.KindOf(err) != want {
				t.Errorf("%s by %q of acme: %v, want %q", name, role, err, want)
			}
		}
	}
	if err := calls["tenants"](everybody); err != nil {
		t.Error(err)
	}
}
