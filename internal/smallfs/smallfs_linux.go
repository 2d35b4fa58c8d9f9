// Package smallfs gives tests a file system that is soon full.
package smallfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// Disk is a small file system.
type Disk struct {
	Dir string
}

// New mounts one of so many bytes, as mount has them, until the test ends. It skips the test where that is
// not allowed.
func New(tb testing.TB, size string) *Disk {
	tb.Helper()
	needs.Root(tb, "mounts a small file system")
	dir := tb.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		needs.Skip(tb, "needs to mount a tmpfs, which takes CAP_SYS_ADMIN: "+err.Error())
	}
	tb.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			tb.Error(err)
		}
	})
	return &Disk{Dir: dir}
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }

// Fill leaves no byte of room.
func (d *Disk) Fill(tb testing.TB) {
	tb.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		n, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) && n == 0 {
			block = block[:len(block)/2]
		} else if err != nil && !errors.Is(err, syscall.ENOSPC) {
			tb.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}

// Free gives the room back.
func (d *Disk) Free(tb testing.TB) {
	tb.Helper()
	if err := os.Remove(d.filler()); err != nil {
		tb.Fatal(err)
	}
}
