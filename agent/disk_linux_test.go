package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// TestFullDiskIsDegraded: an agent with a full disk serves what it has, says why it does not
// get what is new, and recovers when there is room.
func TestFullDiskIsDegraded(t *testing.T) {
	needs.Root(t, "mounts a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		needs.Skip(t, "needs to mount a tmpfs, which takes CAP_SYS_ADMIN: "+err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	r := newRegistry(t)
	r.publish("route", "one")
	r.start()
	n := startNode(t, r, filepath.Join(dir, "state"))
	n.answers(t, r, "acme/route", "one")

	filler := filepath.Join(dir, "filler")
	if err := fill(filler); err != nil {
		t.Fatal(err)
	}
	two := strings.Repeat("2", 200_000)
	r.publish("route", two)
	eventually(t, r, "degraded", func() bool { return strings.Contains(n.Degraded(time.Now()), "no space left on device") })
	if got, err := n.call(t, "acme/route"); err != nil || got != "one" {
		t.Errorf("with a full disk: %.20s, %v", got, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n.answers(t, r, "acme/route", two)
	eventually(t, r, "well again", func() bool { return n.Degraded(time.Now()) == "" })
	n.stop() // before its disk is unmounted
}

// fill writes to the file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		n, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) && n == 0 {
			block = block[:len(block)/2]
		} else if err != nil && !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
