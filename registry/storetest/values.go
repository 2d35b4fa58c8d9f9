package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func keyed(tenant, key string) script.ValueKey { return script.ValueKey{Tenant: tenant, Key: key} }

func data(t *testing.T, s registry.Store, key script.ValueKey) registry.DataUsage {
	t.Helper()
	got, err := s.DataUsage(t.Context(), key)
	if err != nil {
		t.Errorf("DataUsage: %v", err)
	}
	return got
}

// putCommit is the commit that puts the content in place of what there is.
func putCommit(cur registry.DataUsage, key script.ValueKey, content string) registry.ValueCommit {
	usage := cur.Usage
	usage.Bytes += int64(len(content) - cur.Value.Size)
	if cur.Value.Revision == 0 || cur.Value.Deleted {
		usage.Values++
	}
	return registry.ValueCommit{
		Guard: cur.Value.Revision, Content: []byte(content), Usage: usage,
		Value: script.Value{Key: key, Digest: script.DigestOf([]byte(content)), Size: len(content), Author: "ann", ChangedAt: at},
		Audit: script.AuditEntry{Time: at, Name: script.Name{Tenant: key.Tenant}, Key: key.Key, Change: script.ChangePut, Author: "ann"},
	}
}

func removeCommit(cur registry.DataUsage) registry.ValueCommit {
	usage := cur.Usage
	usage.Bytes -= int64(cur.Value.Size)
	usage.Values--
	return registry.ValueCommit{
		Guard: cur.Value.Revision, Usage: usage,
		Value: script.Value{Key: cur.Value.Key, Deleted: true, Author: "ann", ChangedAt: at},
	}
}

// commitValue commits c, which must succeed, and returns the value as it is then. It may
// be called from any goroutine, as what follows may.
func commitValue(t *testing.T, s registry.Store, c registry.ValueCommit) script.Value {
	t.Helper()
	revision, err := s.CommitValue(t.Context(), c)
	if err != nil {
		t.Errorf("CommitValue: %v", err)
	}
	c.Value.Revision = revision
	return c.Value
}

func put(t *testing.T, s registry.Store, key script.ValueKey, content string) script.Value {
	t.Helper()
	return commitValue(t, s, putCommit(data(t, s, key), key, content))
}

func remove(t *testing.T, s registry.Store, key script.ValueKey) script.Value {
	t.Helper()
	return commitValue(t, s, removeCommit(data(t, s, key)))
}

// set makes the concurrency that of the tenant; 0 takes the settings away.
func set(t *testing.T, s registry.Store, tenant string, concurrency int) script.Tenant {
	t.Helper()
	c := registry.TenantCommit{
		Guard: data(t, s, keyed(tenant, "")).Tenant.Revision,
		Tenant: script.Tenant{
			Name: tenant, Settings: script.TenantSettings{Concurrency: concurrency}, Deleted: concurrency == 0, Author: "ann", ChangedAt: at,
		},
	}
	revision, err := s.CommitTenant(t.Context(), c)
	if err != nil {
		t.Errorf("CommitTenant: %v", err)
	}
	c.Tenant.Revision = revision
	return c.Tenant
}

func (h Harness) testValues(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	if got := data(t, s, keyed("acme", "a")); !reflect.DeepEqual(got, registry.DataUsage{}) {
		t.Errorf("of nothing: %+v", got)
	}
	one := put(t, s, keyed("acme", "flags/a"), "on")
	two := put(t, s, keyed("acme", "flags/a"), "off")
	large := strings.Repeat("x", script.MaxValueBytes)
	put(t, s, keyed("acme", "large"), large)
	empty := put(t, s, keyed("acme-b", "empty"), "")
	if two.Revision <= one.Revision || empty.Revision <= two.Revision {
		t.Errorf("revisions %d, %d, %d do not grow", one.Revision, two.Revision, empty.Revision)
	}
	if head, err := s.Head(ctx); err != nil || head != empty.Revision {
		t.Errorf("the head is %d, %v; want %d", head, err, empty.Revision)
	}
	got := data(t, s, keyed("acme", "flags/a"))
	if got.Value != two || got.Usage.Values != 2 || got.Usage.Bytes != int64(len(large)+len("off")) {
		t.Errorf("got %+v, want %+v, 2 values of %d bytes", got, two, len(large)+len("off"))
	}
	for _, content := range []string{"off", large, ""} {
		if source, err := s.Source(ctx, script.DigestOf([]byte(content))); err != nil || string(source) != content {
			t.Errorf("the content %.10q: %d bytes, %v", content, len(source), err)
		}
	}
}

