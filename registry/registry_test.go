package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// checker refuses sources that contain "broken", and counts what it checked.
type checker struct {
	mu      sync.Mutex
	checked int
}

func (c *checker) Name() string { return "lua" }

func (c *checker) Check(src engine.Source) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked++
	if bytes.Contains(src.Code, []byte("broken")) {
		return &script.Error{Kind: script.Script, Message: "unexpected symbol near 'broken'", Line: 2, Column: 5}
	}
	return nil
}

var route = script.Name{Tenant: "acme", Script: "route"}

// everybody may everything.
var everybody = access.Everybody("unix")

// bench is a registry with what tests need around it.
type bench struct {
	*registry.Registry
	t       *testing.T
	store   *memstore.Store
	checker *checker
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, store: memstore.New(), checker: &checker{}}
	b.Registry = registry.New(registry.Config{
		Store:   b.store,
		Engines: map[string]engine.Checker{"lua": b.checker, "other": &checker{}},
		Clock:   func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
	})
	return b
}

func write(name script.Name) registry.Write {
	return registry.Write{Name: name, Author: "ann", Note: "why", By: everybody}
}

// configure publishes the newest source once more, with the settings.
func (b *bench) configure(w registry.Write, s script.Settings) (registry.Result, error) {
	b.t.Helper()
	r := b.get()
	e, err := b.Source(b.t.Context(), everybody, w.Name, r.Retained[len(r.Retained)-1].Number)
	if err != nil {
		return registry.Result{}, err
	}
	result, err := b.Publish(b.t.Context(), registry.PublishRequest{Write: w, Source: e.Source, Entrypoint: e.Entrypoint, Settings: &s})
	return registry.Result{Release: result.Release, Changed: result.Changed}, err
}

// publish publishes source and returns the release.
func (b *bench) publish(source string, opts ...func(*registry.PublishRequest)) registry.PublishResult {
	b.t.Helper()
	result, err := b.tryPublish(source, opts...)
	if err != nil {
		b.t.Fatalf("publish %q: %v", source, err)
	}
	return result
}

func (b *bench) tryPublish(source string, opts ...func(*registry.PublishRequest)) (registry.PublishResult, error) {
	req := registry.PublishRequest{Write: write(route), Source: []byte(source), Entrypoint: "handle"}
	for _, opt := range opts {
		opt(&req)
	}
	return b.Publish(b.t.Context(), req)
}

func pin(n uint64) func(*registry.PublishRequest) {
	return func(r *registry.PublishRequest) { r.Pin = &n }
}

func settings(s script.Settings) func(*registry.PublishRequest) {
	return func(r *registry.PublishRequest) { r.Settings = &s }
}

func (b *bench) get() script.Release {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), everybody, route)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) head() script.Revision {
	b.t.Helper()
	head, err := b.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return head
}

func retained(r script.Release) []uint64 {
	var numbers []uint64
	for _, v := range r.Retained {
		numbers = append(numbers, v.Number)
	}
	return numbers
}

// wantRelease checks what matters of a release: "active/latest pinned".
func wantRelease(t *testing.T, r script.Release, active, latest uint64, pinned bool) {
	t.Helper()
	if r.Active.Number != active || r.Latest != latest || r.Pinned != pinned {
		t.Errorf("active %d, latest %d, pinned %v; want %d, %d, %v", r.Active.Number, r.Latest, r.Pinned, active, latest, pinned)
	}
}

func wantKind(t *testing.T, err error, kind script.Kind, field string) {
	t.Helper()
	e, _ := errors.AsType[*script.Error](err)
	if e == nil || e.Kind != kind || e.Field != field {
		t.Errorf("got error %#v, want %s at %q", err, kind, field)
	}
}

