package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// losing is a store that can lose a source, the audit trail and the histories.
type losing struct {
	*memstore.Store
	lost    map[script.Digest]bool
	noTrail bool
	// stale: the newest line of each history cannot be read.
	stale bool
	// skew: the trail is in the wrong order.
	skew bool
	// pages of the trail that were read.
	pages int
}

func (s *losing) Sources(ctx context.Context, digests []script.Digest) ([]registry.Source, error) {
	found, err := s.Store.Sources(ctx, digests)
	return slices.DeleteFunc(found, func(src registry.Source) bool { return s.lost[src.Digest] }), err
}

func (s *losing) ReplaceSource(ctx context.Context, source registry.Source) error {
	delete(s.lost, source.Digest)
	return s.Store.ReplaceSource(ctx, source)
}

func (s *losing) CommitValue(ctx context.Context, c registry.ValueCommit) (script.Revision, error) {
	delete(s.lost, c.Value.Digest)
	return s.Store.CommitValue(ctx, c)
}

func (s *losing) Audit(ctx context.Context, filter registry.AuditFilter, after string, limit int) ([]script.AuditEntry, string, error) {
	if s.noTrail {
		return nil, "", nil
	}
	s.pages++
	entries, token, err := s.Store.Audit(ctx, filter, after, limit)
	if s.skew {
		slices.Reverse(entries)
	}
	return entries, token, err
}

func (s *losing) Remains(ctx context.Context, u registry.Unreadable) (registry.Remains, error) {
	remains, err := s.Store.Remains(ctx, u)
	if s.noTrail {
		remains.History, remains.Current = nil, false
	}
	if s.stale && len(remains.History) > 0 {
		remains.History, remains.Current = remains.History[1:], false
	}
	return remains, err
}

// agents are what agents answer.
type agents struct {
	t      *testing.T
	copies []registry.Copy
	asked  int
	of     int
	err    error
	calls  int
}

func (a *agents) Recall(_ context.Context, tenant string, keys []string, take func(registry.Copy) bool) (asked, of int, err error) {
	a.calls++
	if !strings.HasPrefix(tenant, "acme") || len(keys) == 0 || len(keys) > wire.MaxRecall {
		a.t.Errorf("%s is asked for %q", tenant, keys)
	}
	for _, c := range a.copies {
		if slices.Contains(keys, c.Key) && take(c) {
			break
		}
	}
	return a.asked, a.of, a.err
}

// fleetOf is a registry whose store forgets, and whose agents have copies.
type fleetOf struct {
	*registry.Registry
	t      *testing.T
	store  *losing
	agents *agents
	sealer *seal.Sealer
	fleet  string
	// before are the objects as they were, oldest first, by key.
	before map[string][]script.Object
}

const (
	routeKey, flagKey, tenantKey = "releases/acme/route", "values/acme/flag", "tenants/acme"
	flagText                     = "the second flag"
)

func newFleetOf(t *testing.T) *fleetOf {
	t.Helper()
	f := &fleetOf{
		t: t, store: &losing{Store: memstore.New(), lost: map[script.Digest]bool{}}, agents: &agents{t: t, asked: 2, of: 2},
		sealer: newSealer(t), before: map[string][]script.Object{},
	}
	f.Registry = registry.New(registry.Config{
		Store: f.store, Checkup: f.store, Engines: map[string]engine.Checker{"lua": &checker{}}, Copies: f.agents, Trusted: f.sealer.Keyring(),
	})
	ctx := t.Context()
	for i, flag := range []string{"the first flag", flagText} {
		settings := script.Settings{Spec: script.Spec{Config: []byte(fmt.Sprintf(`{"n":%d}`, i)), Limits: script.Limits{Instructions: uint64(1000 + i)}}}
		req := registry.PublishRequest{Write: write(route), Source: fmt.Append(nil, "source ", i), Settings: &settings}
		if _, err := f.Publish(ctx, req); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.PutValue(ctx, registry.PutValue{Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Content: []byte(flag), Author: "ann", By: everybody}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.SetTenant(ctx, registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{Concurrency: 3 + i}, Author: "ann", By: everybody}); err != nil {
			t.Fatal(err)
		}
		for key, o := range f.objects() {
			f.before[key] = append(f.before[key], o)
		}
	}
	return f
}

func newSealer(t *testing.T) *seal.Sealer {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return seal.NewSealer(key)
}

