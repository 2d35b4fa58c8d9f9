package agent_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestCatchingUpTakesAsLongAsTheAnswer: an agent that may be behind serves nothing old while the
// registry answers, however long that takes.
func TestCatchingUpTakesAsLongAsTheAnswer(t *testing.T) {
	r := newRegistry(t)
	r.start()
	dir := t.TempDir()
	r.publish("acme/a", "old")
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/a", "old")
	n.stop()
	if err := os.Remove(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	r.publish("acme/a", "new")
	begun, more := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	r.mu.Lock()
	r.slowly = func() {
		once()
		<-more
	}
	r.mu.Unlock()
	n = startNode(t, r, dir)
	<-begun
	time.AfterFunc(2*time.Second, func() { close(more) })
	n.CatchUpWithin(time.Second)
	if got, err := n.call(t, "acme/a"); err != nil || got != "new" {
		t.Errorf("it answers %q, %v", got, err)
	}
}
