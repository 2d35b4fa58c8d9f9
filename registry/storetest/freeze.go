package storetest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// runRecords tests what a store keeps beside objects.
func (h Harness) runRecords(t *testing.T) {
	t.Helper()
	t.Run("Removals", h.testRemovals)
	t.Run("Freeze", h.testFreeze)
	h.runTimeline(t)
}

// frozen is a freeze as a registry writes it.
func frozen(note string) script.Freeze {
	return script.Freeze{Author: "ann", Note: note, Since: at, Until: at.Add(time.Hour), Except: []string{"acme/route", "team-*"}, ChangedAt: at}
}

// testFreeze: reads, snapshots and watches tell of the freeze; and nothing that changes an object
// is committed that was decided under another one.
func (h Harness) testFreeze(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	before, err := s.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit := func(guard script.Revision, f script.Freeze) (script.Revision, error) {
		return s.CommitFreeze(ctx, registry.FreezeCommit{Guard: guard, Freeze: f, Audit: script.AuditEntry{Time: at, Change: script.ChangeFreeze, Author: "ann", Note: f.Note}})
	}
	want := frozen("first")
	if want.Revision, err = commit(0, want); err != nil {
		t.Fatal(err)
	}
	if _, err := commit(0, frozen("late")); script.KindOf(err) != script.Conflict {
		t.Errorf("with another guard: %v", err)
	}
	wantFreeze(t, s, want)
	if after, err := s.Head(ctx); err != nil || after != before {
		t.Errorf("the head is %d after the freeze, and was %d: %v", after, before, err)
	}
	for tx, err := range s.Watch(ctx, before) {
		if err != nil || tx.Freeze == nil || !reflect.DeepEqual(*tx.Freeze, want) || !tx.Foreign || tx.Revision != want.Revision {
			t.Errorf("the watch yields %+v: %v", tx, err)
		}
		break
	}
	h.wantGuarded(t, s, want.Revision)
	lifted := script.Freeze{Author: "bo", ChangedAt: at, Lifted: true}
	if lifted.Revision, err = commit(want.Revision, lifted); err != nil {
		t.Fatal(err)
	}
	wantFreeze(t, s, lifted)
	entries, _, err := s.Audit(ctx, registry.AuditFilter{}, "", 10)
	if err != nil || !slices.ContainsFunc(entries, func(e script.AuditEntry) bool {
		return e.Change == script.ChangeFreeze && e.Note == "first" && e.Revision == want.Revision
	}) {
		t.Errorf("the audit trail has %+v: %v", entries, err)
	}
}

func wantFreeze(t *testing.T, s registry.Store, want script.Freeze) {
	t.Helper()
	read, err := s.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string]script.Freeze{"read": read, "in a snapshot": snapshot.Freeze, "with a value": data(t, s, keyed("acme", "k")).Freeze} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s it is %+v, want %+v", where, got, want)
		}
	}
}

// wantGuarded commits all that changes objects, under another freeze and then under the one with
// that revision.
func (h Harness) wantGuarded(t *testing.T, s registry.Store, freeze script.Revision) {
	t.Helper()
	ctx := t.Context()
	digest, err := s.PutSource(ctx, []byte("return 2"))
	if err != nil {
		t.Fatal(err)
	}
	archived := publish(script.Release{}, named(2), "return 2")
	archived.Release.Active.Digest, archived.Release.Retained[0].Digest = digest, digest
	for what, write := range map[string]func(freeze script.Revision) (script.Revision, error){
		"a release": func(freeze script.Revision) (script.Revision, error) {
			c := publish(script.Release{}, named(1), "return 1")
			c.FreezeGuard = freeze
			return s.Commit(ctx, c)
		},
		"an import": func(freeze script.Revision) (script.Revision, error) {
			return s.Restore(ctx, registry.Restoration{FreezeGuard: freeze, Release: archived.Release, Version: []script.Version{*archived.Publish}, History: []script.HistoryEntry{archived.Entry}})
		},
		"a value": func(freeze script.Revision) (script.Revision, error) {
			v := script.Value{Key: keyed("acme", "v"), Digest: digest, Size: 8, Author: "ann", ChangedAt: at}
			return s.CommitValue(ctx, registry.ValueCommit{FreezeGuard: freeze, Value: v, Content: []byte("return 2"), Usage: data(t, s, v.Key).Usage})
		},
		"settings": func(freeze script.Revision) (script.Revision, error) {
			return s.CommitTenant(ctx, registry.TenantCommit{FreezeGuard: freeze, Tenant: script.Tenant{Name: "acme", Author: "ann", ChangedAt: at}})
		},
		"a loss": func(freeze script.Revision) (script.Revision, error) {
			return s.(registry.Checkup).AcceptLoss(ctx, 1, freeze, script.AuditEntry{Time: at, Change: script.ChangeAcceptLoss, Author: "ann"})
		},
	} {
		for _, guard := range []script.Revision{0, freeze - 1, freeze + 1} {
			if _, err := write(guard); script.KindOf(err) != script.Conflict {
				t.Errorf("%s that was decided under another freeze: %v, want a conflict", what, err)
			}
		}
		if _, err := write(freeze); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
