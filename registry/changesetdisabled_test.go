package registry_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
)

// TestARepeatedChangeSetEnables: somebody disables a script while the change set is on trial. Its manifest says that
// the script is enabled: published again, the change set does so, and nothing runs untested.
func TestARepeatedChangeSetEnables(t *testing.T) {
	for _, first := range []bool{true, false} {
		b := newBench(t)
		b.storeAs("one", "return a", nil)
		b.storeAs("two", "return a", nil)
		if first {
			b.enableNamed("one", false)
		}
		req := allEnabled(changeSet("cart", "b", &inStep.Rollout, "one", "two"))
		b.publishSet(req)
		b.enableNamed("one", false)
		result := b.publishSet(req)
		if r := b.named("one"); !result.Changed || !r.Enabled || !r.Untried() || r.Candidate.Set == nil {
			t.Errorf("disabled at first %v: changed %v, enabled %v, %+v", first, result.Changed, r.Enabled, r)
		}
		if one, two := b.setOf("one"), b.setOf("two"); one == nil || two == nil || one.Attempt != two.Attempt || one.Attempt != result.Set.Attempt {
			t.Errorf("disabled at first %v: the candidates are of %+v and %+v", first, one, two)
		}
		if again := b.publishSet(req); again.Changed {
			t.Errorf("disabled at first %v: published once more: %+v", first, again.Set)
		}
	}
}

// TestBackToWhatAChangeSetEnabledAnew: the version ran before somebody disabled the script. The change set that
// enabled the script has failed. Even a freeze lets the script go back to this version.
func TestBackToWhatAChangeSetEnabledAnew(t *testing.T) {
	b := newBench(t)
	b.storeAs("one", "return a", nil)
	b.storeAs("one", "return b", nil)
	b.enableNamed("one", false)
	b.publishSet(allEnabled(changeSet("cart", "b", &inStep.Rollout, "one")))
	if r := b.named("one"); !r.Untried() || r.Active.Number != 2 {
		t.Fatalf("%+v", r)
	}
	if err := b.steerNamed("one", registry.Abort); err != nil {
		t.Fatal(err)
	}
	b.freeze()
	if _, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write(named("one")), Version: 2}); err != nil {
		t.Errorf("back to version 2: %v", err)
	}
}

func (b *bench) enableNamed(name string, enabled bool) {
	b.t.Helper()
	if _, err := b.SetEnabled(b.t.Context(), registry.SetEnabledRequest{Write: write(named(name)), Enabled: enabled}); err != nil {
		b.t.Fatal(err)
	}
}
