package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// changeSet is one of scripts of acme, and of a value of its name.
func changeSet(name, source string, plan *script.Plan, scripts ...string) registry.ChangeSetRequest {
	req := registry.ChangeSetRequest{
		Tenant: "acme", Name: name, Plan: plan, Author: "ann", Note: "why", By: everybody,
		Values: []registry.StagedContent{{Key: "of/" + name, Content: []byte(source)}},
	}
	for _, s := range scripts {
		req.Scripts = append(req.Scripts, registry.PublishRequest{Write: registry.Write{Name: named(s)}, Source: []byte("return " + source), Entrypoint: registry.DefaultEntrypoint})
	}
	return req
}

func (b *bench) publishSet(req registry.ChangeSetRequest) registry.ChangeSetResult {
	b.t.Helper()
	result, err := b.PublishChangeSet(b.t.Context(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func publishingSet(req registry.ChangeSetRequest) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.PublishChangeSet(ctx, req)
		return err
	}
}

func rollingSetBack(name string) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		_, err := b.RollbackChangeSet(ctx, registry.ChangeSetRollback{Tenant: "acme", Name: name, Author: "ann", By: everybody})
		return err
	}
}

// movingSet makes a move of the change set trial.
func movingSet(move registry.Move) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		r, err := b.Get(ctx, everybody, named("of-trial"))
		if err != nil {
			return err
		}
		return b.AdvanceSet(ctx, registry.AdvanceSetRequest{
			Tenant: "acme", Set: r.Candidate.Set, Moves: []registry.AdvanceRequest{{Name: r.Name, At: r.Revision, Move: move}},
		})
	}
}

// content returns what the value has; "" if there is none.
func (b *bench) content(key string) string {
	b.t.Helper()
	_, content, err := b.Value(b.t.Context(), everybody, script.ValueKey{Tenant: "acme", Key: key}, 0)
	if err != nil && script.KindOf(err) != script.NotFound {
		b.t.Fatal(err)
	}
	return string(content)
}

// TestAChangeSetIsOneTransaction: without tests and a plan, all of it is live in one transaction. What does
// not differ is no part of it.
func TestAChangeSetIsOneTransaction(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.storeAs("same", "return b", nil)
	result := b.publishSet(changeSet("cart", "b", nil, "one", "same", "new"))
	set := result.Set
	if set.State != script.ChangeSetLive || len(set.Scripts) != 2 || set.Scripts[0].Name != "new" || set.Scripts[1] != (script.ChangedScript{Name: "one", Version: 2, Digest: script.DigestOf([]byte("return b")), Before: 1}) {
		t.Errorf("the change set is %+v", set)
	}
	if len(set.Values) != 1 || set.Values[0].Version != 1 || set.Values[0].Before != 0 || b.content("of/cart") != "b" {
		t.Errorf("the values are %+v, and the content is %q", set.Values, b.content("of/cart"))
	}
	for i, want := range []uint64{2, 1, 1} {
		if r := result.Releases[i]; r.Active.Number != want || r.Candidate != nil || i != 1 && r.Revision != set.Revision {
			t.Errorf("%s runs version %d at revision %d, want %d at %d", r.Name, r.Active.Number, r.Revision, want, set.Revision)
		}
	}
	again := b.publishSet(changeSet("cart", "b", nil, "one", "same", "new"))
	if again.Changed || again.Set.Revision != set.Revision {
		t.Errorf("the same again: %+v", again)
	}
	entries, err := b.History(t.Context(), everybody, named("one"))
	if err != nil || entries[0].Note != "change set cart: why" || entries[0].Author != "ann" {
		t.Errorf("the history begins with %+v, %v", entries, err)
	}
}

