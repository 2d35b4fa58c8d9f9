package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

var benchTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // of the bench's clock

// personal publishes a personal version of the script for who.
func (b *bench) personal(of script.Name, who string, opts ...func(*registry.PublishRequest)) (script.Release, error) {
	req := registry.PublishRequest{
		Write: write(script.PersonalName(of, who)), Source: []byte("of " + who), Entrypoint: "handle",
		Settings: &script.Settings{Spec: script.Spec{Personal: &script.Personal{Of: of.Script, Key: who + "-12345678", Until: benchTime.Add(time.Hour)}}},
	}
	for _, opt := range opts {
		opt(&req)
	}
	result, err := b.Publish(b.t.Context(), req)
	return result.Release, err
}

func TestPublishPersonal(t *testing.T) {
	b := newBench(t)
	refused := func(what string, err error, kind script.Kind, text string) {
		t.Helper()
		if script.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want %s: %s", what, err, kind, text)
		}
	}
	_, err := b.personal(route, "ann")
	refused("of nothing", err, script.NotFound, "settings.personal.of: there is no script acme/route: publish it first")
	b.publish("one")
	before := b.get()
	r, err := b.personal(route, "ann")
	if err != nil || r.Settings.Personal == nil || r.Settings.Personal.Key != "ann-12345678" || r.Candidate != nil {
		t.Fatalf("published: %+v, %v", r, err)
	}
	if after := b.get(); after.Revision != before.Revision {
		t.Errorf("the script is %+v, was %+v", after, before)
	}
	_, err = b.personal(r.Name, "bob")
	refused("of a personal version", err, script.Invalid, "acme/route-dev-ann is a personal version itself, of acme/route")
	_, err = b.personal(route, "ann", func(r *registry.PublishRequest) { r.Settings.Personal.Until = benchTime })
	refused("that has expired", err, script.Invalid, "settings.personal.until")
	_, err = b.personal(route, "ann", func(r *registry.PublishRequest) { r.Settings.Rollout = inStep.Rollout })
	refused("with a rollout", err, script.Invalid, "settings.rollout: a personal version has none")
	_, err = b.personal(route, "ann", func(r *registry.PublishRequest) { r.By, r.Source = who(t, "eve", "acme", access.Read), []byte("eve's") })
	refused("without the role", err, script.Denied, "")
	_, err = b.personal(script.Name{Tenant: "acme", Script: "secret"}, "ann", func(r *registry.PublishRequest) { r.By = who(t, "eve", "other", access.Publish) })
	refused("of another tenant", err, script.Denied, "")
	_, err = b.PublishChangeSet(t.Context(), registry.ChangeSetRequest{
		Tenant: "acme", Name: "spring", Author: "ann", By: everybody,
		Scripts: []registry.PublishRequest{{Write: write(r.Name), Source: []byte("x"), Entrypoint: "handle", Settings: &r.Settings}},
	})
	refused("in a change set", err, script.Invalid, "is not for change sets")
	if _, err := b.Publish(t.Context(), registry.PublishRequest{
		Write: write(script.Name{Tenant: "acme", Script: "lib"}), Source: []byte("l"), Settings: &script.Settings{Spec: script.Spec{Library: true}},
	}); err != nil {
		t.Fatal(err)
	}
	_, err = b.personal(script.Name{Tenant: "acme", Script: "lib"}, "ann")
	refused("of a library", err, script.Invalid, "acme/lib is a library")
}

