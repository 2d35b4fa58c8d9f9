package fleet_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAFreezeThatIsOver: the fleet wakes waiters when it ends by the clock.
func TestAFreezeThatIsOver(t *testing.T) {
	b := newBench(t)
	b.Frozen(script.Freeze{Revision: 11, Author: "ann", Since: b.now, ChangedAt: b.now, Until: b.now.Add(time.Hour)})
	b.Sweep()
	changed := b.Changed()
	told := func() bool {
		b.Sweep()
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	b.pass(time.Hour - 1)
	if told() {
		t.Error("it is told of a change before the freeze is over")
	}
	b.pass(1)
	if !told() {
		t.Error("it is not told that the freeze is over")
	}
	if changed = b.Changed(); told() {
		t.Error("it is told twice")
	}
}
