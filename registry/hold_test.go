package registry_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hold has somebody hold route at the version; 0 is the active one.
func (b *bench) hold(version uint64, author, note string) script.Release {
	b.t.Helper()
	w := write(route)
	w.Author, w.Note = author, note
	result, err := b.Pin(b.t.Context(), registry.PinRequest{Write: w, Version: version})
	if err != nil {
		b.t.Fatal(err)
	}
	return result.Release
}

func wantHold(t *testing.T, r script.Release, active uint64, author, note string, declared uint64) {
	t.Helper()
	switch h := r.Hold; {
	case h == nil:
		t.Errorf("nobody holds v%d", r.Active.Number)
	case r.Active.Number != active || h.Author != author || h.Note != note || h.Declared != declared || h.Since.IsZero() || !r.Pinned:
		t.Errorf("v%d, pinned %v, is held by %+v; want v%d held by %s (%s), declared %d", r.Active.Number, r.Pinned, *h, active, author, note, declared)
	}
}

// TestAHoldSurvivesPublishing: what somebody has chosen stays active, whatever is published,
// until it is lifted; then the script is what its manifest says.
func TestAHoldSurvivesPublishing(t *testing.T) {
	for _, pinOf := range map[string]*uint64{"follows": new(uint64(0)), "keeps": nil} {
		b := newBench(t)
		b.publish("one", pin(0))
		b.publish("two", pin(0))
		w := write(route)
		w.Author, w.Note = "bo", "carts lost"
		if _, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: w}); err != nil {
			t.Fatal(err)
		}
		wantHold(t, b.get(), 1, "bo", "carts lost", 0)
		stored := b.publish("three", func(r *registry.PublishRequest) { r.Pin = pinOf })
		if !stored.Changed || stored.Version.Number != 3 || !strings.HasPrefix(stored.Release.HeldBack(), "held at v1 by bo since ") {
			t.Errorf("published while held: %+v, %q", stored, stored.Release.HeldBack())
		}
		wantHold(t, stored.Release, 1, "bo", "carts lost", 0)
		if again := b.publish("three", func(r *registry.PublishRequest) { r.Pin = pinOf }); again.Changed {
			t.Errorf("published again: %+v", again)
		}
		lifted, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)})
		if err != nil || lifted.Release.Hold != nil {
			t.Fatalf("lifted: %+v, %v", lifted, err)
		}
		wantRelease(t, lifted.Release, 3, 3, false)
	}
}

// TestAManifestsPinIsNoHold: the version that a manifest names is a declaration. Publishing
// changes it, also beneath a hold.
func TestAManifestsPinIsNoHold(t *testing.T) {
	b := newBench(t)
	b.publish("one", pin(0))
	b.publish("two", pin(1))
	wantRelease(t, b.publish("two", pin(0)).Release, 2, 2, false)
	wantRelease(t, b.publish("three", pin(2)).Release, 2, 3, true)
	wantHold(t, b.hold(1, "bo", "carts lost"), 1, "bo", "carts lost", 2)
	wantHold(t, b.publish("three", pin(3)).Release, 1, "bo", "carts lost", 3)
	wantHold(t, b.hold(2, "cy", ""), 2, "cy", "", 3)
	lifted, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)})
	if err != nil {
		t.Fatal(err)
	}
	wantRelease(t, lifted.Release, 3, 3, true)
	_, err = b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)})
	wantKind(t, err, script.NotFound, "hold")
}

// TestTheDeclaredVersionIsKept: what a script returns to is retained for as long as it is held.
func TestTheDeclaredVersionIsKept(t *testing.T) {
	b := newBench(t)
	few := settings(script.Settings{HistoryLimit: 2})
	b.publish("one", few)
	b.publish("two", few, pin(2))
	b.hold(1, "bo", "")
	for _, source := range []string{"three", "four", "five"} {
		b.publish(source, few)
	}
	lifted, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)})
	if err != nil {
		t.Fatal(err)
	}
	wantRelease(t, lifted.Release, 2, 5, true)
}

// TestWhatWasStoredIsTried: a version that was published while the script was held goes through
// its tests and steps when the hold is lifted.
func TestWhatWasStoredIsTried(t *testing.T) {
	for name, lift := range map[string]func(b *bench) script.Release{
		"released": func(b *bench) script.Release {
			r, err := b.LiftHold(b.t.Context(), registry.LiftHoldRequest{Write: write(route)})
			if err != nil {
				b.t.Fatal(err)
			}
			return r.Release
		},
		"published": func(b *bench) script.Release {
			return b.publish("two", settings(trial), pin(0), func(r *registry.PublishRequest) { r.LiftHold = true }).Release
		},
	} {
		b := newBench(t)
		b.publish("one", settings(trial), pin(0))
		if _, err := b.steer(registry.Promote, write(route)); err != nil {
			t.Fatal(err)
		}
		b.hold(0, "bo", "")
		wantHold(t, b.publish("two", settings(trial), pin(0)).Release, 1, "bo", "", 0)
		r := lift(b)
		if r.Active.Number != 1 || r.Hold != nil || r.Pinned || r.Candidate == nil || r.Candidate.Version.Number != 2 {
			t.Errorf("%s: %+v; want version 2 to be tried", name, r)
		}
	}
}

