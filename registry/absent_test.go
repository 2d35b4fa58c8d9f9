package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// creations are the writes that create something, with the revision that they expect, and those that remove it.
func (b *bench) creations() map[string]struct {
	create func(content string, expected script.Revision) error
	remove func() error
} {
	b.t.Helper()
	ctx := b.t.Context()
	type creation = struct {
		create func(content string, expected script.Revision) error
		remove func() error
	}
	return map[string]creation{
		route.String(): {func(content string, expected script.Revision) error {
			w := write(route)
			w.ExpectedRevision = expected
			_, err := b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte(content)})
			return err
		}, func() error { _, err := b.Delete(ctx, registry.DeleteRequest{Write: write(route)}); return err }},
		flag.String(): {func(content string, expected script.Revision) error {
			w := put(flag, content)
			w.ExpectedRevision = expected
			_, _, err := b.PutValue(ctx, w)
			return err
		}, func() error {
			_, err := b.DeleteValue(ctx, registry.DeleteValue{Key: flag, Author: "ann", By: everybody})
			return err
		}},
		"the tenant zoo": {func(content string, expected script.Revision) error {
			settings := script.TenantSettings{Concurrency: len(content)}
			_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "zoo", Settings: &settings, Author: "ann", By: everybody, ExpectedRevision: expected})
			return err
		}, func() error {
			_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "zoo", Author: "ann", By: everybody})
			return err
		}},
	}
}

// TestAbsent: a write that creates is a conflict if there is one, whatever it has, and not if it was removed.
func TestAbsent(t *testing.T) {
	b := newBench(t)
	for what, c := range b.creations() {
		t.Run(what, func(t *testing.T) {
			for round := range 2 {
				if err := c.create("one", script.Absent); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				head := b.head()
				for _, content := range []string{"one", "another"} {
					err := c.create(content, script.Absent)
					wantKind(t, err, script.Conflict, "expected_revision")
					if !strings.Contains(err.Error(), fmt.Sprintf("%s is there already, at revision %d", what, head)) {
						t.Errorf("it says %v", err)
					}
				}
				if b.head() != head {
					t.Error("a refused write changed something")
				}
				if err := c.remove(); err != nil {
					t.Fatal(err)
				}
			}
			wantKind(t, c.create("one", script.Absent-1), script.Invalid, "expected_revision")
		})
	}
}

// TestAbsentAtOnce: of many who create the same at once, one does.
func TestAbsentAtOnce(t *testing.T) {
	b := newBench(t)
	const writers = 8
	for what, c := range b.creations() {
		t.Run(what, func(t *testing.T) {
			errs := make([]error, writers)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() { errs[w] = c.create(strings.Repeat("x", w+1), script.Absent) })
			}
			wg.Wait()
			created := 0
			for _, err := range errs {
				if err == nil {
					created++
					continue
				}
				wantKind(t, err, script.Conflict, "expected_revision")
			}
			if created != 1 {
				t.Errorf("%d of %d created it: %v", created, writers, errs)
			}
		})
	}
}

// TestAbsentAgain: a publish that is sent again, since its answer was lost, has its result.
func TestAbsentAgain(t *testing.T) {
	b := newBench(t)
	create := func(p *registry.PublishRequest) {
		p.ExpectedRevision, p.RequestID = script.Absent, "0123456789abcdef"
	}
	first := b.publish("one", create)
	if again, err := b.tryPublish("one", create); err != nil || again.Release.Revision != first.Release.Revision || again.Version.Number != first.Version.Number {
		t.Errorf("again: %+v, %v; want what came first", again, err)
	}
	_, err := b.tryPublish("one", create, func(p *registry.PublishRequest) { p.RequestID = "fedcba9876543210" })
	wantKind(t, err, script.Conflict, "expected_revision")
}

// TestAbsentChangesNothing: a write that changes or removes what there is cannot ask that there be none, whether there is one or not.
func TestAbsentChangesNothing(t *testing.T) {
	b := newBench(t)
	ctx, none := t.Context(), write(route)
	none.ExpectedRevision = script.Absent
	writes := map[string]func() error{
		"pin":      func() error { _, err := b.Pin(ctx, registry.PinRequest{Write: none}); return err },
		"lift":     func() error { _, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: none}); return err },
		"rollback": func() error { _, err := b.Rollback(ctx, registry.RollbackRequest{Write: none}); return err },
		"disable":  func() error { _, err := b.SetEnabled(ctx, registry.SetEnabledRequest{Write: none}); return err },
		"own":      func() error { _, err := b.SetOwner(ctx, registry.SetOwnerRequest{Write: none}); return err },
		"promote": func() error {
			_, err := b.Steer(ctx, registry.SteerRequest{Write: none, Steering: registry.Promote})
			return err
		},
		"delete": func() error { _, err := b.Delete(ctx, registry.DeleteRequest{Write: none}); return err },
		"delete value": func() error {
			_, err := b.DeleteValue(ctx, registry.DeleteValue{Key: flag, Author: "ann", By: everybody, ExpectedRevision: script.Absent})
			return err
		},
		"unset tenant": func() error {
			_, _, err := b.SetTenant(ctx, registry.SetTenant{Tenant: "zoo", Author: "ann", By: everybody, ExpectedRevision: script.Absent})
			return err
		},
	}
	refused := func(when string) {
		t.Helper()
		head := b.head()
		for what, do := range writes {
			err := do()
			wantKind(t, err, script.Invalid, "expected_revision")
			if !strings.Contains(fmt.Sprint(err), "for a write that creates") {
				t.Errorf("%s %s: %v", what, when, err)
			}
		}
		if b.head() != head {
			t.Errorf("a refused write changed something %s", when)
		}
	}
	refused("before there is one")
	for _, c := range b.creations() {
		if err := c.create("one", script.Absent); err != nil {
			t.Fatal(err)
		}
	}
	refused("while there is one")
	for _, c := range b.creations() {
		if err := c.remove(); err != nil {
			t.Fatal(err)
		}
	}
	refused("after it was removed")
	w := registry.RollbackValue{Key: flag, Author: "ann", By: everybody, ExpectedRevision: script.Absent}
	if _, _, err := b.RollbackValue(ctx, w); err != nil { // brings a value back
		t.Error(err)
	}
	_, _, err := b.RollbackValue(ctx, w)
	wantKind(t, err, script.Conflict, "expected_revision")
}