// objects returns those that can be read.
func (f *fleetOf) objects() map[string]script.Object {
	f.t.Helper()
	snapshot, err := f.store.Snapshot(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	f.fleet = snapshot.Fleet
	all := map[string]script.Object{}
	for o, err := range snapshot.Objects() {
		if _, ok := errors.AsType[*registry.Unreadable](err); ok {
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		all[o.Key()] = o
	}
	return all
}

// copied returns the object as an agent sends it.
func (f *fleetOf) copied(key string, o script.Object) registry.Copy {
	return f.sealed(key, f.sealer, f.fleet, o)
}

func (f *fleetOf) sealed(key string, sealer *seal.Sealer, fleet string, o script.Object) registry.Copy {
	f.t.Helper()
	data, err := sealer.Seal(wire.FromObjectEntry(fleet, o))
	if err != nil {
		f.t.Fatal(err)
	}
	return registry.Copy{Agent: "n1", Key: key, Content: data}
}

// spoil loses the objects, and what the store knew of them.
func (f *fleetOf) spoil(keys ...string) {
	for _, key := range keys {
		f.store.Spoil(key, true)
	}
}

// doctor returns what is damaged.
func (f *fleetOf) doctor(repair, fromAgents bool) map[string]registry.Finding {
	f.t.Helper()
	found := map[string]registry.Finding{}
	for one, err := range f.Doctor(f.t.Context(), registry.DoctorRequest{By: everybody, Repair: repair, FromAgents: fromAgents, Author: "ann"}) {
		if err != nil {
			f.t.Fatal(err)
		}
		found[one.Key] = one
	}
	return found
}

// wantAsBefore checks that all is as it was at the last change.
func (f *fleetOf) wantAsBefore() {
	f.t.Helper()
	now := f.objects()
	for key, all := range f.before {
		was, is := all[len(all)-1], now[key]
		switch {
		case was.Release != nil && is.Release != nil:
			r := *is.Release
			r.Revision, r.ChangedAt = was.Release.Revision, was.Release.ChangedAt
			is.Release = &r
		case was.Value != nil && is.Value != nil:
			v := *was.Value
			v.Revision, v.ChangedAt, v.Author = is.Value.Revision, is.Value.ChangedAt, is.Value.Author
			was.Value = &v
		case was.Tenant != nil && is.Tenant != nil:
			v := *was.Tenant
			v.Revision, v.ChangedAt, v.Author = is.Tenant.Revision, is.Tenant.ChangedAt, is.Tenant.Author
			was.Tenant = &v
		}
		if !reflect.DeepEqual(wire.FromObject(was).String(), wire.FromObject(is).String()) {
			f.t.Errorf("%s is %v, want %v", key, wire.FromObject(is), wire.FromObject(was))
		}
	}
}

// TestWhatIsNotTakenFromAgents: whoever can send in an agent's name has no object changed: an
// older entry, or one that this registry has not signed, restores nothing, and spoils nothing
// of what another agent sends.
func TestWhatIsNotTakenFromAgents(t *testing.T) {
	for what, tc := range map[string]struct {
		want string
		make func(f *fleetOf, key string, last script.Object) registry.Copy
	}{
		"an older revision": {"it is of revision ", func(f *fleetOf, key string, _ script.Object) registry.Copy { return f.copied(key, f.before[key][0]) }},
		"another key": {"signs with", func(f *fleetOf, key string, last script.Object) registry.Copy {
			return f.sealed(key, newSealer(f.t), f.fleet, last)
		}},
		"no signature": {"signed", func(f *fleetOf, key string, last script.Object) registry.Copy {
			return f.sealed(key, seal.Unsigned(), f.fleet, last)
		}},
		"another fleet": {"fleet", func(f *fleetOf, key string, last script.Object) registry.Copy {
			return f.sealed(key, f.sealer, "other", last)
		}},
		"another object": {"it is of \"", func(f *fleetOf, key string, last script.Object) registry.Copy {
			for other, all := range f.before {
				if other != key {
					return f.copied(key, at(all[1], last.Revision()))
				}
			}
			return registry.Copy{}
		}},
		"a revision above the record's": {"not below", func(f *fleetOf, key string, last script.Object) registry.Copy {
			return f.copied(key, at(last, 1_000_000))
		}},
		"garbage": {"", func(_ *fleetOf, key string, _ script.Object) registry.Copy {
			return registry.Copy{Agent: "n1", Key: key, Content: []byte("garbage")}
		}},
		"a problem": {"too large", func(_ *fleetOf, key string, _ script.Object) registry.Copy {
			return registry.Copy{Agent: "n1", Key: key, Problem: "too large"}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleetOf(t)
			keys := slices.Sorted(maps.Keys(f.before))
			f.spoil(keys...)
			for _, key := range keys {
				f.agents.copies = append(f.agents.copies, tc.make(f, key, f.before[key][1]))
			}
			found := f.doctor(true, true)
			for _, key := range keys {
				if one := found[key]; one.Repairable || one.Repaired || !strings.Contains(one.Remedy, "n1") || !strings.Contains(one.Remedy, tc.want) {
					t.Errorf("%s: %+v", key, one)
				}
			}
			for _, key := range keys {
				f.agents.copies = append(f.agents.copies, f.copied(key, f.before[key][1]))
			}
			for key, one := range f.doctor(true, true) {
				if !one.Repaired || !strings.Contains(one.Remedy, "from the agent n1") {
					t.Errorf("%s: %+v", key, one)
				}
			}
			f.wantAsBefore()
		})
	}
}

// at returns the object as if it were of the revision.
func at(o script.Object, revision script.Revision) script.Object {
	switch {
	case o.Release != nil:
		r := *o.Release
		r.Revision = revision
		return script.Object{Release: &r}
	case o.Value != nil:
		v := *o.Value
		v.Revision = revision
		return script.Object{Value: &v}
	}
	v := *o.Tenant
	v.Revision = revision
	return script.Object{Tenant: &v}
}

// TestTheNewestCopy: once the histories and the audit trail are gone, the newest copy counts.
func TestTheNewestCopy(t *testing.T) {
	f := newFleetOf(t)
	for key, all := range f.before {
		f.agents.copies = append(f.agents.copies, f.copied(key, all[0]), f.copied(key, all[1]), f.copied(key, all[0]))
		f.spoil(key)
	}
	f.store.noTrail = true
	for key, one := range f.doctor(true, true) {
		if !one.Repaired || !strings.Contains(one.Remedy, "the newest of the copies") {
			t.Errorf("%s: %+v", key, one)
		}
	}
	f.wantAsBefore()
}

// TestClocksOfReplicas: the trail is in the order of the replicas' clocks, which differ a bit. The
// last write is the one with the highest revision.
func TestClocksOfReplicas(t *testing.T) {
	f := newFleetOf(t)
	f.store.skew = true
	for _, key := range []string{flagKey, tenantKey} {
		all := f.before[key]
		f.agents.copies = append(f.agents.copies, f.copied(key, all[0]), f.copied(key, all[1]))
		f.spoil(key)
	}
	for key, one := range f.doctor(true, true) {
		if !one.Repaired || strings.Contains(one.Remedy, "the newest of the copies") {
			t.Errorf("%s: %+v", key, one)
		}
	}
	f.wantAsBefore()
}

// TestALostRelease: doctor finds a script of which somebody removed the record alone.
func TestALostRelease(t *testing.T) {
	f := newFleetOf(t)
	if _, err := f.Publish(t.Context(), registry.PublishRequest{Write: write(script.Name{Tenant: "acme", Script: "gone"}), Source: []byte("source")}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Delete(t.Context(), registry.DeleteRequest{Write: write(script.Name{Tenant: "acme", Script: "gone"})}); err != nil {
		t.Fatal(err)
	}
	f.store.Lose(routeKey)
	found := f.doctor(true, true)
	if one := found[routeKey]; len(found) != 1 || one.Repairable || !strings.Contains(one.Reason, "2 of its versions") || !strings.Contains(one.Remedy, "export") {
		t.Errorf("%+v", found)
	}
}

// TestTheTrailIsReadOnce, however many tenants have lost something: it may be long.
func TestTheTrailIsReadOnce(t *testing.T) {
	f := newFleetOf(t)
	for i := range 3 {
		tenant := fmt.Sprint("acme", i)
		if _, _, err := f.SetTenant(t.Context(), registry.SetTenant{Tenant: tenant, Settings: &script.TenantSettings{Concurrency: 1 + i}, Author: "ann", By: everybody}); err != nil {
			t.Fatal(err)
		}
		key := "tenants/" + tenant
		last := f.objects()[key]
		f.before[key] = []script.Object{last}
		f.agents.copies = append(f.agents.copies, f.copied(key, last))
		f.spoil(key)
	}
	for key, one := range f.doctor(true, true) {
		if !one.Repaired || strings.Contains(one.Remedy, "the newest of the copies") {
			t.Errorf("%s: %+v", key, one)
		}
	}
	f.wantAsBefore()
	if f.store.pages != 1 {
		t.Errorf("%d pages of the trail were read, want 1", f.store.pages)
	}
}

// TestABrokenLineOfHistory: an older line does not say when the last change was.
func TestABrokenLineOfHistory(t *testing.T) {
	f := newFleetOf(t)
	all := f.before[routeKey]
	f.agents.copies = []registry.Copy{f.copied(routeKey, all[0]), f.copied(routeKey, all[1])}
	f.spoil(routeKey)
	f.store.stale = true
	if one := f.doctor(true, true)[routeKey]; !one.Repaired || !strings.Contains(one.Remedy, "the newest of the copies") {
		t.Errorf("%+v", one)
	}
	f.wantAsBefore()
}

// TestWhatWasDeletedStaysDeleted: an older copy does not bring it back.
func TestWhatWasDeletedStaysDeleted(t *testing.T) {
	f := newFleetOf(t)
	if _, err := f.DeleteValue(t.Context(), registry.DeleteValue{Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Delete(t.Context(), registry.DeleteRequest{Write: write(route)}); err != nil {
		t.Fatal(err)
	}
	for key, all := range f.before {
		f.agents.copies = append(f.agents.copies, f.copied(key, all[1]))
	}
	f.spoil(flagKey, routeKey)
	found := f.doctor(true, true)
	for _, key := range []string{flagKey, routeKey} {
		if one := found[key]; one.Repaired || !strings.Contains(one.Remedy, "deleted") {
			t.Errorf("%s: %+v", key, one)
		}
	}
	if f.agents.calls != 0 {
		t.Errorf("agents were asked %d times", f.agents.calls)
	}
}

// TestSourcesOfAgents: a source, or the content of a value, counts by its digest.
func TestSourcesOfAgents(t *testing.T) {
	f := newFleetOf(t)
	source, flag := script.DigestOf([]byte("source 1")), script.DigestOf([]byte(flagText))
	f.store.lost[source], f.store.lost[flag] = true, true
	f.spoil(flagKey)
	f.agents.copies = []registry.Copy{
		f.copied(flagKey, f.before[flagKey][1]),
		{Agent: "n1", Key: wire.SourceKey(source), Content: []byte("evil")},
		{Agent: "n1", Key: wire.SourceKey(flag), Content: []byte("evil")},
	}
	found := f.doctor(true, true)
	for _, key := range []string{flagKey, wire.SourceKey(source)} {
		if one := found[key]; one.Repaired || !strings.Contains(one.Remedy, "digest") {
			t.Errorf("%s: %+v", key, one)
		}
	}
	f.agents.copies = append(f.agents.copies,
		registry.Copy{Agent: "n2", Key: wire.SourceKey(source), Content: []byte("source 1")}, registry.Copy{Agent: "n2", Key: wire.SourceKey(flag), Content: []byte(flagText)})
	for key, one := range f.doctor(false, true) {
		if one.Repaired || !one.Repairable || !strings.Contains(one.Remedy, "from the agent n") {
			t.Errorf("without a repair: %s: %+v", key, one)
		}
	}
	for key, one := range f.doctor(true, true) {
		if !one.Repaired {
			t.Errorf("%s: %+v", key, one)
		}
	}
	if found := f.doctor(false, true); len(found) != 0 {
		t.Errorf("in the end: %+v", found)
	}
	f.wantAsBefore()
}

// TestAgentsThatSayNothing: what nobody sends is left alone, the release too, which could be
// made of what is left; the remedy says so, and how often agents are asked is bounded.
func TestAgentsThatSayNothing(t *testing.T) {
	f := newFleetOf(t)
	f.spoil(routeKey, flagKey, tenantKey)
	for key, one := range f.doctor(false, false) {
		if !strings.Contains(one.Remedy, "--repair --from-agents") {
			t.Errorf("without asking: %s: %+v", key, one)
		}
	}
	for _, tc := range []struct {
		asked, of, calls int
		err              error
		want             string
	}{
		{2, 2, 1, nil, "none of 2 agents"},
		{8, 100, 4, nil, "none of 32 agents"},
		{0, 0, 1, nil, "no connected agent follows the tenant"},
		{0, 3, 1, errors.New("NATS is gone"), "NATS is gone"},
	} {
		f.agents.asked, f.agents.of, f.agents.err, f.agents.calls = tc.asked, tc.of, tc.err, 0
		found := f.doctor(true, true)
		for key, one := range found {
			if one.Repairable || one.Repaired || !strings.Contains(one.Remedy, tc.want) {
				t.Errorf("%s: %+v, want %q", key, one, tc.want)
			}
		}
		if len(found) != 3 || f.agents.calls != tc.calls {
			t.Errorf("%+v: %d found, asked %d times", tc, len(found), f.agents.calls)
		}
	}
	if found := f.doctor(true, false); !found[routeKey].Repaired {
		t.Errorf("without asking: %+v", found)
	}
}