// TestAPersonHoldsWhatAnOwnerPublishes: an owner declares what a script runs, and the role
// release overrides that without --force. What the owner holds, the owner alone releases.
func TestAPersonHoldsWhatAnOwnerPublishes(t *testing.T) {
	b := owned(t)
	ctx := t.Context()
	own := func(r *registry.PublishRequest) { r.Owner = cr }
	person := write(route)
	person.By = who(t, "ann", "acme", access.Release)
	if _, err := b.Rollback(ctx, registry.RollbackRequest{Write: person}); err != nil {
		t.Fatal(err)
	}
	wantHold(t, b.publish("three", own).Release, 1, "ann", "why", 0)
	lifted, err := b.LiftHold(ctx, registry.LiftHoldRequest{Write: person})
	if err != nil {
		t.Fatal(err)
	}
	wantRelease(t, lifted.Release, 3, 3, false)

	theirs := write(route)
	theirs.Owner, theirs.Note = cr, "incident 12"
	if _, err := b.Pin(ctx, registry.PinRequest{Write: theirs}); err != nil {
		t.Fatal(err)
	}
	_, err = b.LiftHold(ctx, registry.LiftHoldRequest{Write: person})
	wantKind(t, err, script.Denied, "hold")
	if !strings.Contains(err.Error(), "--owner "+cr) {
		t.Errorf("%q does not say what to do", err)
	}
	_, err = b.tryPublish("four", func(r *registry.PublishRequest) { r.Owner, r.LiftHold = cr, true })
	if err != nil {
		t.Errorf("the owner lifts its own: %v", err)
	}
}

// TestAPersonApproves: a step that waits for an approval waits for a person with the role release,
// who need not own the script.
func TestAPersonApproves(t *testing.T) {
	b := owned(t)
	plan := script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 10, Approval: true}}}}
	r := b.publish("three", settings(plan), func(r *registry.PublishRequest) { r.Owner = cr }).Release
	if _, err := b.advance(r.Revision, registry.Move{Step: 1, Threshold: 1}); err != nil {
		t.Fatal(err)
	}
	w := write(route)
	w.By = who(t, "ann", "acme", access.Publish)
	_, err := b.steer(registry.Approve, w)
	wantKind(t, err, script.Denied, "tenant")
	w.By = who(t, "ann", "acme", access.Release)
	_, err = b.Steer(t.Context(), registry.SteerRequest{Write: w, Steering: registry.Approve, Step: 2}) // it was in another one
	wantKind(t, err, script.Conflict, "step")
	approved, err := b.steer(registry.Approve, w)
	if err != nil || approved.Release.Candidate.Approved != 1 {
		t.Fatalf("approved: %+v, %v", approved.Release.Candidate, err)
	}
	_, err = b.steer(registry.Promote, w)
	wantKind(t, err, script.Denied, "owner")
}

// TestAnApprovalIsOfOneStep: the id of a request that approved one step approves no other, and nobody
// is told that it did.
func TestAnApprovalIsOfOneStep(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	plan := script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 10, Approval: true}, {Percent: 50, Approval: true}}}}
	r := b.publish("two", settings(plan)).Release
	approve := func(step int) (registry.Result, error) {
		w := write(route)
		w.RequestID = "approve-0123456789"
		return b.Steer(t.Context(), registry.SteerRequest{Write: w, Steering: registry.Approve, Step: step})
	}
	for step := 1; step <= 2; step++ {
		var err error
		if r, err = b.advance(r.Revision, registry.Move{Step: step, Threshold: uint32(step)}); err != nil {
			t.Fatal(err)
		}
		if step == 2 {
			break
		}
		for range 2 { // sent again, it happens once
			result, err := approve(step)
			if r = result.Release; err != nil || !result.Changed || r.Candidate.Approved != 1 {
				t.Fatalf("approved: %+v, %v", r.Candidate, err)
			}
		}
	}
	if again, err := approve(1); err != nil || again.Release.Candidate.Approved != 1 {
		t.Errorf("sent again, later: %+v, %v", again.Release.Candidate, err)
	}
	_, err := approve(2)
	wantKind(t, err, script.Invalid, "request_id")
}