func TestPublish(t *testing.T) {
	b := newBench(t)
	first := b.publish("one")
	if !first.Changed || !first.Release.Enabled || first.Release.Revision == 0 {
		t.Errorf("first: %+v", first)
	}
	wantRelease(t, first.Release, 1, 1, false)
	if v := first.Version; v.Number != 1 || v.Author != "ann" || v.Note != "why" || v.Digest != script.DigestOf([]byte("one")) || v.Size != 3 {
		t.Errorf("version: %+v", v)
	}
	if v := first.Release.Active; v.Author != "" || v.Note != "" {
		t.Errorf("the release carries author %q and note %q with every event", v.Author, v.Note)
	}
	second := b.publish("two")
	wantRelease(t, second.Release, 2, 2, false)
	if got := b.get(); !reflect.DeepEqual(got, second.Release) {
		t.Errorf("Get: %+v, publish returned %+v", got, second.Release)
	}
	for number, want := range map[uint64]string{0: "two", 1: "one", 2: "two"} {
		v, err := b.Source(t.Context(), everybody, route, number)
		if err != nil || string(v.Source) != want || v.Author != "ann" {
			t.Errorf("Source %d: %+v, %q, %v; want %q", number, v.Version, v.Source, err, want)
		}
	}
	_, err := b.Source(t.Context(), everybody, route, 3)
	wantKind(t, err, script.NotFound, "version")
}

func TestPublishIsIdempotent(t *testing.T) {
	b := newBench(t)
	config := script.Settings{Spec: script.Spec{Config: []byte(` { "a" : 1 } `), Limits: script.Limits{Instructions: 5}}}
	first := b.publish("one", settings(config))
	same := script.Settings{Spec: script.Spec{Config: []byte(`{"a":1}`), Limits: script.Limits{Instructions: 5}}}
	enabled := true
	for name, opts := range map[string][]func(*registry.PublishRequest){
		"plain":           nil,
		"settings":        {settings(same)},
		"follow latest":   {pin(0)},
		"enabled":         {func(r *registry.PublishRequest) { r.Enabled = &enabled }},
		"another author":  {func(r *registry.PublishRequest) { r.Author, r.Note = "bob", "again" }},
		"expected":        {func(r *registry.PublishRequest) { r.ExpectedRevision = first.Release.Revision }},
		"engine is named": {func(r *registry.PublishRequest) { r.Engine = "lua" }},
	} {
		again := b.publish("one", opts...)
		if again.Changed || again.Release.Revision != first.Release.Revision || again.Version != first.Version {
			t.Errorf("%s: %+v; want nothing changed", name, again)
		}
	}
	if b.head() != first.Release.Revision || b.checker.checked != 1 {
		t.Errorf("head %d, checked %d times; want one write and one check", b.head(), b.checker.checked)
	}
	b.publish("two")
	back := b.publish("one")
	if !back.Changed || back.Version.Number != 3 {
		t.Errorf("the source of version 1 again: %+v; the latest is another, so it is version 3", back.Version)
	}
	for name, opt := range map[string]func(*registry.PublishRequest){
		"entrypoint": func(r *registry.PublishRequest) { r.Entrypoint = "" },
		"engine":     func(r *registry.PublishRequest) { r.Engine = "other" },
	} {
		before := b.get().Latest
		if other := b.publish("one", opt); other.Version.Number != before+1 {
			t.Errorf("another %s: version %d, want %d", name, other.Version.Number, before+1)
		}
	}
}

func TestPublishChecksFirst(t *testing.T) {
	b := newBench(t)
	_, err := b.tryPublish("broken")
	e, _ := errors.AsType[*script.Error](err)
	if e == nil || e.Kind != script.Script || e.Line != 2 || e.Column != 5 || e.Field != "source" {
		t.Errorf("got %#v, want where it does not compile", err)
	}
	_, err = b.Get(t.Context(), everybody, route)
	wantKind(t, err, script.NotFound, "name")
	_, err = b.store.Source(t.Context(), script.DigestOf([]byte("broken")))
	wantKind(t, err, script.NotFound, "digest")

	good := b.publish("one").Release
	if _, err = b.tryPublish("broken"); err == nil {
		t.Error("broken was accepted")
	}
	if got := b.get(); !reflect.DeepEqual(got, good) {
		t.Errorf("after a refusal: %+v, want %+v", got, good)
	}
}