func (h Harness) testRemoveValue(t *testing.T) {
	s, key := h.Open(t), keyed("acme", "flags/a")
	put(t, s, key, "on")
	put(t, s, keyed("acme", "other"), "12345")
	gone := remove(t, s, key)
	if got := data(t, s, key); got.Value != gone || got.Usage.Values != 1 || got.Usage.Bytes != 5 {
		t.Errorf("after the removal: %+v, want %+v, and one value", got, gone)
	}
	again := put(t, s, key, "again")
	s = h.Reopen(t, s)
	if got := data(t, s, key); got.Value != again || got.Usage.Values != 2 {
		t.Errorf("after a restart: %+v, want %+v", got, again)
	}
	entries, _, err := s.Audit(t.Context(), registry.AuditFilter{Tenant: "acme"}, "", 10)
	if err != nil || len(entries) != 3 || !slices.ContainsFunc(entries, func(e script.AuditEntry) bool {
		return e.Revision == again.Revision && e.Key == "flags/a" && e.Change == script.ChangePut
	}) {
		t.Errorf("the audit trail: %+v, %v", entries, err)
	}
}

// testValueGuards: neither the value nor what the tenant has may have changed since.
func (h Harness) testValueGuards(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	a, b := keyed("acme", "a"), keyed("acme", "b")
	early := putCommit(data(t, s, a), a, "early")
	other := putCommit(data(t, s, b), b, "other")
	first := put(t, s, a, "first")
	for what, c := range map[string]registry.ValueCommit{"a value that is there now": early, "a usage of the past": other} {
		_, err := s.CommitValue(ctx, c)
		if script.KindOf(err) != script.Conflict {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	wrong := putCommit(data(t, s, a), a, "wrong")
	wrong.Guard--
	_, err := s.CommitValue(ctx, wrong)
	wantKind(t, err, script.Conflict)
	if got := data(t, s, a); got.Value != first || got.Usage.Values != 1 {
		t.Errorf("got %+v, want %+v alone", got, first)
	}
	if head, err := s.Head(ctx); err != nil || head != first.Revision {
		t.Errorf("the head is %d, %v; want %d: nothing happened since", head, err, first.Revision)
	}
	put(t, s, keyed("zoo", "a"), "of another tenant")
	put(t, s, a, "second") // it was in nobody's way
}

func (h Harness) testValuePaging(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	for _, key := range []string{"b", "a/2", "a/1", "a-1", "a", "a/10", "B"} {
		put(t, s, keyed("acme", key), key)
	}
	put(t, s, keyed("acme-a", "a/0"), "another tenant's")
	remove(t, s, keyed("acme", "a/10"))
	for _, test := range []struct {
		prefix, after string
		limit         int
		want          string
	}{
		{"", "", 10, "[B a a-1 a/1 a/2 b]"},
		{"", "", 3, "[B a a-1]"},
		{"", "a-1", 2, "[a/1 a/2]"},
		{"", "b", 2, "[]"},
		{"a", "", 10, "[a a-1 a/1 a/2]"},
		{"a/", "", 10, "[a/1 a/2]"},
		{"a/", "a/1", 10, "[a/2]"},
		{"a/", "b", 10, "[]"},
		{"a/", "B", 1, "[a/1]"},
		{"nothing", "", 10, "[]"},
	} {
		page, _, err := s.Values(ctx, "acme", test.prefix, test.after, test.limit)
		keys := []string{}
		for _, v := range page {
			keys = append(keys, v.Key.Key)
		}
		if err != nil || fmt.Sprint(keys) != test.want {
			t.Errorf("%d of %q after %q: %v, %v; want %s", test.limit, test.prefix, test.after, keys, err, test.want)
		}
	}
}

func (h Harness) testTenants(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	set(t, s, "acme", 1)
	zoo, acme := set(t, s, "zoo", 2), set(t, s, "acme", 3)
	if got := data(t, s, keyed("acme", "")); got.Tenant != acme {
		t.Errorf("got %+v, want %+v", got.Tenant, acme)
	}
	_, err := s.CommitTenant(ctx, registry.TenantCommit{Tenant: script.Tenant{Name: "acme", ChangedAt: at}})
	wantKind(t, err, script.Conflict)
	gone := set(t, s, "shop", 1)
	gone = set(t, s, gone.Name, 0)
	for _, test := range []struct {
		after string
		limit int
		want  []script.Tenant
	}{{"", 10, []script.Tenant{acme, zoo}}, {"", 1, []script.Tenant{acme}}, {"acme", 1, []script.Tenant{zoo}}, {"zoo", 1, nil}} {
		if got, _, err := s.Tenants(ctx, test.after, test.limit); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%d after %q: %+v, %v; want %+v", test.limit, test.after, got, err, test.want)
		}
	}
	if head, heads, _, _ := snapshot(t, s); head != gone.Revision || heads["acme"] != acme.Revision || heads["shop"] != gone.Revision {
		t.Errorf("head %d, heads %v; want %d, acme at %d", head, heads, gone.Revision, acme.Revision)
	}
}

// everything returns all objects of a snapshot by their keys.
func everything(t *testing.T, s registry.Store) map[string]string {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for o, err := range snap.Objects() {
		if err != nil {
			t.Fatal(err)
		}
		if all[o.Key()] != "" {
			t.Errorf("%s came twice", o.Key())
		}
		all[o.Key()] = described(o)
	}
	return all
}

// described is all of the object, as text.
func described(o script.Object) string {
	switch o.Kind() {
	case script.Releases:
		return text(*o.Release)
	case script.Values:
		return fmt.Sprintf("%+v", *o.Value)
	}
	return fmt.Sprintf("%+v", *o.Tenant)
}

// changeAll makes each changes, at once, of a release, of values of two tenants and of
// the settings of one.
func changeAll(ctx context.Context, t *testing.T, s registry.Store, each int) *sync.WaitGroup {
	t.Helper()
	var writing sync.WaitGroup
	writing.Go(func() {
		var cur script.Release
		for i := range each {
			c := publish(cur, named(1), fmt.Sprint(i))
			revision, err := s.Commit(ctx, c)
			if err != nil {
				t.Error(err)
			}
			cur = c.Release
			cur.Revision = revision
		}
	})
	for _, tenant := range []string{"acme", "zoo"} {
		writing.Go(func() {
			for i := range each {
				key := keyed(tenant, fmt.Sprint("key-", i%3))
				if cur := data(t, s, key); cur.Value.Revision != 0 && !cur.Value.Deleted && i%2 == 0 {
					remove(t, s, key)
				} else {
					put(t, s, key, fmt.Sprint("content ", i))
				}
			}
		})
	}
	writing.Go(func() {
		for i := range each {
			set(t, s, "zoo", i)
		}
	})
	return &writing
}

// testObjectsAreWatched: a watch yields the changes of all kinds in one order, each
// once, however many write; what it yielded last of each is what a snapshot has.
func (h Harness) testObjectsAreWatched(t *testing.T) {
	s := h.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := set(t, s, "acme", 1)
	watch, ended := watching(ctx, s, first.Revision)
	const each = 12
	written := changeAll(ctx, t, s, each)
	last := map[string]string{"tenants/acme": described(script.Object{Tenant: &first})}
	after := first.Revision
	for range 4 * each {
		select {
		case tx := <-watch:
			objects := slices.Collect(tx.Objects())
			if tx.Revision <= after || len(objects) != 1 || objects[0].Revision() != tx.Revision {
				t.Fatalf("revision %d after %d: %+v; want one object, in order", tx.Revision, after, tx)
			}
			after, last[objects[0].Key()] = tx.Revision, described(objects[0])
		case err := <-ended:
			t.Fatalf("the watch ended: %v", err)
		case <-ctx.Done():
			t.Fatal("not all transactions came")
		}
	}
	written.Wait()
	now := everything(t, s)
	if len(now) != len(last) {
		t.Errorf("%d objects, of %d the watch told", len(now), len(last))
	}
	for key, want := range last {
		if now[key] != want {
			t.Errorf("%s: %s\nthe watch: %s", key, now[key], want)
		}
	}
	if head, err := s.Head(ctx); err != nil || head != after {
		t.Errorf("the head is %d, %v; want %d", head, err, after)
	}
}

// testTenantGuard: a commit that was decided on settings of the tenant which changed
// since comes to nothing.
func (h Harness) testTenantGuard(t *testing.T) {
	s := h.Open(t)
	guarded := func(cur script.Release, guard script.Revision) registry.Commit {
		c := publish(cur, named(1), fmt.Sprint("after ", cur.Revision))
		c.TenantGuard = &guard
		return c
	}
	r := commit(t, s, guarded(script.Release{}, 0))
	settings := set(t, s, "acme", 1)
	for _, past := range []script.Revision{0, settings.Revision - 1, settings.Revision + 1} {
		_, err := s.Commit(t.Context(), guarded(r, past))
		wantKind(t, err, script.Conflict)
	}
	r = commit(t, s, guarded(r, settings.Revision))
	set(t, s, "other", 1)
	commit(t, s, guarded(r, settings.Revision))
	if now, err := s.Release(t.Context(), named(1)); err != nil || now.Latest != 3 {
		t.Errorf("%+v, %v; want three versions", now, err)
	}
}

// testQuotaAtOnce: writers that come at once, by several registries, never have more
// together than the tenant may, and what is counted is what is there.
func (h Harness) testQuotaAtOnce(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	const quota, size, writers, each = 10_000, 900, 6, 8
	admin := rules(s)
	if _, _, err := admin.SetTenant(ctx, registry.SetTenant{
		Tenant: "acme", Settings: &script.TenantSettings{ValueBytes: quota}, Author: "ann", By: access.Everybody("unix"),
	}); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			r := rules(s)
			for i := range each {
				key := keyed("acme", fmt.Sprintf("w%d/%d", w, i%5))
				var err error
				if i%4 == 3 {
					_, err = r.DeleteValue(ctx, registry.DeleteValue{Key: key, Author: "ann", By: access.Everybody("unix")})
				} else {
					content := strings.Repeat(fmt.Sprint(w, i), size)[:size-i]
					_, _, err = r.PutValue(ctx, registry.PutValue{Key: key, Content: []byte(content), Author: "ann", By: access.Everybody("unix")})
				}
				switch script.KindOf(err) {
				case "", script.Limit, script.NotFound:
				default:
					t.Errorf("writer %d: %v", w, err)
				}
				if used := data(t, s, key).Usage.Bytes; used > quota {
					t.Errorf("%d bytes are used, of %d", used, quota)
				}
			}
		})
	}
	writing.Wait()
	values, _, err := s.Values(ctx, "acme", "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, v := range values {
		sum += int64(v.Size)
	}
	if usage := data(t, s, keyed("acme", "")).Usage; usage.Bytes != sum || usage.Values != len(values) || sum > quota {
		t.Errorf("%+v are counted, %d values of %d bytes are there", usage, len(values), sum)
	}
}
