package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// running is a script.Settings of a config, tests if there are to be some, and steps.
func running(config string, tests, steps int) script.Settings {
	s := script.Settings{Spec: script.Spec{Config: []byte(config)}}
	for i := range tests {
		s.Tests = append(s.Tests, script.Test{Name: fmt.Sprint("test ", i)})
	}
	for i := range steps {
		s.Rollout.Steps = append(s.Rollout.Steps, script.Step{Percent: 10 * (i + 1)})
	}
	return s
}

// wantRunning checks the active version and the candidate, and the configs of both.
func (b *bench) wantRunning(what string, active uint64, config string, candidate uint64, its string) {
	b.t.Helper()
	r := b.get()
	got := fmt.Sprint(r.Active.Number, " ", string(r.Settings.Config))
	if r.Candidate != nil {
		got += fmt.Sprint(" ", r.Candidate.Version.Number, " ", string(r.Candidate.Spec.Config))
	}
	want := fmt.Sprint(active, " ", config)
	if candidate != 0 {
		want += fmt.Sprint(" ", candidate, " ", its)
	}
	if got != want {
		b.t.Errorf("%s: %s, want %s", what, got, want)
	}
	if r.Active.With(r.Settings.Spec) != r.Active {
		b.t.Errorf("%s: the release does not have what version %d runs with", what, r.Active.Number)
	}
	if c := r.Candidate; c != nil && c.Version.With(c.Spec) != c.Version {
		b.t.Errorf("%s: the release does not have what version %d runs with", what, c.Version.Number)
	}
}

// TestVersionsAreWhole: a change of what a script runs with makes a version, of which a candidate,
// a rollback, a pin, a release and a failure are as of a change of the source.
func TestVersionsAreWhole(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	must := func(_ registry.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const one, two, three = `{"n":1}`, `{"n":2}`, `{"n":3}`
	b.publish("a", settings(running(one, 0, 0)))
	b.wantRunning("first", 1, one, 0, "")
	b.publish("a", settings(running(two, 1, 1)))
	b.wantRunning("another config", 1, one, 2, two)
	if r := b.publish("a", settings(running(two, 1, 1))); r.Changed || r.Version.Number != 2 {
		t.Errorf("the same config again: %+v", r)
	}
	must(b.Steer(ctx, registry.SteerRequest{Write: write(route), Steering: registry.Abort}))
	b.wantRunning("given up", 1, one, 2, two)
	must(b.Steer(ctx, registry.SteerRequest{Write: write(route), Steering: registry.Retry}))
	must(b.Steer(ctx, registry.SteerRequest{Write: write(route), Steering: registry.Promote}))
	b.wantRunning("promoted", 2, two, 0, "")
	b.publish("b", func(r *registry.PublishRequest) { r.Settings = nil })
	b.wantRunning("without settings", 2, two, 3, two)
	must(b.Rollback(ctx, registry.RollbackRequest{Write: write(route), Version: 1}))
	b.wantRunning("rolled back", 1, one, 0, "")
	b.publish("b", settings(running(three, 0, 0)))
	b.wantRunning("stored while held", 1, one, 0, "")
	b.publish("c", func(r *registry.PublishRequest) { r.Settings = nil })
	must(b.Pin(ctx, registry.PinRequest{Write: write(route), Version: 3}))
	b.wantRunning("pinned", 3, two, 0, "")
	must(b.LiftHold(ctx, registry.LiftHoldRequest{Write: write(route)}))
	b.wantRunning("without settings, the newest version's", 5, three, 0, "")

	for number, config := range map[uint64]string{1: one, 2: two, 3: two, 4: three, 5: three} {
		e, err := b.Source(ctx, everybody, route, number)
		if err != nil || string(e.Spec.Config) != config || e.Version.Whole().IsZero() {
			t.Errorf("version %d: %+v, %v", number, e, err)
		}
	}
	lines, err := b.History(ctx, everybody, route)
	if err != nil {
		t.Fatal(err)
	}
	now := b.get()
	for _, line := range lines {
		if v, ok := now.Retains(line.Version); !ok || line.Spec != v.Spec {
			t.Errorf("history: %+v", line)
		}
	}
}

// TestAnotherPlanIsNoVersion: how versions come to the agents, and how many are kept, stays with
// the release.
func TestAnotherPlanIsNoVersion(t *testing.T) {
	b := newBench(t)
	b.publish("a", settings(running(`{"n":1}`, 0, 0)))
	other := running(`{"n":1}`, 0, 2)
	other.HistoryLimit = 5
	if r := b.publish("a", settings(other)); !r.Changed || r.Version.Number != 1 || len(r.Release.Settings.Rollout.Steps) != 2 || r.Release.Settings.HistoryLimit != 5 {
		t.Errorf("%+v", r)
	}
}

// before has the store have what a registry from before versions had settings of their own has
// left of the script.
func (b *bench) before() {
	b.t.Helper()
	items, err := b.export(everybody, "")
	if err != nil {
		b.t.Fatal(err)
	}
	rec := *items[len(items)-1].Record
	strip := func(v script.Version) script.Version { v.Spec, v.SpecSize = script.Digest{}, 0; return v }
	for i := range rec.Versions {
		rec.Versions[i], rec.Release.Retained[i] = strip(rec.Versions[i]), strip(rec.Release.Retained[i])
	}
	rec.Release.Active = strip(rec.Release.Active)
	_, err = b.store.Restore(b.t.Context(), registry.Restoration{
		Guard: b.get().Revision, Release: rec.Release, Version: rec.Versions, History: rec.History,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestVersionsOfBefore: versions that an older registry has left run with what the script ran
// with then, whatever is published since.
func TestVersionsOfBefore(t *testing.T) {
	const old = `{"of":"before"}`
	for what, do := range map[string]func(b *bench) error{
		"published": func(b *bench) error {
			b.publish("c", settings(running(`{"of":"now"}`, 0, 0)))
			b.wantRunning("published", 3, `{"of":"now"}`, 0, "")
			_, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)})
			b.wantRunning("rolled back", 2, old, 0, "")
			return err
		},
		"another config": func(b *bench) error {
			b.publish("b", settings(running(`{"of":"now"}`, 0, 1)))
			b.wantRunning("published", 2, old, 3, `{"of":"now"}`)
			return nil
		},
		"the same again": func(b *bench) error {
			if r := b.publish("b", settings(running(old, 0, 0))); r.Version.Number != 2 {
				t.Errorf("%+v", r)
			}
			return nil
		},
		"rolled back": func(b *bench) error {
			_, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)})
			b.wantRunning("rolled back", 1, old, 0, "")
			return err
		},
		"imported again": func(b *bench) error {
			items, err := b.export(everybody, "")
			if err != nil {
				return err
			}
			into := newBench(t)
			if _, err = into.Import(t.Context(), importing(everybody), from(items)); err != nil {
				return err
			}
			into.publish("c", settings(running(`{"of":"now"}`, 0, 0)))
			_, err = into.Pin(t.Context(), registry.PinRequest{Write: write(route), Version: 1})
			into.wantRunning("pinned", 1, old, 0, "")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.publish("a", settings(running(old, 0, 0)))
			b.publish("b")
			b.before()
			if e, err := b.Source(t.Context(), everybody, route, 1); err != nil || string(e.Spec.Config) != old {
				t.Errorf("version 1: %+v, %v", e, err)
			}
			if err := do(b); err != nil {
				t.Fatal(err)
			}
			// What the versions need is kept.
			c := registry.NewCollector(registry.CollectorConfig{Store: b.store, Garbage: b.store, Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return time.Unix(1<<40, 0) }})
			for range 3 {
				if _, err := c.Collect(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.Source(t.Context(), everybody, route, 1); err != nil {
				t.Errorf("version 1 after a collection: %v", err)
			}
		})
	}
}

