package registry_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (b *bench) steerNamed(name string, how registry.Steering) error {
	b.t.Helper()
	_, err := b.Steer(b.t.Context(), registry.SteerRequest{Write: write(named(name)), Steering: how})
	return err
}

// setOf returns the change set of the script's candidate; nil for none.
func (b *bench) setOf(name string) *script.Membership {
	b.t.Helper()
	r, err := b.Get(b.t.Context(), everybody, named(name))
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Candidate == nil {
		return nil
	}
	return r.Candidate.Set
}

// TestChangeSetsThatWereReplacedMakeRoom: one whose scripts all have other candidates since is over, though its
// record does not say so. A tenant that publishes a change set before the last one is live always goes on.
func TestChangeSetsThatWereReplacedMakeRoom(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	for i := range script.MaxChangeSets + 5 {
		b.publishSet(changeSet(fmt.Sprint("n", i), fmt.Sprint(i), &inStep.Rollout, "one"))
	}
	if sets, _, err := b.ChangeSets(t.Context(), everybody, "acme"); err != nil || len(sets) != script.MaxChangeSets {
		t.Errorf("%d change sets, %v", len(sets), err)
	}
}

// TestAnotherChangeSetOfTheName: it does not take the record of one that is on trial with other scripts, which
// nobody could roll back then.
func TestAnotherChangeSetOfTheName(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"one", "two", "other"} {
		b.storeAs(name, "a", nil)
	}
	b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one", "two"))
	for what, plan := range map[string]*script.Plan{"with a plan": &inStep.Rollout, "at once": nil} {
		_, err := b.PublishChangeSet(t.Context(), changeSet("cart", "c", plan, "other"))
		if script.KindOf(err) != script.Conflict || !strings.Contains(err.Error(), "acme/one") {
			t.Errorf("other scripts, %s: %v", what, err)
		}
	}
	b.publishSet(changeSet("cart", "c", &inStep.Rollout, "two")) // the controller gives one up
	if err := b.steerNamed("two", registry.Abort); err != nil {
		t.Fatal(err)
	}
	if err := b.steerNamed("one", registry.Abort); err != nil {
		t.Fatal(err)
	}
	b.publishSet(changeSet("cart", "d", &inStep.Rollout, "other"))
}

// TestAnOldAttemptDoesNotComeBack: when a change set was given up and its name has another record, its candidates
// neither begin again nor go live: the record would be of something else.
func TestAnOldAttemptDoesNotComeBack(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"one", "two", "other"} {
		b.storeAs(name, "a", nil)
	}
	b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one", "two"))
	if err := b.steerNamed("one", registry.Abort); err != nil {
		t.Fatal(err)
	}
	b.publishSet(changeSet("cart", "c", &inStep.Rollout, "other"))
	for _, how := range []registry.Steering{registry.Retry, registry.Promote} {
		if err := b.steerNamed("one", how); script.KindOf(err) != script.Conflict || !strings.Contains(err.Error(), "published again") {
			t.Errorf("%s: %v", how, err)
		}
	}
	if err := b.steerNamed("other", registry.Promote); err != nil {
		t.Error(err)
	}
}

// TestAChangeSetBeginsAgainAsAWhole: also where one of its candidates alone has gone.
func TestAChangeSetBeginsAgainAsAWhole(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.storeAs("two", "a", nil)
	req := changeSet("cart", "b", &inStep.Rollout, "one", "two")
	b.publishSet(req)
	b.storeAs("two", "c", nil)
	b.publishSet(req)
	one, two := b.setOf("one"), b.setOf("two")
	if !one.Same(two) {
		t.Errorf("the candidates are of different attempts: %+v and %+v", one, two)
	}
	if set, err := b.ChangeSet(t.Context(), everybody, "acme", "cart"); err != nil || set.Attempt != one.Attempt || len(set.Scripts) != 2 || set.State != script.ChangeSetOnTrial {
		t.Errorf("the record is %+v, %v", set, err)
	}
}

