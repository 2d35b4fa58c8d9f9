package follow_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// values returns changes of so many values, v0 and on.
func values(n int, text string) map[string]string {
	changes := map[string]string{}
	for i := range n {
		changes[fmt.Sprint("values/acme/v", i)] = text
	}
	return changes
}

// keeps says that the node holds removals back, while its status claims the registry's revision.
func (n *node) keeps() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.damaged = true
}

// TestARecordCountsOnce: the recorded removals of one kind do not speak for what was lost of
// another.
func TestARecordCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.beacons(ctx)
		n := newNode(w, "n")
		_, stop := n.run(ctx, 1)
		w.commit(scripts(removalScripts, "old"))
		w.commit(values(removalScripts, "old"))
		pass(2 * time.Second)
		n.expect("before")
		stop()
		w.forget(removalScripts)
		w.commit(values(removalScripts, ""))
		w.set(faults{floor: 1})
		n.keeps()
		f, stop := n.run(ctx, 2)
		pass(10 * time.Second)
		wantHeld(t, n, f, 2*removalScripts, "would remove 30 of 30 live releases, and has a record of 10 removals")
		stop()
	})
}
