package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestWhatWaitsForTheThaw: a version that is published while the registry is frozen goes the way,
// when that is over, that it would have gone without.
func TestWhatWaitsForTheThaw(t *testing.T) {
	for name, c := range map[string]struct {
		publish func(b *bench)
		want    string
	}{
		"without tests":         {func(b *bench) { b.publish("four", settings(script.Settings{})) }, "v4 live"},
		"a test":                {func(b *bench) { b.publish("four", settings(*tested)) }, "v2 live, v4 in attempt 1"},
		"steps":                 {func(b *bench) { b.publish("four") }, "v2 live, v4 in attempt 1"},
		"pinned":                {func(b *bench) { b.publish("four", settings(script.Settings{}), pin(4)) }, "v4 live, pinned"},
		"an older one, pinned":  {func(b *bench) { b.publish("three", settings(script.Settings{}), pin(1)) }, "v1 live, pinned"},
		"the last of several":   {func(b *bench) { b.publish("four"); b.publish("five", settings(script.Settings{})) }, "v5 live"},
		"published twice":       {func(b *bench) { b.publish("four"); b.publish("four") }, "v2 live, v4 in attempt 1"},
		"frozen once more":      {func(b *bench) { b.publish("four"); b.freeze(); b.freeze() }, "v2 live, v4 in attempt 1"},
		"retried":               {func(b *bench) { b.publish("four"); _ = steering("route", registry.Retry)(b, b.t.Context()) }, "v2 live, v4 in attempt 1"},
		"rolled back meanwhile": {func(b *bench) { b.publish("four"); _ = rollingBack(route, 0)(b, b.t.Context()) }, "v1 live, pinned"},
		"held meanwhile":        {func(b *bench) { b.publish("four"); _ = pinning(route, 0)(b, b.t.Context()) }, "v2 live, pinned"},
		"given up meanwhile":    {func(b *bench) { b.publish("four"); _ = steering("route", registry.Abort)(b, b.t.Context()) }, "v2 live, v4 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := beforeTheFreeze(t)
			b.freeze()
			c.publish(b)
			if r := b.get(); r.Frozen() {
				if err := b.move(route, registry.Move{Begin: true}); script.KindOf(err) != script.Conflict {
					t.Errorf("it begins before the end of the freeze: %v", err)
				}
				if err := b.move(route, registry.Move{Promote: true}); err == nil {
					t.Error("it is promoted")
				}
				if want := `frozen by ann since 2026-01-01 00:00 UTC ("incident 12"): scriptctl thaw`; r.HeldBack() != want || r.CandidateState() != script.CandidateFrozen {
					t.Errorf("it is %s, %q, want %q", r.CandidateState(), r.HeldBack(), want)
				}
			}
			b.thaw()
			if r := b.get(); r.Frozen() {
				if err := b.move(route, registry.Move{Begin: true}); err != nil {
					t.Error(err)
				}
			}
			r := b.get()
			got := fmt.Sprintf("v%d live", r.Active.Number)
			if r.Pinned {
				got += ", pinned"
			}
			if c := r.Candidate; c != nil {
				got += fmt.Sprintf(", v%d in attempt %d", c.Version.Number, c.Tries)
				if c.Failed != "" {
					got, _, _ = strings.Cut(got, " in attempt")
					got += " failed"
				}
			}
			if got != c.want || r.Frozen() {
				t.Errorf("after the thaw: %s, want %s", got, c.want)
			}
		})
	}
}

// TestAFreezeKeepsWhatOneMayGoBackTo: however often something is published meanwhile, the versions
// from before the freeze stay.
func TestAFreezeKeepsWhatOneMayGoBackTo(t *testing.T) {
	b := newBench(t)
	for _, source := range []string{"one", "two"} {
		b.publish(source, settings(script.Settings{HistoryLimit: 2}))
	}
	b.freeze()
	for i := range 5 {
		b.publish(fmt.Sprint("late ", i), settings(script.Settings{HistoryLimit: 1}))
	}
	rolled, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)})
	if err != nil || rolled.Release.Active.Number != 1 {
		t.Errorf("rolled back to v%d: %v", rolled.Release.Active.Number, err)
	}
}

