//go:build !linux

package store

import "os"

// syncFileSystem says that there is no such call.
func syncFileSystem(string) (ok bool, err error) { return false, nil }

// syncData makes the content of f durable.
func syncData(f *os.File) error { return f.Sync() }
