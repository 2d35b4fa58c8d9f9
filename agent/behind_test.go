package agent_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
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

// TestTheSettingsOfATenantRotted: until the registry has sent them again, nobody knows whether its calls need a record or
// a process, so they fail. Those of other tenants do not.
func TestTheSettingsOfATenantRotted(t *testing.T) {
	t.Run("corrupt", func(t *testing.T) {
		testLostSettings(t, func(path string) error { return os.WriteFile(path, []byte("rotten"), 0o600) })
	})
	t.Run("gone", func(t *testing.T) { testLostSettings(t, os.Remove) })
	t.Run("moved", func(t *testing.T) {
		testLostSettings(t, func(path string) error { return os.Rename(path, path+"-old") })
	})
}

func testLostSettings(t *testing.T, lose func(path string) error) {
	t.Helper()
	r := newRegistry(t)
	r.start()
	r.configure("shop", script.TenantSettings{})
	r.configure("acme", script.TenantSettings{Audit: script.AuditStrict})
	r.publish("acme/a", "audited")
	r.publish("shop/b", "plain")
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "shop/b", "plain")
	if _, err := n.call(t, "acme/a"); !script.Unrecorded(err) {
		t.Fatalf("without a decision log: %v", err)
	}
	eventually(t, r, "the cursor is kept", func() bool {
		_, err := os.Stat(filepath.Join(dir, "cursor"))
		return err == nil
	})
	n.stop()
	if err := lose(filepath.Join(dir, "tenants/acme")); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for range 2 {
		n = startNode(t, r, dir)
		if got, err := n.call(t, "acme/a"); err == nil {
			t.Errorf("with the registry down, it answers %q without a record", got)
		}
		if got, err := n.call(t, "shop/b"); err != nil || got != "plain" {
			t.Errorf("another tenant's script answers %q, %v", got, err)
		}
		n.stop()
	}
	r.start()
	n = startNode(t, r, dir)
	eventually(t, r, "the settings are back", func() bool {
		_, err := n.call(t, "acme/a")
		return script.Unrecorded(err)
	})
}