// TestAFreezeEnds: by the registry's clock, if it is to, and whatever the clock did before.
func TestAFreezeEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBench(t)
	b.Registry = registry.New(registry.Config{Store: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Clock: func() time.Time { return now }})
	b.publish("one")
	first, err := b.Freeze(t.Context(), registry.FreezeRequest{By: everybody, Author: "ann", Lasts: 4 * time.Hour})
	if err != nil || !first.Until.Equal(now.Add(4*time.Hour)) {
		t.Fatal(first, err)
	}
	frozen := func(when string, want bool) {
		t.Helper()
		result, err := b.Publish(t.Context(), registry.PublishRequest{Write: write(route), Source: []byte(when), DryRun: true})
		if err != nil || result.Release.Frozen() != want {
			t.Errorf("%s: frozen %v, %v; want %v", when, result.Release.Frozen(), err, want)
		}
	}
	frozen("at first", true)
	now = now.Add(4*time.Hour - 1)
	frozen("at last", true)
	again, err := b.Freeze(t.Context(), registry.FreezeRequest{By: everybody, Author: "bo", Lasts: time.Hour})
	if err != nil || !again.Since.Equal(first.Since) || again.Author != "bo" {
		t.Errorf("a freeze that goes on: %+v, %v", again, err)
	}
	now = now.Add(time.Hour)
	frozen("afterwards", false)
	now = now.Add(-time.Second)
	frozen("when the clock went back", true)
	now = now.Add(time.Hour)
	if changed, err := b.Thaw(t.Context(), everybody, "ann", ""); changed || err != nil {
		t.Errorf("a freeze that is over is thawed: %v, %v", changed, err)
	}
	later, err := b.Freeze(t.Context(), registry.FreezeRequest{By: everybody, Author: "ann"})
	if err != nil || !later.Since.Equal(now) || !later.Until.IsZero() {
		t.Errorf("another freeze: %+v, %v", later, err)
	}
}

// TestWhoMayFreeze: an admin of all tenants. What is asked has to make sense.
func TestWhoMayFreeze(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		by   access.Identity
		req  registry.FreezeRequest
		kind script.Kind
	}{
		"a tenant's admin": {who(t, "acme-admin", "acme", access.Admin), registry.FreezeRequest{}, script.Denied},
		"who releases":     {who(t, "ops", "*", access.Release), registry.FreezeRequest{}, script.Denied},
		"an admin":         {who(t, "root", "*", access.Admin), registry.FreezeRequest{Except: []string{"acme", "team-*/hot-*", "*"}}, ""},
		"no glob":          {everybody, registry.FreezeRequest{Except: []string{"acme/route@3"}}, script.Invalid},
		"two slashes":      {everybody, registry.FreezeRequest{Except: []string{"a/b/c"}}, script.Invalid},
		"no name":          {everybody, registry.FreezeRequest{Except: []string{"a/"}}, script.Invalid},
		"too many":         {everybody, registry.FreezeRequest{Except: slices.Repeat([]string{"a", "b"}, 40)}, ""},
		"too long":         {everybody, registry.FreezeRequest{Lasts: script.MaxFreeze + 1}, script.Invalid},
		"the past":         {everybody, registry.FreezeRequest{Lasts: -1}, script.Invalid},
		"a long note":      {everybody, registry.FreezeRequest{Note: strings.Repeat("x", 1000)}, script.Invalid},
	} {
		c.req.By, c.req.Author = c.by, "ann"
		if _, err := b.Freeze(t.Context(), c.req); script.KindOf(err) != c.kind {
			t.Errorf("%s: %v, want %q", name, err, c.kind)
		}
		if c.kind == script.Denied {
			if _, err := b.Thaw(t.Context(), c.by, "ann", ""); script.KindOf(err) != c.kind {
				t.Errorf("%s thaws: %v", name, err)
			}
		}
	}
	b.freeze("b", "a", "b")
	entries, err := b.Audit(t.Context(), registry.AuditRequest{By: everybody})
	if err != nil || entries.Entries[0].Change != script.ChangeFreeze || entries.Entries[0].Note != "incident 12 [except a, b]" || entries.Entries[0].Author != "ann" {
		t.Errorf("the audit trail says %+v, %v", entries.Entries[0], err)
	}
	b.thaw()
	if entries, err = b.Audit(t.Context(), registry.AuditRequest{By: everybody}); err != nil || entries.Entries[0].Change != script.ChangeThaw || entries.Entries[0].Note != "over" {
		t.Errorf("the audit trail says %+v, %v", entries.Entries[0], err)
	}
}