func TestPublishSettings(t *testing.T) {
	b := newBench(t)
	b.publish("one", settings(script.Settings{Spec: script.Spec{Trigger: script.Trigger{Event: "http-request"}, Config: []byte(`{}`)}}))
	kept := b.publish("two").Release
	if kept.Settings.Trigger.Event != "http-request" || kept.Settings.Config != nil {
		t.Errorf("settings that were not given: %+v; want them kept", kept.Settings)
	}
	changed := b.publish("two", settings(script.Settings{HistoryLimit: 4}))
	if !changed.Changed || changed.Version.Number != 3 || changed.Release.Settings.HistoryLimit != 4 || changed.Release.Settings.Trigger.Event != "" {
		t.Errorf("new settings for an old source: %+v", changed)
	}
	off := false
	disabled := b.publish("two", func(r *registry.PublishRequest) { r.Enabled = &off })
	if disabled.Release.Enabled || !disabled.Changed {
		t.Errorf("disabled: %+v", disabled)
	}
	if next := b.publish("three"); next.Release.Enabled {
		t.Error("a publish that says nothing of it enabled the script")
	}
}

func TestDryRun(t *testing.T) {
	b := newBench(t)
	dry := func(r *registry.PublishRequest) { r.DryRun = true }
	would := b.publish("one", dry)
	if !would.Changed || would.Version.Number != 1 || would.Release.Active.Number != 1 {
		t.Errorf("dry run: %+v", would)
	}
	if _, err := b.tryPublish("broken", dry); script.KindOf(err) != script.Script {
		t.Errorf("dry run of what does not compile: %v", err)
	}
	if b.head() != 0 {
		t.Error("a dry run was stored")
	}
	b.publish("one")
	if again := b.publish("one", dry); again.Changed {
		t.Errorf("dry run of what is there: %+v", again)
	}
}

func TestPublishWithPin(t *testing.T) {
	b := newBench(t)
	wantRelease(t, b.publish("one", pin(1)).Release, 1, 1, true) // the version that it makes
	wantRelease(t, b.publish("two").Release, 1, 2, true)         // a pin holds
	wantRelease(t, b.publish("three", pin(3)).Release, 3, 3, true)
	wantRelease(t, b.publish("three", pin(1)).Release, 1, 3, true) // nothing new but the pin
	if again := b.publish("three", pin(1)); again.Changed {
		t.Errorf("the same pin again: %+v", again)
	}
	wantRelease(t, b.publish("three", pin(0)).Release, 3, 3, false)
	wantRelease(t, b.publish("four", pin(2)).Release, 2, 4, true)

	head := b.head()
	_, err := b.tryPublish("five", pin(6))
	wantKind(t, err, script.NotFound, "pin")
	if b.head() != head || b.get().Latest != 4 {
		t.Error("a publish with an unknown pin was stored")
	}
	other := newBench(t)
	_, err = other.tryPublish("one", pin(2))
	wantKind(t, err, script.NotFound, "pin")
}

func TestPinRollbackRelease(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	for _, source := range []string{"one", "two", "three"} {
		b.publish(source)
	}
	check := func(r registry.Result, err error) func(active, latest uint64, pinned, changed bool) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return func(active, latest uint64, pinned, changed bool) {
			t.Helper()
			wantRelease(t, r.Release, active, latest, pinned)
			if r.Changed != changed {
				t.Errorf("changed %v, want %v", r.Changed, changed)
			}
		}
	}
	doPin := func(n uint64) (registry.Result, error) {
		return b.Pin(ctx, registry.PinRequest{Write: write(route), Version: n})
	}
	release := func() (registry.Result, error) {
		return b.LiftHold(ctx, registry.LiftHoldRequest{Write: write(route)})
	}
	rollback := func(n uint64) (registry.Result, error) {
		return b.Rollback(ctx, registry.RollbackRequest{Write: write(route), Version: n})
	}
	check(release())(3, 3, false, false)
	check(doPin(3))(3, 3, true, true)
	check(doPin(3))(3, 3, true, false)
	check(rollback(0))(2, 3, true, true)
	check(rollback(0))(2, 3, true, false) // somebody has done so already
	check(rollback(1))(1, 3, true, true)
	check(rollback(0))(1, 3, true, false)
	check(doPin(2))(2, 3, true, true)
	check(rollback(0))(1, 3, true, true) // a pin is no rollback
	check(doPin(3))(3, 3, true, true)
	check(doPin(1))(1, 3, true, true)
	_, err := rollback(0)
	wantKind(t, err, script.NotFound, "version")
	check(rollback(1))(1, 3, true, false)
	_, err = rollback(2)
	wantKind(t, err, script.Invalid, "version")
	check(release())(3, 3, false, true)
	check(rollback(0))(1, 3, true, true) // what ran last before
	check(release())(3, 3, false, true)
	check(rollback(1))(1, 3, true, true)

	check(doPin(0))(1, 3, true, false)
	_, err = doPin(4)
	wantKind(t, err, script.NotFound, "version")
	_, err = rollback(99)
	wantKind(t, err, script.NotFound, "version")
}