// TestARepeatedChangeSetKeepsItsRecord: also where it changes a script that is no part of it.
func TestARepeatedChangeSetKeepsItsRecord(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.storeAs("same", "return b", nil)
	req := changeSet("cart", "b", &inStep.Rollout, "one", "same")
	req.Scripts[1].Settings, req.Values = &script.Settings{HistoryLimit: 5}, nil
	before := b.publishSet(req).Set
	b.publish("return b", func(r *registry.PublishRequest) {
		r.Name, r.Settings = named("same"), &script.Settings{HistoryLimit: 7}
	})
	result := b.publishSet(req)
	after, err := b.ChangeSet(t.Context(), everybody, "acme", "cart")
	if err != nil || after.Revision != before.Revision || result.Releases[1].Settings.HistoryLimit != 5 || result.Set.Attempt != before.Attempt {
		t.Errorf("the record is %+v, %v, and the result %+v", after, err, result)
	}
}

// TestAChangedValueIsTestedByAll: a value goes live only when all scripts of the request that have tests have passed
// them with it, also those that do not change themselves.
func TestAChangedValueIsTestedByAll(t *testing.T) {
	b := newBench(t)
	b.storeAs("tested", "return b", tested)
	if err := b.steerNamed("tested", registry.Promote); err != nil {
		t.Fatal(err)
	}
	b.storeAs("one", "a", nil)
	req := changeSet("cart", "b", nil, "one", "tested")
	req.Scripts[1].Settings = tested
	result := b.publishSet(req)
	if len(result.Set.Scripts) != 2 || result.Set.State != script.ChangeSetOnTrial || b.content("of/cart") != "" {
		t.Errorf("%+v, and the value is %q", result.Set, b.content("of/cart"))
	}
	if again := b.publishSet(req); again.Changed {
		t.Errorf("the same again changed %+v", again.Set)
	}
}

// TestThePlanOfAReleaseCounts: a script whose settings are not stated keeps its plan.
func TestThePlanOfAReleaseCounts(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", inStep)
	result := b.publishSet(changeSet("cart", "b", nil, "one", "two"))
	if result.Set.State != script.ChangeSetOnTrial || !result.Set.Plan.Equal(inStep.Rollout) {
		t.Errorf("%+v", result.Set)
	}
	other := &script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 20}}}}
	b.storeAs("three", "a", other)
	_, err := b.PublishChangeSet(t.Context(), changeSet("other", "b", nil, "one", "three"))
	if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "different rollout plans") {
		t.Errorf("two plans: %v", err)
	}
}

