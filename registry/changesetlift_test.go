package registry_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// rolledBack returns a registry where the change set cart was live, with the scripts one, two and new, and was
// rolled back.
func rolledBack(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.storeAs("one", "return a", nil)
	b.storeAs("two", "return a", nil)
	b.publishSet(allEnabled(changeSet("cart", "b", nil, "one", "two", "new")))
	if err := rollingSetBack("cart")(b, t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// allEnabled says of all scripts that they are enabled, as manifests do.
func allEnabled(req registry.ChangeSetRequest) registry.ChangeSetRequest {
	for i := range req.Scripts {
		req.Scripts[i].Enabled = new(true)
	}
	return req
}

func lifting(req registry.ChangeSetRequest) registry.ChangeSetRequest {
	req.LiftHold = true
	return req
}

func (b *bench) named(name string) script.Release {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), everybody, named(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) pinNamed(name string, change func(*registry.PinRequest)) {
	b.t.Helper()
	req := registry.PinRequest{Write: write(named(name))}
	change(&req)
	if _, err := b.Pin(b.t.Context(), req); err != nil {
		b.t.Fatal(err)
	}
}

// TestAChangeSetGoesForwardAgain: with LiftHold the holds of a rollback end, and all of it is a candidate in one
// transaction, also where the newest version is what is published. If it fails, what ran before runs on.
func TestAChangeSetGoesForwardAgain(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		value  []registry.StagedContent
		one    uint64 // the candidates of one, and of new
		new    uint64
	}{
		"fixed":                    {"c", nil, 3, 2},
		"the newest version":       {"b", nil, 2, 1},
		"and a value":              {"b", []registry.StagedContent{{Key: "of/cart", Content: []byte("b")}}, 2, 1},
		"what is active, as of v1": {"a", nil, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := rolledBack(t)
			req := lifting(allEnabled(changeSet("cart", c.source, &inStep.Rollout, "one", "two", "new")))
			req.Values = c.value
			result := b.publishSet(req)
			if !result.Changed || len(result.Set.Scripts) != 3 || result.Set.State != script.ChangeSetOnTrial {
				t.Fatalf("%+v", result)
			}
			for _, r := range result.Releases[:2] {
				if r.Hold != nil || r.Pinned || r.Active.Number != 1 || r.Candidate == nil || r.Candidate.Version.Number != c.one || r.Revision != result.Set.Revision {
					t.Errorf("%s: %+v", r.Name, r)
				}
			}
			if r := result.Releases[2]; !r.Untried() || r.Candidate.Version.Number != c.new {
				t.Errorf("what the rollback disabled runs version %d untested: %+v", r.Active.Number, r)
			}
			if again := b.publishSet(req); again.Changed {
				t.Errorf("published again: %+v", again.Set)
			}
			req.LiftHold = false
			if again := b.publishSet(req); again.Changed {
				t.Errorf("published again without LiftHold: %+v", again.Set)
			}
			if err := b.steerNamed("two", registry.Abort); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				if r := b.named(name); r.Active.Number != 1 || r.Candidate.Failed == "" || r.Hold != nil {
					t.Errorf("given up: %s is %+v", name, r)
				}
			}
			if r := b.named("new"); !r.Untried() || r.Candidate.Failed == "" {
				t.Errorf("given up: new runs version %d", r.Active.Number)
			}
		})
	}
}