// TestHoldsAreExported: a script that is held is so where it is imported.
func TestHoldsAreExported(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	b.publish("two")
	b.hold(1, "bo", "carts lost")
	items, err := b.export(everybody, "")
	if err != nil {
		t.Fatal(err)
	}
	to := newBench(t)
	req := registry.ImportRequest{By: everybody, Author: "eve"}
	if _, err := to.Import(t.Context(), req, from(items)); err != nil {
		t.Fatal(err)
	}
	wantHold(t, to.get(), 1, "bo", "carts lost", 0)
	if again, err := to.Import(t.Context(), req, from(items)); err != nil || again.Unchanged != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := to.LiftHold(t.Context(), registry.LiftHoldRequest{Write: write(route)}); err != nil {
		t.Fatal(err)
	}
	_, err = to.Import(t.Context(), req, from(items))
	wantKind(t, err, script.Conflict, "name")
}

// TestAHoldIsLiftedByWhoCan: who a hold was set for lifts it for as long as the script is theirs;
// after that nobody is left to, and the role release is enough.
func TestAHoldIsLiftedByWhoCan(t *testing.T) {
	const luaScript = "luascript/prod/route"
	person := write(route)
	person.By = who(t, "ann", "acme", access.Release)
	for _, tt := range []struct{ owner, says string }{
		{luaScript, "remove the annotation scriptorium.dev/hold of " + luaScript},
		{"ci/acme", "scriptctl release acme/route --owner ci/acme"},
	} {
		b := newBench(t)
		own := func(r *registry.PublishRequest) { r.Owner = tt.owner }
		b.publish("one", own)
		theirs := write(route)
		theirs.Owner, theirs.Note = tt.owner, "incident 12"
		if _, err := b.Pin(t.Context(), registry.PinRequest{Write: theirs}); err != nil {
			t.Fatal(err)
		}
		stored := b.publish("two", own)
		if text := stored.Release.HeldBack(); !strings.HasSuffix(text, ": "+tt.says) {
			t.Errorf("%q does not say %q", text, tt.says)
		}
		_, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: person})
		wantKind(t, err, script.Denied, "hold")
		if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q does not say %q", err, tt.says)
		}
		steered := write(route)
		steered.Owner = tt.owner
		if _, err := b.steer(registry.Promote, steered); !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q does not say %q", err, tt.says)
		}
		forced := person
		forced.Force = true
		_, err = b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: forced})
		wantKind(t, err, script.Denied, "tenant")

		given := write(route)
		given.Force = true
		if _, err := b.SetOwner(t.Context(), registry.SetOwnerRequest{Write: given, NewOwner: ""}); err != nil {
			t.Fatal(err)
		}
		stored.Release = b.get()
		if text := stored.Release.HeldBack(); !strings.HasSuffix(text, ": scriptctl release acme/route") {
			t.Errorf("%q: the owner is gone", text)
		}
		lifted, err := b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: person})
		if err != nil {
			t.Fatal(err)
		}
		wantRelease(t, lifted.Release, 2, 2, false)
	}
}

// TestWhoseHoldItIs: a person's hold takes the place of an owner's, also without a reason. An
// owner's hold has the reason that it is given last, also if that is none.
func TestWhoseHoldItIs(t *testing.T) {
	b := owned(t)
	theirs := write(route)
	theirs.Owner, theirs.Note = cr, "incident 12"
	hold := func(w registry.Write, changes bool, owner, note string) {
		t.Helper()
		r, err := b.Pin(t.Context(), registry.PinRequest{Write: w})
		if err != nil {
			t.Fatal(err)
		}
		if h := r.Release.Hold; h == nil || r.Changed != changes || h.Owner != owner || h.Note != note {
			t.Errorf("changed %v, %+v; want %v, for %q (%s)", r.Changed, h, changes, owner, note)
		}
	}
	hold(theirs, true, cr, "incident 12")
	hold(theirs, false, cr, "incident 12")
	theirs.Note = ""
	hold(theirs, true, cr, "")
	hold(theirs, false, cr, "")
	person := write(route)
	person.Note = ""
	hold(person, true, "", "")
	person.Note = "carts lost"
	hold(person, true, "", "carts lost")
	person.Note = ""
	hold(person, false, "", "carts lost")
}