// TestStagedContentsCount: what change sets stage counts for the tenant's bytes while candidates need it, also
// after they were given up.
func TestStagedContentsCount(t *testing.T) {
	b := bounded(t, script.TenantSettings{SourceBytes: 1 << 20})
	for _, name := range []string{"one", "two"} {
		b.storeAs(name, "a", nil)
	}
	staging := func(name string) error {
		req := changeSet(name, name, &inStep.Rollout, name)
		req.Values[0].Content = bytes.Repeat([]byte(name), 200<<10)
		_, err := b.PublishChangeSet(t.Context(), req)
		b.catchUp()
		return err
	}
	if err := staging("one"); err != nil {
		t.Fatal(err)
	}
	if err := b.steerNamed("one", registry.Abort); err != nil {
		t.Fatal(err)
	}
	if err := staging("two"); script.KindOf(err) != script.Limit || !strings.Contains(err.Error(), "sources") {
		t.Errorf("twice 600 KiB of 1 MiB: %v", err)
	}
	b.storeAs("one", "b", nil)
	b.catchUp()
	if err := staging("two"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestADryChangeSetTakesNoRate: neither scripts nor values count for the tenant's rates.
func TestADryChangeSetTakesNoRate(t *testing.T) {
	b := newBench(t)
	if _, _, err := b.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &script.TenantSettings{Writes: 1}, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	req := changeSet("cart", "b", nil, "one")
	req.DryRun = true
	for range 300 {
		b.publishSet(req)
	}
}

// TestTheAuditTrailNamesWhoPromotes: of values, too.
func TestTheAuditTrailNamesWhoPromotes(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	b.publishSet(changeSet("cart", "b", &inStep.Rollout, "one"))
	w := write(named("one"))
	w.Author, w.By = "ann", who(t, "bob", "acme", access.Release)
	if _, err := b.Steer(t.Context(), registry.SteerRequest{Write: w, Steering: registry.Promote}); err != nil {
		t.Fatal(err)
	}
	found := false
	for e := range b.lastAudits(2) {
		if e.Key == "of/cart" {
			found = e.Identity == "bob" && e.Peer == w.By.Peer && e.Author == "ann"
		}
	}
	if !found {
		t.Errorf("the audit trail says %+v", b.lastAudits(2))
	}
}

// TestAnUnreadableChangeSet: nothing depends on its record, and another publish of it replaces it.
func TestAnUnreadableChangeSet(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "a", nil)
	req := changeSet("cart", "b", &inStep.Rollout, "one")
	attempt := b.publishSet(req).Set.Attempt
	b.store.Spoil("changesets/acme/cart", true)
	if _, err := b.RollbackChangeSet(t.Context(), registry.ChangeSetRollback{Tenant: "acme", Name: "cart", Author: "ann", By: everybody}); script.KindOf(err) != script.Internal {
		t.Errorf("a rollback: %v", err)
	}
	result := b.publishSet(req)
	if set, err := b.ChangeSet(t.Context(), everybody, "acme", "cart"); err != nil || set.Attempt <= attempt || b.setOf("one").Attempt != set.Attempt || !result.Changed {
		t.Errorf("published again: %+v, %v", set, err)
	}
}

// TestARequestForAChangeSetIsMadeOnce: one that is sent again because its answer was lost comes to what it came to
// the first time.
func TestARequestForAChangeSetIsMadeOnce(t *testing.T) {
	plan := &script.Plan{Steps: []script.Step{{Percent: 10, Approval: true}, {Percent: 50, Approval: true}}}
	onTrial := func(t *testing.T) *bench {
		t.Helper()
		b := newBench(t)
		b.storeAs("one", "a", nil)
		b.storeAs("two", "a", nil)
		b.publishSet(changeSet("cart", "b", plan, "one", "two"))
		b.step(1, "one", "two")
		return b
	}
	request := func(how registry.Steering) registry.SteerRequest {
		w := write(named("one"))
		w.RequestID = "0123456789abcdef"
		return registry.SteerRequest{Write: w, Steering: how}
	}
	for how, between := range map[registry.Steering]func(b *bench){
		registry.Approve: func(b *bench) { b.step(2, "one", "two") },
		registry.Promote: func(*bench) {},
		registry.Retry:   func(b *bench) { b.step(1, "one", "two") },
		registry.Abort: func(b *bench) {
			if err := b.steerNamed("one", registry.Retry); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(string(how), func(t *testing.T) {
			b := onTrial(t)
			first, err := b.Steer(t.Context(), request(how))
			if err != nil || !first.Changed {
				t.Fatal(first, err)
			}
			between(b)
			head := b.head()
			again, err := b.Steer(t.Context(), request(how))
			if err != nil || !again.Changed || b.head() != head {
				t.Errorf("sent again: %+v, %v, and the registry is at %d, not %d", again, err, b.head(), head)
			}
		})
	}
	b := onTrial(t)
	if err := b.steerNamed("one", registry.Approve); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Steer(t.Context(), request(registry.Approve)); err != nil || r.Changed {
		t.Errorf("approved already: %+v, %v", r, err)
	}
	b.step(2, "one", "two")
	if r, err := b.Steer(t.Context(), request(registry.Approve)); err != nil || r.Changed || r.Release.Candidate.Approved != 1 {
		t.Errorf("sent again, it approves step 2: %+v, %v", r, err)
	}
}

// step has the change set of the scripts take the step.
func (b *bench) step(step int, names ...string) {
	b.t.Helper()
	var moves []registry.AdvanceRequest
	for _, name := range names {
		r, err := b.Get(b.t.Context(), everybody, named(name))
		if err != nil {
			b.t.Fatal(err)
		}
		moves = append(moves, registry.AdvanceRequest{Name: r.Name, At: r.Revision, Move: registry.Move{Step: step, Threshold: uint32(step)}})
	}
	if err := b.AdvanceSet(b.t.Context(), registry.AdvanceSetRequest{Tenant: "acme", Set: b.setOf(names[0]), Moves: moves}); err != nil {
		b.t.Fatal(err)
	}
}