func TestHistoryLimit(t *testing.T) {
	b := newBench(t)
	limit := settings(script.Settings{HistoryLimit: 3})
	b.publish("v1", limit, pin(1))
	for i := 2; i <= 6; i++ {
		b.publish(fmt.Sprintf("v%d", i))
	}
	if got := retained(b.get()); fmt.Sprint(got) != "[1 5 6]" {
		t.Errorf("retained %v; want the pinned 1 and the newest", got)
	}
	_, err := b.store.Version(t.Context(), route, 4)
	wantKind(t, err, script.NotFound, "version")
	_, err = b.Pin(t.Context(), registry.PinRequest{Write: write(route), Version: 4})
	wantKind(t, err, script.NotFound, "version")
	if !strings.Contains(err.Error(), "1, 5, 6") {
		t.Errorf("%q does not say what is retained", err)
	}
	b.publish("v7", pin(0))
	if got := retained(b.get()); fmt.Sprint(got) != "[5 6 7]" {
		t.Errorf("retained %v; want the newest three", got)
	}
	if _, err := b.configure(write(route), script.Settings{HistoryLimit: 1}); err != nil {
		t.Fatal(err)
	}
	if got := retained(b.get()); fmt.Sprint(got) != "[7]" {
		t.Errorf("retained %v; want the active alone", got)
	}
	for i := 8; i <= 10; i++ {
		b.publish(fmt.Sprintf("v%d", i), pin(7))
	}
	if got := retained(b.get()); fmt.Sprint(got) != "[7 10]" {
		t.Errorf("retained %v; want the active and the latest, whatever the limit", got)
	}
}

func TestDeleteAndMakeAgain(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one", settings(script.Settings{HistoryLimit: 7}))
	b.publish("two", pin(1))
	deleted, err := b.Delete(ctx, registry.DeleteRequest{Write: write(route)})
	if err != nil || !deleted.Release.Deleted || deleted.Release.Latest != 2 || deleted.Release.Revision == 0 {
		t.Fatalf("Delete: %+v, %v", deleted, err)
	}
	_, err = b.Get(ctx, everybody, route)
	wantKind(t, err, script.NotFound, "name")
	_, err = b.Delete(ctx, registry.DeleteRequest{Write: write(route)})
	wantKind(t, err, script.NotFound, "name")
	_, err = b.Pin(ctx, registry.PinRequest{Write: write(route), Version: 1})
	wantKind(t, err, script.NotFound, "name")
	_, err = b.Source(ctx, everybody, route, 1)
	wantKind(t, err, script.NotFound, "name")

	again := b.publish("two")
	wantRelease(t, again.Release, 3, 3, false)
	if again.Release.Settings.HistoryLimit != 0 || !again.Changed || len(again.Release.Retained) != 1 {
		t.Errorf("made again: %+v; want a new script that goes on counting", again.Release)
	}
}

func TestEnableConfigure(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one")
	for _, step := range []struct{ enabled, changed bool }{{true, false}, {false, true}, {false, false}, {true, true}} {
		r, err := b.SetEnabled(ctx, registry.SetEnabledRequest{Write: write(route), Enabled: step.enabled})
		if err != nil || r.Release.Enabled != step.enabled || r.Changed != step.changed {
			t.Errorf("SetEnabled %v: %+v, %v", step.enabled, r, err)
		}
	}
	want := script.Settings{Spec: script.Spec{Limits: script.Limits{Timeout: time.Second}, Config: []byte(`{"k":[1,2]}`)}}
	for _, changed := range []bool{true, false} {
		r, err := b.configure(write(route), want)
		if err != nil || r.Changed != changed || !reflect.DeepEqual(r.Release.Settings, want) {
			t.Errorf("Configure: %+v, %v", r, err)
		}
	}
}