// TestAValueIsNotLiveUntested: where a value alone changes, the scripts that have tests get a version which
// is tested with it.
func TestAValueIsNotLiveUntested(t *testing.T) {
	b := newBench(t)
	req := changeSet("cart", "a", nil, "one")
	req.Scripts[0].Settings = tested
	b.publishSet(req)
	r, err := b.Get(t.Context(), everybody, named("one"))
	if err != nil || !r.Untried() || b.content("of/cart") != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := b.Steer(t.Context(), registry.SteerRequest{Write: write(named("one")), Steering: registry.Promote}); err != nil {
		t.Fatal(err)
	}
	req.Values[0].Content = []byte("other")
	result := b.publishSet(req)
	if len(result.Set.Scripts) != 1 || result.Set.Scripts[0].Version != 2 || result.Set.State != script.ChangeSetOnTrial || b.content("of/cart") != "a" {
		t.Errorf("%+v, and the value is %q", result.Set, b.content("of/cart"))
	}
	c := result.Releases[0].Candidate
	if v, ok := c.Set.Staged("of/cart"); !ok || v.Digest != script.DigestOf([]byte("other")) {
		t.Errorf("the candidate is %+v", c)
	}
}

// TestChangeSetsThatAreRefused: nothing of them is stored.
func TestChangeSetsThatAreRefused(t *testing.T) {
	pinned := uint64(3)
	other := script.Plan{Steps: []script.Step{{Percent: 20}}}
	many := make([]string, script.MaxChangeSetScripts+1)
	for i := range many {
		many[i] = fmt.Sprint("s", i)
	}
	for name, c := range map[string]struct {
		change func(req *registry.ChangeSetRequest)
		kind   script.Kind
		text   string
	}{
		"no name":        {func(r *registry.ChangeSetRequest) { r.Name = "" }, script.Invalid, "name"},
		"no author":      {func(r *registry.ChangeSetRequest) { r.Author = "" }, script.Invalid, "author"},
		"nothing":        {func(r *registry.ChangeSetRequest) { r.Scripts, r.Values = nil, nil }, script.Invalid, "at least one"},
		"another tenant": {func(r *registry.ChangeSetRequest) { r.Scripts[1].Name.Tenant = "other" }, script.Invalid, "scripts of one tenant"},
		"twice":          {func(r *registry.ChangeSetRequest) { r.Scripts[1] = r.Scripts[0] }, script.Invalid, "acme/one is there twice"},
		"a value twice":  {func(r *registry.ChangeSetRequest) { r.Values = append(r.Values, r.Values[0]) }, script.Invalid, "of/cart is there twice"},
		"a bad key":      {func(r *registry.ChangeSetRequest) { r.Values[0].Key = "a b" }, script.Invalid, "values[0]"},
		"a pin":          {func(r *registry.ChangeSetRequest) { r.Scripts[0].Pin = &pinned }, script.Invalid, "acme/one names version 3 in spec.version: leave it out"},
		"two plans": {func(r *registry.ChangeSetRequest) {
			r.Scripts[0].Settings, r.Scripts[1].Settings = inStep, &script.Settings{Rollout: other}
		}, script.Invalid, "acme/one and acme/two have different rollout plans"},
		"a bad plan": {func(r *registry.ChangeSetRequest) { r.Plan = &script.Plan{Steps: []script.Step{{Percent: 100}}} }, script.Invalid, "plan.steps[0].percent"},
		"an unknown gate": {func(r *registry.ChangeSetRequest) {
			r.Plan = &script.Plan{Steps: []script.Step{{Percent: 10, Gate: script.Gate{Kind: script.Webhook, Source: "ci"}}}}
		}, script.Invalid, "plan.steps[0].gate"},
		"after itself":      {func(r *registry.ChangeSetRequest) { r.Plan = &script.Plan{After: []script.Name{named("one")}} }, script.Invalid, "acme/one cannot wait for itself"},
		"a plan for values": {func(r *registry.ChangeSetRequest) { r.Scripts, r.Plan = nil, &inStep.Rollout }, script.Invalid, "needs a script"},
		"too many scripts":  {func(r *registry.ChangeSetRequest) { r.Scripts = changeSet("x", "a", nil, many...).Scripts }, script.Invalid, "11 are too many"},
		"too large":         {func(r *registry.ChangeSetRequest) { r.Values[0].Content = make([]byte, script.MaxChangeSetBytes) }, script.Invalid, "at most 1048576 (1 MiB)"},
		"does not compile":  {func(r *registry.ChangeSetRequest) { r.Scripts[1].Source = []byte("broken") }, script.Script, "acme/two"},
		"a script is held":  {func(r *registry.ChangeSetRequest) { r.Scripts[1].Name = named("held") }, script.Denied, "acme/held is held at v1 by ann"},
		"a reader":          {func(r *registry.ChangeSetRequest) { r.By = who(t, "eve", "acme", access.Read) }, script.Denied, "publish"},
		"an owner's":        {func(r *registry.ChangeSetRequest) { r.Scripts[1].Name = named("owned") }, script.Denied, "belongs to"},
		"a huge value":      {func(r *registry.ChangeSetRequest) { r.Values[0].Content = bytes.Repeat([]byte("v"), 600<<10) }, script.Limit, "acme uses"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.storeAs("held", "a", nil)
			b.publish("a", func(r *registry.PublishRequest) { r.Name, r.Owner = named("owned"), "git" })
			if _, err := b.Pin(t.Context(), registry.PinRequest{Write: write(named("held"))}); err != nil {
				t.Fatal(err)
			}
			if name == "a huge value" {
				if _, _, err := b.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{ValueBytes: 100 << 10}, Author: "ann", By: everybody}); err != nil {
					t.Fatal(err)
				}
			}
			head, _ := b.store.Head(t.Context())
			req := changeSet("cart", "b", nil, "one", "two")
			c.change(&req)
			_, err := b.PublishChangeSet(t.Context(), req)
			if script.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %s with %q", err, c.kind, c.text)
			}
			if now, _ := b.store.Head(t.Context()); now != head {
				t.Error("something was stored")
			}
		})
	}
}

