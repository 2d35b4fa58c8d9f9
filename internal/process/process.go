// Package process runs a command as a program: signals, exit codes, and errors
// on standard error.
package process

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Exit codes of the daemons.
const (
	exitFailed = 1
	exitUsage  = 2
)

// Main executes cmd and exits the process: with 0 when it ended well, 2 when
// its flags or variables were wrong, 1 for anything else. The command's context
// ends at the first SIGINT or SIGTERM; a second one kills the process.
func Main(cmd *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return script.Errorf(script.Invalid, "", "%w (see %s --help)", err, cmd.CommandPath())
	})
	understood := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	err := cmd.ExecuteContext(ctx)
	stop()
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, cmd.Name()+": "+err.Error())
	if !understood || script.KindOf(err) == script.Invalid {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}
