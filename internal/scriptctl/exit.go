package scriptctl

import (
	"errors"
	"fmt"
	"strings"

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
	exitUnreadable   = 8
	exitHeld         = 9
	exitDiffers      = 10
	exitTestFailed   = 11
	exitLint         = 12
	exitDegraded     = 13
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

// exit prints err, a line for each error that was joined, and returns the code of the first.
// If the arguments were not understood, it is they that say how to print.
func (a *app) exit(err error, args []string) int {
	if err == nil {
		return exitOK
	}
	if !a.started {
		a.output = formatAmong(args)
		err = usage(suggested(err))
	}
	if e, ok := errors.AsType[*exitError](err); !ok || e.err != nil {
		a.printError(err)
	}
	return exitCode(single(err)[0])
}

// formatAmong returns the --output among the arguments; "" if there is none.
func formatAmong(args []string) (format string) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return format
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			format = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			format = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			format = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
	}
	return format
}

// suggested rewrites what cobra says in several lines: a command that there is not, and
// those that are like it.
func suggested(err error) error {
	what, commands, ok := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if !ok {
		return err
	}
	return errors.New(what + didYouMean(strings.Fields(commands)))
}

func didYouMean(commands []string) string {
	return ": did you mean " + strings.Join(commands, " or ") + "?"
}

// isHeld reports whether err is a refusal because somebody holds a script.
func isHeld(err error) bool {
	return script.KindOf(err) == script.Denied && script.AsError(err).Field == script.FieldHold
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if script.IsFrozen(err) || isHeld(err) {
		return exitHeld
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