// TestARecordMadeOfItsVersions: a release that is made of what is left has what its active version
// runs with, which the store keeps beside the sources.
func TestARecordMadeOfItsVersions(t *testing.T) {
	const config = `{"n":1}`
	for what, do := range map[string]func(f *fleetOf) error{
		"repaired": func(f *fleetOf) error {
			f.doctor(true, false)
			return nil
		},
		"published": func(f *fleetOf) error {
			w := write(route)
			w.Force = true
			_, err := f.Publish(t.Context(), registry.PublishRequest{Write: w, Source: []byte("another")})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFleetOf(t)
			f.spoil("releases/" + route.String())
			if err := do(f); err != nil {
				t.Fatal(err)
			}
			r, err := f.Get(t.Context(), everybody, route)
			if err != nil || string(r.Settings.Config) != config || r.Active.With(r.Settings.Spec) != r.Active {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	t.Run("lost", func(t *testing.T) { // then it runs with the defaults, and says so
		f := newFleetOf(t)
		last := f.before["releases/"+route.String()][1].Release
		f.store.lost[last.Active.Spec] = true
		f.spoil("releases/" + route.String())
		f.doctor(true, false)
		r, err := f.Get(t.Context(), everybody, route)
		if err != nil || r.Settings.Config != nil || r.Active.With(r.Settings.Spec) != r.Active {
			t.Errorf("%+v, %v", r, err)
		}
		if found := f.doctor(true, false); len(found) != 0 {
			t.Errorf("after the repair: %+v", found)
		}
		if e, err := f.Source(t.Context(), everybody, route, 1); err != nil || string(e.Spec.Config) != `{"n":0}` {
			t.Errorf("version 1: %+v, %v", e, err)
		}
	})
}

// TestDoctorKnowsWhatRuns: what the active version and the candidate run with is in the release
// too, which a lost document is made of; that of another version is named as what is lost.
func TestDoctorKnowsWhatRuns(t *testing.T) {
	f := newFleetOf(t)
	other := running(`{"n":3}`, 1, 1)
	if _, err := f.Publish(t.Context(), registry.PublishRequest{Write: write(route), Source: []byte("source 2"), Settings: &other}); err != nil {
		t.Fatal(err)
	}
	r, err := f.Get(t.Context(), everybody, route)
	if err != nil || len(r.Retained) != 3 {
		t.Fatal(r, err)
	}
	for _, v := range r.Retained {
		f.store.lost[v.Spec] = true
	}
	found := f.doctor(true, false)
	for i, v := range r.Retained {
		if one := found["sources/"+v.Spec.String()]; one.Repaired != (i > 0) || one.Reason == "" {
			t.Errorf("version %d: %+v", v.Number, one)
		}
	}
	_, err = f.Rollback(t.Context(), registry.RollbackRequest{Write: write(route), Version: 1})
	if script.KindOf(err) != script.Internal || !strings.Contains(err.Error(), "doctor") {
		t.Errorf("a rollback to what is lost: %v", err)
	}
}
