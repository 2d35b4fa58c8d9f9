package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem syncs the file system that holds path.
func syncFileSystem(path string) (ok bool, err error) {
	d, err := os.Open(path)
	if err != nil {
		return true, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return true, unix.Syncfs(int(d.Fd()))
}

// syncData makes the content of f durable.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