// TestAChangeSetOfWhatWaitsForAThaw: a first version that waits already is refused as another is.
func TestAChangeSetOfWhatWaitsForAThaw(t *testing.T) {
	b := newBench(t)
	b.freeze()
	b.storeAs("one", "return b", nil)
	head, _ := b.store.Head(t.Context())
	req := changeSet("cart", "b", nil, "one")
	req.Values = nil
	result, err := b.PublishChangeSet(t.Context(), req)
	if !script.IsFrozen(err) {
		t.Errorf("%+v, %v", result, err)
	}
	if now, _ := b.store.Head(t.Context()); now != head {
		t.Error("something was stored")
	}
	b.thaw()
	if result := b.publishSet(req); result.Set.State != script.ChangeSetLive || result.Releases[0].Active.Number != 1 {
		t.Errorf("after the thaw: %+v", result)
	}
}

// TestADryChangeSet stores nothing, and says what would be.
func TestADryChangeSet(t *testing.T) {
	b := newBench(t)
	req := changeSet("cart", "b", nil, "one")
	req.DryRun = true
	result := b.publishSet(req)
	if !result.Changed || result.Set.Scripts[0].Version != 1 || b.content("of/cart") != "" {
		t.Errorf("%+v", result)
	}
	if head, _ := b.store.Head(t.Context()); head != 0 {
		t.Error("something was stored")
	}
}

