package fleet_test

import (
	"testing"
	"time"
)

// TestARewoundStore: agents that have more than a store that was restored from a backup take
// nothing of it. That its revisions are lower than theirs does not make them active.
func TestARewoundStore(t *testing.T) {
	b := newBench(t)
	b.reset(fleetID, 100, b.release(route, 90))
	b.hear("a", 100)
	b.pass(time.Second)
	b.reset(fleetID, 50, b.release(route, 10))
	b.commit(route, 60)
	for range 12 {
		b.pass(5 * time.Second)
		b.hear("a", 100)
		b.Sweep()
		b.want("0/0/1 of 1", false, "")
	}
	b.hear("b", 60)
	b.want("1/0/1 of 2", true, "b")
	b.commit(route, 110) // and it is past them
	b.hear("a", 110)
	b.hear("b", 110)
	b.want("2/0/0 of 2", true, "a")
}
