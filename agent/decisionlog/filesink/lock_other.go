//go:build !unix

package filesink

import "os"

func ownStdout() (*os.File, error) { return os.Stdout, nil }

// lock does nothing: these systems have no flock.
func lock(*os.File) error { return nil }