// TestManyPersonal: a script has a bounded number of personal versions. Those that are there can be published again,
// and other scripts do not count, whatever they are called.
func TestManyPersonal(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	if _, err := b.Publish(t.Context(), registry.PublishRequest{Write: write(script.PersonalName(route, "none")), Source: []byte("x"), Entrypoint: "handle"}); err != nil {
		t.Fatal(err)
	}
	for i := range script.MaxPersonal {
		if _, err := b.personal(route, fmt.Sprintf("p%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.personal(route, "one-more"); script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), "acme/route has 32 personal versions") {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.personal(route, "p07", func(r *registry.PublishRequest) { r.Source = []byte("again") }); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestPersonalVersionsExpire: the collector deletes those whose time is over, and no others.
func TestPersonalVersionsExpire(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	for who, lasts := range map[string]time.Duration{"ann": time.Hour, "bob": 2 * time.Hour} {
		if _, err := b.personal(route, who, func(r *registry.PublishRequest) { r.Settings.Personal.Until = benchTime.Add(lasts) }); err != nil {
			t.Fatal(err)
		}
	}
	now := benchTime
	c := registry.NewCollector(registry.CollectorConfig{
		Store: b.store, Garbage: b.store, Expire: b.Expire, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	for _, round := range []struct {
		after time.Duration
		gone  int
		left  string
	}{{0, 0, "acme/route acme/route-dev-ann acme/route-dev-bob"}, {time.Hour, 1, "acme/route acme/route-dev-bob"}, {time.Minute, 0, "acme/route acme/route-dev-bob"}, {time.Hour, 1, "acme/route"}} {
		now = now.Add(round.after)
		done, err := c.Collect(t.Context())
		if err != nil || done.Personal != round.gone {
			t.Errorf("at %v: %+v, %v; want %d gone", now, done, err, round.gone)
		}
		releases, _, err := b.store.Releases(t.Context(), "acme", script.Name{}, 10)
		var names []string
		for i := range releases {
			names = append(names, releases[i].Name.String())
		}
		if left := strings.Join(names, " "); err != nil || left != round.left {
			t.Errorf("at %v there are %s, %v; want %s", now, left, err, round.left)
		}
	}
}

// forgetful is a store that cannot say what a record needs.
type forgetful struct{ registry.Store }

func (forgetful) Remains(context.Context, registry.Unreadable) (registry.Remains, error) {
	return registry.Remains{}, errBroken
}

// TestPersonalExpiresBesideALostRecord: a record that cannot be read stops the collection of sources alone.
func TestPersonalExpiresBesideALostRecord(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	b.storeAs("a-first", "two", nil)
	if _, err := b.personal(route, "ann"); err != nil {
		t.Fatal(err)
	}
	b.store.Spoil("releases/acme/a-first", true)
	if done := b.expired(forgetful{b.store}); done.Personal != 1 {
		t.Errorf("collected %+v", done)
	}
	if r, err := b.store.Release(t.Context(), script.PersonalName(route, "ann")); err == nil && !r.Deleted {
		t.Errorf("it is there: %+v", r)
	}
}

// TestPersonalEndsInAFreeze: a freeze keeps nobody from going back to what all others run.
func TestPersonalEndsInAFreeze(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	r, err := b.personal(route, "ann")
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"bob", "cat"} {
		if _, err := b.personal(route, who); err != nil {
			t.Fatal(err)
		}
	}
	b.freeze()
	if _, err := b.personal(route, "cat", func(r *registry.PublishRequest) { r.Settings.Personal.Until = benchTime.Add(3 * time.Hour) }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Delete(t.Context(), registry.DeleteRequest{Write: write(r.Name)}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if done := b.expired(b.store); done.Personal != 1 {
		t.Errorf("collected %+v, want bob's alone: what was saved of cat's later waits", done)
	}
	if _, err := b.Delete(t.Context(), registry.DeleteRequest{Write: write(route)}); script.KindOf(err) != script.Denied && script.KindOf(err) != script.Conflict {
		t.Errorf("the script is deleted: %v", err)
	}
}

// expired returns what a round of the collector removes when the personal versions have expired.
func (b *bench) expired(s registry.Store) registry.Collected {
	b.t.Helper()
	c := registry.NewCollector(registry.CollectorConfig{
		Store: s, Garbage: b.store, Expire: b.Expire, Clock: func() time.Time { return benchTime.Add(2 * time.Hour) }, Log: slog.New(slog.DiscardHandler),
	})
	done, err := c.Collect(b.t.Context())
	if err != nil {
		b.t.Error(err)
	}
	return done
}

// TestExpireLosesARace: what was published since the collector looked stays.
func TestExpireLosesARace(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	r, err := b.personal(route, "ann")
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.personal(route, "ann", func(r *registry.PublishRequest) { r.Source = []byte("again") })
	if err != nil {
		t.Fatal(err)
	}
	if deleted, err := b.Expire(t.Context(), r.Name, r.Revision); err != nil || deleted {
		t.Errorf("expire: %v, %v", deleted, err)
	}
	if after, err := b.store.Release(t.Context(), r.Name); err != nil || after.Revision != again.Revision {
		t.Errorf("it is %+v, %v", after, err)
	}
}

// TestPersonalNames: no publish takes the name of somebody else's script.
func TestPersonalNames(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	ordinary := func(who string) error {
		_, err := b.Publish(t.Context(), registry.PublishRequest{Write: write(script.PersonalName(route, who)), Source: []byte("x"), Entrypoint: "handle", Settings: &script.Settings{}})
		return err
	}
	if err := ordinary("other"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.personal(route, "ann"); err != nil {
		t.Fatal(err)
	}
	_, toPersonal := b.personal(route, "other")
	_, stolen := b.personal(route, "ann", func(r *registry.PublishRequest) { r.Settings.Personal.Key = "bob-12345678" })
	for what, c := range map[string]struct {
		err  error
		text string
	}{
		"an ordinary script becomes personal": {toPersonal, "acme/route-dev-other is no personal version"},
		"another key":                         {stolen, "acme/route-dev-ann is in use with another key until 2026-01-01T01:00:00Z"},
		"a personal one becomes ordinary":     {ordinary("ann"), "acme/route-dev-ann is a personal version of acme/route"},
	} {
		if script.KindOf(c.err) != script.Conflict || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v, want %s", what, c.err, c.text)
		}
	}
}

// TestWhoDeletesPersonal: whoever publishes personal versions deletes them. All else that is deleted takes an
// administrator, also if its name looks like that of a personal version.
func TestWhoDeletesPersonal(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	other := script.PersonalName(route, "other")
	if _, err := b.Publish(t.Context(), registry.PublishRequest{Write: write(other), Source: []byte("x"), Entrypoint: "handle"}); err != nil {
		t.Fatal(err)
	}
	r, err := b.personal(route, "ann")
	if err != nil {
		t.Fatal(err)
	}
	remove := func(name script.Name, roles ...access.Role) script.Kind {
		w := write(name)
		w.By = who(t, "bob", "acme", roles...)
		_, err := b.Delete(t.Context(), registry.DeleteRequest{Write: w})
		return script.KindOf(err)
	}
	for _, name := range []script.Name{route, other} {
		if kind := remove(name, access.Publish, access.Release); kind != script.Denied {
			t.Errorf("%s is deleted: %v", name, kind)
		}
	}
	if kind := remove(r.Name, access.Read, access.Release); kind != script.Denied {
		t.Errorf("deleted without the role publish: %v", kind)
	}
	if kind := remove(r.Name, access.Publish); kind != "" {
		t.Errorf("not deleted: %v", kind)
	}
}