// TestHoldsOfLostRecords: the history tells of a hold whose record is lost, whatever was published
// or disabled since it was set.
func TestHoldsOfLostRecords(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	b.publish("two")
	b.hold(1, "bo", "carts lost")
	b.publish("three")
	if _, err := b.SetEnabled(t.Context(), registry.SetEnabledRequest{Write: write(route), Enabled: false}); err != nil {
		t.Fatal(err)
	}
	force := func(r *registry.PublishRequest) { r.Force = true }
	for source, forgotten := range map[string]bool{"four": true, "five": false} {
		b.store.Spoil("releases/acme/route", forgotten)
		wantHold(t, b.publish(source, pin(0), force).Release, 1, "bo", "carts lost", 0)
	}
}

// TestARetriedHoldComesOnce: a hold whose answer was lost does not come back after somebody has
// lifted it, and neither does a lift take away the next hold.
func TestARetriedHoldComesOnce(t *testing.T) {
	b := newBench(t)
	b.publish("one")
	named := func(id string) registry.Write { w := write(route); w.RequestID = id; return w }
	hold := func(id string) (registry.Result, error) {
		return b.Pin(t.Context(), registry.PinRequest{Write: named(id)})
	}
	lift := func(id string) (registry.Result, error) {
		return b.LiftHold(t.Context(), registry.LiftHoldRequest{Write: named(id)})
	}
	for i, step := range []struct {
		do   func(id string) (registry.Result, error)
		id   string
		held bool
	}{
		{hold, "hold-0123456789a", true},
		{hold, "hold-0123456789a", true},
		{lift, "lift-0123456789a", false},
		{hold, "hold-0123456789a", false},
		{hold, "hold-0123456789b", true},
		{lift, "lift-0123456789a", true},
		{lift, "lift-0123456789b", false},
	} {
		if r, err := step.do(step.id); err != nil || (r.Release.Hold != nil) != step.held {
			t.Errorf("step %d: %v, %v; want it held: %v", i, r.Release.Hold, err, step.held)
		}
	}
}

// TestTwoPeopleRollBack: of several rollbacks at about the same time that name no version, one takes the script
// back, and by one version.
func TestTwoPeopleRollBack(t *testing.T) {
	b := newBench(t)
	for _, source := range []string{"one", "two", "three"} {
		b.publish(source)
	}
	const people = 4
	results := make(chan registry.Result, people)
	var all sync.WaitGroup
	for range people {
		all.Go(func() {
			result, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)})
			if err != nil {
				t.Error(err)
			}
			results <- result
		})
	}
	all.Wait()
	close(results)
	changes := 0
	for r := range results {
		if r.Release.Active.Number != 2 || r.Release.Hold == nil {
			t.Errorf("%+v", r)
		}
		if r.Changed {
			changes++
		}
	}
	if changes != 1 {
		t.Errorf("%d of %d rollbacks changed the script", changes, people)
	}
}

// TestRolledBackAlready: what is written while a rollback holds the script does not have another one go back
// further. One of its change set is a rollback, too. A hold of another kind is none.
func TestRolledBackAlready(t *testing.T) {
	for name, c := range map[string]struct {
		then func(b *bench)
		want uint64
	}{
		"nothing":            {func(*bench) {}, 2},
		"a version":          {func(b *bench) { b.publish("four") }, 2},
		"a disabled script":  {func(b *bench) { b.setEnabled(false) }, 2},
		"a hold":             {func(b *bench) { b.hold(0, "cy", "mine") }, 2},
		"a pin":              {func(b *bench) { b.hold(2, "cy", "mine") }, 1},
		"a lift and a hold":  {func(b *bench) { b.lift(); b.hold(0, "cy", "") }, 2}, // from 3, which runs again
		"its release, alone": {func(b *bench) { b.lift() }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, source := range []string{"one", "two", "three"} {
				b.publish(source)
			}
			back := func() script.Release {
				result, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)})
				if err != nil {
					t.Fatal(err)
				}
				return result.Release
			}
			back()
			c.then(b)
			if r := back(); r.Active.Number != c.want {
				t.Errorf("version %d runs, want %d", r.Active.Number, c.want)
			}
		})
	}
	b := newBench(t)
	for _, source := range []string{"a", "b", "c"} {
		b.publishSet(changeSet("cart", source, nil, "one"))
	}
	if err := rollingSetBack("cart")(b, t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(named("one"))}); err != nil || r.Changed || r.Release.Active.Number != 2 {
		t.Errorf("after its change set: %+v, %v", r, err)
	}
}

func (b *bench) lift() {
	b.t.Helper()
	if _, err := b.LiftHold(b.t.Context(), registry.LiftHoldRequest{Write: write(route)}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) setEnabled(enabled bool) {
	b.t.Helper()
	if _, err := b.SetEnabled(b.t.Context(), registry.SetEnabledRequest{Write: write(route), Enabled: enabled}); err != nil {
		b.t.Fatal(err)
	}
}
