package kube

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellEndsWithItsContext: what the shell has started does not keep it, though it has its
// output open.
func TestShellEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = Until(ctx, func(context.Context) error {
			_, err := os.Stat(started)
			return err
		})
	}()
	c := &Cluster{root: dir}
	_, err := c.Shell(ctx, "sleep 600 & echo $! >pid; mv pid started; wait")
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it ended before: %v", err)
	}
	pid, err := os.ReadFile(started)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "kill", strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		t.Errorf("kill: %v: %s", err, out)
	}
}
