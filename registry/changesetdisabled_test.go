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

func (b *bench) enableNamed(name string, enabled bool) {
	b.t.Helper()
	if _, err := b.SetEnabled(b.t.Context(), registry.SetEnabledRequest{Write: write(named(name)), Enabled: enabled}); err != nil {
		b.t.Fatal(err)
	}
}
