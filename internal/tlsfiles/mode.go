package tlsfiles

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Modes selects what happens if other users can read or change the file of a secret.
type Modes int

const (
	// RefuseOpen is for servers: whoever starts one can change the mode.
	RefuseOpen Modes = iota
	// WarnOfOpen is for servers with ModesFlag, and for commands: some CI systems write
	// secrets to files with mode 0666, and a job cannot change that.
	WarnOfOpen
)

// ModesFlag selects WarnOfOpen.
const ModesFlag = "insecure-file-modes"

// ModesFor returns what a server does if ModesFlag has that value.
func ModesFor(insecure bool) Modes {
	if insecure {
		return WarnOfOpen
	}
	return RefuseOpen
}

// open are the permissions that a secret must not give. The group may read: in a pod,
// root owns the files of a Secret, and the process reads them through its fsGroup.
const open = 0o026

// Check looks at the mode of the file, and follows links as a reader does. It reports no
// file that is missing: who reads the file does. Pipes and devices have no copy to protect.
func (m Modes) Check(path string, log *slog.Logger) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&open == 0 {
		return nil //nolint:nilerr // see above
	}
	mode := info.Mode().Perm()
	if m == RefuseOpen {
		return script.Errorf(script.Invalid, path, "has mode %#o, so other users can read or change this secret: run `chmod 600 %s`, or accept the mode with --%s", mode, path, ModesFlag)
	}
	log.Warn("other users can read or change the file of a secret: run chmod 600 on it", "file", path, "mode", fmt.Sprintf("%#o", mode))
	return nil
}

// changeable are the permissions that let others change a file.
const changeable = 0o022

// Unchangeable returns an error if other users can change the file: it is of what is no secret, but says who
// may do something.
func Unchangeable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&changeable == 0 {
		return nil //nolint:nilerr // who reads the file reports that
	}
	return script.Errorf(script.Invalid, path, "has mode %#o, so other users can change it: run `chmod go-w %s`", info.Mode().Perm(), path)
}