// TestAFreezeThatCannotBeRead: nobody can tell what is frozen, so everything is. Whoever may
// freeze replaces the record.
func TestAFreezeThatCannotBeRead(t *testing.T) {
	b := beforeTheFreeze(t)
	b.freeze("acme")
	b.store.SpoilFreeze()
	stored := b.publish("four")
	if !strings.HasPrefix(stored.Release.HeldBack(), "frozen because the record of the freeze cannot be read (it was spoiled)") {
		t.Errorf("it says %q", stored.Release.HeldBack())
	}
	var findings []string
	for f, err := range b.Doctor(t.Context(), registry.DoctorRequest{By: everybody}) {
		if err != nil {
			t.Fatal(err)
		}
		findings = append(findings, f.Key)
	}
	if !slices.Contains(findings, "meta/freeze") {
		t.Errorf("doctor finds %v", findings)
	}
	b.thaw()
	if _, err := b.Delete(t.Context(), registry.DeleteRequest{Write: write(route)}); err != nil {
		t.Error(err)
	}
}

// freezing freezes the registry just before a commit.
type freezing struct {
	*memstore.Store
	before func()
}

func (s *freezing) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Commit(ctx, c)
}

// TestAFreezeWinsTheRace: a write that was decided before the freeze, and is committed after it, is
// decided again.
func TestAFreezeWinsTheRace(t *testing.T) {
	b := newBench(t)
	s := &freezing{Store: b.store}
	recent := registry.NewRecent()
	b.Registry = registry.New(registry.Config{Store: s, Recent: recent, Engines: map[string]engine.Checker{"lua": b.checker}})
	b.publish("one")
	snapshot, err := b.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := registry.State{}
	for r, err := range snapshot.Releases {
		if err != nil {
			t.Fatal(err)
		}
		state.Releases = append(state.Releases, r)
	}
	recent.Reset(state)
	s.before = func() { b.freeze() }
	if r := b.publish("two").Release; r.Active.Number != 1 || !r.Frozen() {
		t.Errorf("v%d is live, frozen %v", r.Active.Number, r.Frozen())
	}
	s.before = func() { b.thaw() }
	if r := b.publish("three").Release; r.Active.Number != 3 {
		t.Errorf("after the thaw v%d is live", r.Active.Number)
	}
}

// TestImportOfWhatWaited: an archive does not tell whether the freeze is over, so that what waited
// is given up.
func TestImportOfWhatWaited(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	b.freeze()
	b.publish("two")
	items, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	if result, err := b.Import(t.Context(), importing(everybody), from(items)); err != nil || result.Unchanged != 1 {
		t.Errorf("imported where it is: %+v, %v", result, err)
	}
	other := newBench(t)
	if _, err := other.Import(t.Context(), importing(everybody), from(items)); err != nil {
		t.Fatal(err)
	}
	r := other.get()
	if r.Active.Number != 1 || r.Frozen() || !strings.Contains(r.Candidate.Failed, "scriptctl rollout retry acme/route") {
		t.Errorf("imported: v%d, %+v", r.Active.Number, r.Candidate)
	}
}
