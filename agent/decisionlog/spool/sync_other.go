//go:build !linux

package spool

import "os"

// syncData makes the content of f durable.
func syncData(f *os.File) error { return f.Sync() }