// TestAChangeSetLiftsHoldsAtOnce: without tests and a plan. Another rollback then goes back to what ran before.
func TestAChangeSetLiftsHoldsAtOnce(t *testing.T) {
	b := rolledBack(t)
	result := b.publishSet(lifting(allEnabled(changeSet("cart", "b", nil, "one", "two", "new"))))
	for i, want := range []uint64{2, 2, 1} {
		if r := result.Releases[i]; r.Hold != nil || r.Active.Number != want || !r.Enabled || r.Candidate != nil || r.Revision != result.Set.Revision {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	if len(result.Set.Scripts) != 3 || result.Set.State != script.ChangeSetLive || b.content("of/cart") != "b" {
		t.Errorf("%+v", result.Set)
	}
	if err := rollingSetBack("cart")(b, t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := b.named("one"); r.Active.Number != 1 || r.Hold == nil {
		t.Errorf("rolled back again: %+v", r)
	}
	if r := b.named("new"); r.Enabled {
		t.Errorf("rolled back again, new runs version %d", r.Active.Number)
	}
}

// TestAHoldOfWhatDoesNotDiffer: a script that is no part of the change set, because it runs this already, is not
// held any more, and runs it still, whatever its publisher pinned meanwhile.
func TestAHoldOfWhatDoesNotDiffer(t *testing.T) {
	for declared := range uint64(3) {
		b := newBench(t)
		b.storeAs("one", "return a", nil)
		b.storeAs("same", "return a", nil)
		b.publish("return b", func(r *registry.PublishRequest) { r.Name, r.Pin = named("same"), &declared })
		b.pinNamed("same", func(r *registry.PinRequest) { r.Version = 2 })
		req := lifting(changeSet("cart", "b", nil, "one", "same"))
		dry := req
		dry.DryRun = true
		if result := b.publishSet(dry); !result.Changed || b.named("same").Hold == nil {
			t.Errorf("declared %d, dry: %+v", declared, result)
		}
		result := b.publishSet(req)
		if r := result.Releases[1]; r.Hold != nil || r.Active.Number != 2 || r.Candidate != nil || r.Pinned != (declared == 2) || len(result.Set.Scripts) != 1 {
			t.Errorf("declared %d: %+v of %+v", declared, r, result.Set)
		}
	}
}

// TestWhoMayLiftTheHoldsOfAChangeSet: it needs the role release if there is a hold. What an owner holds, the owner
// alone releases, as in a publish of one script.
func TestWhoMayLiftTheHoldsOfAChangeSet(t *testing.T) {
	const since = "since 2026-01-01 00:00 UTC"
	own := func(r *registry.PinRequest) { r.Owner, r.Note = cr, "incident 12" }
	anyone := func(*registry.PinRequest) {}
	publisher := func(r *registry.ChangeSetRequest) { r.By = who(t, "pat", "acme", access.Publish) }
	for name, c := range map[string]struct {
		one, owned func(*registry.PinRequest) // nil: nobody holds it
		change     func(*registry.ChangeSetRequest)
		says       string // "": it is published
	}{
		"without a hold": {nil, nil, publisher, ""},
		"a publisher without the role release": {
			anyone, nil, publisher,
			`pat has no role release for the tenant "acme": ask whoever keeps the registry's access policy for it; acme/one is held by ann ` + since + ` ("why"), and --lift-hold needs the role release`,
		},
		"a publisher with the role release": {anyone, nil, func(r *registry.ChangeSetRequest) { r.By = who(t, "pat", "acme", access.Publish, access.Release) }, ""},
		"without LiftHold": {
			anyone, anyone, func(r *registry.ChangeSetRequest) { r.LiftHold = false },
			`acme/one is held at v1 by ann ` + since + ` ("why"); acme/owned is held, too; a change set goes live as a whole: publish it with --lift-hold, which needs the role release`,
		},
		"by its owner": {nil, own, func(*registry.ChangeSetRequest) {}, ""},
		"of an owner, by somebody else": {
			anyone, own, func(r *registry.ChangeSetRequest) { r.Owner = "" },
			`acme/one is held at v1 by ann ` + since + ` ("why"); acme/owned is held, too; a change set goes live as a whole: acme/owned is held for its owner: scriptctl release acme/owned --owner ` + cr + `; then publish it with --lift-hold`,
		},
		"of an owner alone": {
			nil, own, func(r *registry.ChangeSetRequest) { r.Owner = "" },
			`acme/owned is held at v1 by ann ` + since + ` ("incident 12"); a change set goes live as a whole: acme/owned is held for its owner: scriptctl release acme/owned --owner ` + cr + `; then publish it again`,
		},
		"forced": {anyone, own, func(r *registry.ChangeSetRequest) { r.Owner, r.Force = "", true }, ""},
		"forced, without the role": {anyone, own, func(r *registry.ChangeSetRequest) {
			r.Owner, r.Force, r.By = "", true, who(t, "pat", "acme", access.Publish, access.Release)
		}, "no role admin"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.storeAs("one", "return a", nil)
			b.publish("return a", func(r *registry.PublishRequest) { r.Name, r.Owner = named("owned"), cr })
			for name, pin := range map[string]func(*registry.PinRequest){"one": c.one, "owned": c.owned} {
				if pin != nil {
					b.pinNamed(name, pin)
				}
			}
			req := lifting(changeSet("cart", "b", &inStep.Rollout, "one", "owned"))
			req.Owner = cr
			c.change(&req)
			head := b.head()
			_, err := b.PublishChangeSet(t.Context(), req)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"one", "owned"} {
					if r := b.named(name); r.Hold != nil || r.Candidate == nil || r.Active.Number != 1 {
						t.Errorf("%s is %+v", name, r)
					}
				}
				return
			}
			if script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), c.says) || b.head() != head {
				t.Errorf("%v, want\n%s", err, c.says)
			}
		})
	}
}
