package scriptctl

import (
	"errors"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The exit codes; rootLong describes them.
const (
	exitOK           = 0
	exitOther        = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitRefused      = 4
	exitUnreachable  = 5
	exitCallFailed   = 6
	exitNotConverged = 7
)

// exitError is an error with the exit code that it ends in. A nil err was
// printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as the fault of flags, arguments or manifests.
func usage(err error) error { return &exitError{code: exitUsage, err: err} }

// exit prints err, a line for each error that was joined, and returns the code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*exitError](err); !ok || e.err != nil {
		a.printError(err)
	}
	if !a.started {
		return exitUsage
	}
	return exitCode(err)
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	switch script.KindOf(err) {
	case script.NotFound:
		return exitNotFound
	case script.Script, script.Invalid, script.Conflict, script.Denied, script.Limit, script.Disabled:
		return exitRefused
	case script.Unavailable, script.Timeout, script.Overloaded:
		return exitUnreachable
	}
	return exitOther
}
