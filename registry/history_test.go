package registry_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestHistory(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one")
	b.publish("two")
	b.publish("two", pin(1))
	b.publish("two", pin(0))
	must := func(_ registry.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Rollback(ctx, registry.RollbackRequest{Write: write(route)}))
	must(b.LiftHold(ctx, registry.LiftHoldRequest{Write: write(route)}))
	must(b.Pin(ctx, registry.PinRequest{Write: write(route), Version: 1}))
	must(b.SetEnabled(ctx, registry.SetEnabledRequest{Write: write(route)}))
	must(b.SetEnabled(ctx, registry.SetEnabledRequest{Write: write(route), Enabled: true}))
	must(b.configure(write(route), script.Settings{HistoryLimit: 2}))
	must(b.Delete(ctx, registry.DeleteRequest{Write: write(route)}))

	entries, err := b.History(ctx, everybody, route)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %d %v %v", e.Change, e.Version, e.Pinned, e.Held))
		if e.Author != "ann" || e.Note != "why" || e.Time.IsZero() || e.Revision == 0 {
			t.Errorf("entry: %+v", e)
		}
	}
	want := []string{
		"delete 0 false false", "configure 1 true true", "enable 1 true true", "disable 1 true true", "pin 1 true true", "release 2 false false",
		"rollback 1 true true", "unpin 2 false false", "pin 1 true false", "publish 2 false false", "publish 1 false false",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("history:\n got %v\nwant %v", got, want)
	}
	_, err = b.History(ctx, everybody, script.Name{Tenant: "acme", Script: "never"})
	wantKind(t, err, script.NotFound, "name")
}

func TestExpectedRevision(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	first := b.publish("one").Release
	second := b.publish("two", func(r *registry.PublishRequest) { r.ExpectedRevision = first.Revision }).Release
	stale := write(route)
	stale.ExpectedRevision = first.Revision
	for name, do := range map[string]func() error{
		"publish": func() error {
			_, err := b.Publish(ctx, registry.PublishRequest{Write: stale, Source: []byte("three")})
			return err
		},
		"pin":       func() error { _, err := b.Pin(ctx, registry.PinRequest{Write: stale, Version: 1}); return err },
		"release":   func() error { _, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: stale}); return err },
		"rollback":  func() error { _, err := b.Rollback(ctx, registry.RollbackRequest{Write: stale}); return err },
		"disable":   func() error { _, err := b.SetEnabled(ctx, registry.SetEnabledRequest{Write: stale}); return err },
		"configure": func() error { _, err := b.configure(stale, script.Settings{}); return err },
		"delete":    func() error { _, err := b.Delete(ctx, registry.DeleteRequest{Write: stale}); return err },
	} {
		if err := do(); script.KindOf(err) != script.Conflict {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	never := write(script.Name{Tenant: "acme", Script: "never"})
	never.ExpectedRevision = 1
	_, err := b.Publish(ctx, registry.PublishRequest{Write: never, Source: []byte("x")})
	wantKind(t, err, script.Conflict, "expected_revision")
	if got := b.get(); !reflect.DeepEqual(got, second) {
		t.Errorf("after conflicts: %+v, want %+v", got, second)
	}
}

// TestConcurrentPublish: no publish is lost, and numbers have no gaps, whatever
// many do at once.
func TestConcurrentPublish(t *testing.T) {
	b := newBench(t)
	const writers, each = 8, 25
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]string{}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				source := fmt.Sprintf("writer %d, %d", w, i)
				result, err := b.tryPublish(source)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if other, twice := seen[result.Version.Number]; twice {
					t.Errorf("version %d is both %q and %q", result.Version.Number, other, source)
				}
				seen[result.Version.Number] = source
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	latest := b.get().Latest
	if latest != writers*each || len(seen) != writers*each {
		t.Errorf("latest is %d, %d numbers were given; want %d", latest, len(seen), writers*each)
	}
	for _, v := range b.get().Retained {
		if want := script.DigestOf([]byte(seen[v.Number])); v.Digest != want {
			t.Errorf("version %d has %s, its publish had %s", v.Number, v.Digest.Short(), want.Short())
		}
	}
}

func TestList(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	big := script.Settings{Spec: script.Spec{Config: fmt.Appendf(nil, `{"k":%q}`, strings.Repeat("x", 60<<10))}}
	for i := range 70 {
		name := script.Name{Tenant: "acme", Script: fmt.Sprintf("s%02d", i)}
		if _, err := b.Publish(ctx, registry.PublishRequest{Write: write(name), Source: []byte("x"), Settings: &big}); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{0, 1, 7, 70, 5000} {
		var names []string
		token, pages := "", 0
		for {
			page, err := b.List(ctx, registry.ListRequest{By: everybody, Tenant: "acme", PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			bytes := 0
			for _, r := range page.Releases {
				names = append(names, r.Name.Script)
				bytes += len(r.Settings.Config)
			}
			if bytes > 3<<20 {
				t.Errorf("a page of %d bytes", bytes)
			}
			pages++
			if token = page.NextPageToken; token == "" {
				break
			}
		}
		if len(names) != 70 || names[0] != "s00" || names[69] != "s69" {
			t.Errorf("pages of %d: %d names in %d pages", size, len(names), pages)
		}
	}
	for field, req := range map[string]registry.ListRequest{
		"tenant":     {Tenant: "No"},
		"page_size":  {PageSize: -1},
		"page_token": {Tenant: "acme", PageToken: "other/s1"},
	} {
		req.By = everybody
		_, err := b.List(ctx, req)
		wantKind(t, err, script.Invalid, field)
	}
	_, err := b.List(ctx, registry.ListRequest{By: everybody, PageToken: "\x00"})
	wantKind(t, err, script.Invalid, "page_token")
}

func TestOutcomes(t *testing.T) {
	counts := map[string]int{}
	r := registry.New(registry.Config{
		Store: memstore.New(), Engines: map[string]engine.Checker{"lua": &checker{}},
		OnWrite: func(change script.Change, outcome registry.Outcome) { counts[fmt.Sprintf("%s %s", change, outcome)]++ },
	})
	ctx := context.Background()
	for _, source := range []string{"one", "one", "broken", ""} {
		_, _ = r.Publish(ctx, registry.PublishRequest{Write: write(route), Source: []byte(source)})
	}
	conflict := write(route)
	conflict.ExpectedRevision = 99
	_, _ = r.Delete(ctx, registry.DeleteRequest{Write: conflict})
	want := map[string]int{"publish changed": 1, "publish unchanged": 1, "publish refused": 2, "delete conflict": 1}
	if !reflect.DeepEqual(counts, want) {
		t.Errorf("got %v, want %v", counts, want)
	}
}