// TestTheValuesOfAChangeSetHaveNoRoom: what the tenant may have is for all of it together, and is looked at
// again when it goes live.
func TestTheValuesOfAChangeSetHaveNoRoom(t *testing.T) {
	b := newBench(t)
	if _, _, err := b.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{ValueBytes: 100 << 10}, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	b.storeAs("one", "a", nil)
	large := bytes.Repeat([]byte("v"), 60<<10)
	req := changeSet("cart", "b", &inStep.Rollout, "one")
	req.Values = []registry.StagedContent{{Key: "x", Content: large}, {Key: "y", Content: append([]byte("y"), large...)}}
	if _, err := b.PublishChangeSet(t.Context(), req); script.KindOf(err) != script.Limit {
		t.Errorf("two values that are too large together: %v", err)
	}
	req.Values = req.Values[:1]
	result := b.publishSet(req)
	b.put(script.ValueKey{Tenant: "acme", Key: "z"}, string(large))
	r := result.Releases[0]
	err := b.AdvanceSet(t.Context(), registry.AdvanceSetRequest{
		Tenant: "acme", Set: r.Candidate.Set, Moves: []registry.AdvanceRequest{{Name: r.Name, At: r.Revision, Move: registry.Move{Promote: true}}},
	})
	if script.KindOf(err) != script.Limit {
		t.Errorf("it goes live without room: %v", err)
	}
	if now, _ := b.Get(t.Context(), everybody, named("one")); now.Active.Number != 1 {
		t.Error("the script is live without its value")
	}
}

// TestMovesOfAChangeSetAreForAllOfIt: no script of it goes on by itself.
func TestMovesOfAChangeSetAreForAllOfIt(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.storeAs("two", "a", nil)
	result := b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one", "two"))
	one := result.Releases[0]
	for _, move := range []registry.Move{{Step: 1, Threshold: 7}, {Promote: true}, {Failed: "it fails"}} {
		if err := b.move(one.Name, move); script.KindOf(err) != script.Invalid {
			t.Errorf("%+v of one script: %v", move, err)
		}
	}
	moves := []registry.AdvanceRequest{{Name: one.Name, At: one.Revision, Move: registry.Move{Promote: true}}}
	if err := b.AdvanceSet(t.Context(), registry.AdvanceSetRequest{Tenant: "acme", Set: one.Candidate.Set, Moves: moves}); script.KindOf(err) != script.Invalid {
		t.Errorf("one of two is promoted: %v", err)
	}
	b.storeAs("two", "c", nil)
	moves = append(moves, registry.AdvanceRequest{Name: named("two"), At: one.Revision, Move: registry.Move{Promote: true}})
	if err := b.AdvanceSet(t.Context(), registry.AdvanceSetRequest{Tenant: "acme", Set: one.Candidate.Set, Moves: moves}); script.KindOf(err) != script.Conflict {
		t.Errorf("with one that has left it: %v", err)
	}
	if r, _ := b.Get(t.Context(), everybody, one.Name); r.Active.Number != 1 || b.content("of/cart") != "" {
		t.Error("half of it is live")
	}
}

// TestChangeSetsMakeRoom: a tenant has so many records of them; the oldest that is over goes first.
func TestChangeSetsMakeRoom(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.publishSet(changeSet("trial", "b", &inStep.Rollout, "one"))
	for i := range script.MaxChangeSets + 1 {
		b.publishSet(changeSet(fmt.Sprint("n", i), "x", nil))
	}
	sets, _, err := b.ChangeSets(t.Context(), everybody, "acme")
	if err != nil || len(sets) != script.MaxChangeSets {
		t.Fatalf("%d change sets, %v", len(sets), err)
	}
	if set, err := b.ChangeSet(t.Context(), everybody, "acme", "trial"); err != nil || set.State != script.ChangeSetOnTrial {
		t.Errorf("the one on trial: %+v, %v", set, err)
	}
	if _, err := b.ChangeSet(t.Context(), access.Identity{}, "acme", "trial"); script.KindOf(err) != script.Denied {
		t.Errorf("a stranger: %v", err)
	}
	var none *script.Error
	if _, err := b.ChangeSet(t.Context(), everybody, "acme", "none"); !errors.As(err, &none) || none.Kind != script.NotFound {
		t.Errorf("none: %v", err)
	}
}
