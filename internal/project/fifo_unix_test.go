//go:build unix

package project_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/project"
)

// TestPipe: a pipe in place of the file is an error. A program that opens it waits for ever.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, project.FileName), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := project.Find(dir); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got %v", err)
	}
}
