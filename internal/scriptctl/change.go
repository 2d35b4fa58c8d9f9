package scriptctl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

func addNote(cmd *cobra.Command, note *string) {
	cmd.Flags().StringVar(note, "note", "", "why, for the script's history")
}

// changedView is the release after a change.
type changedView struct {
	scriptView
	Changed bool `json:"changed"`
}

// change is one change of a release.
type change func(ctx context.Context, client *registryclient.Client, name script.Name, w registryclient.Write) (script.Release, bool, error)

// changeFlags are the flags that all changes have.
type changeFlags struct {
	ownerFlags
	note string
	wait waitFlags
}

func (f *changeFlags) add(cmd *cobra.Command) {
	addNote(cmd, &f.note)
	f.ownerFlags.add(cmd)
	f.wait.add(cmd)
}

// writeAs returns what a change with the flags says of itself.
func (a *app) writeAs(f *changeFlags) (registryclient.Write, error) {
	w, err := a.write(f.note)
	f.actFor(&w)
	return w, err
}

// commit makes the change, and returns what the release is then.
func (a *app) commit(ctx context.Context, name script.Name, f *changeFlags, do change) (release script.Release, changed bool, err error) {
	write, err := a.writeAs(f)
	if err != nil {
		return script.Release{}, false, err
	}
	client, err := a.connect()
	if err != nil {
		return script.Release{}, false, err
	}
	release, changed, err = do(ctx, client, name, write)
	if err != nil {
		return script.Release{}, false, about(name.String(), err)
	}
	return release, changed, nil
}

// apply makes the change, prints what the release is then, and waits if asked to.
func (a *app) apply(ctx context.Context, name script.Name, f *changeFlags, do change) error {
	release, changed, err := a.commit(ctx, name, f, do)
	if err != nil {
		return err
	}
	err = a.print(changedView{viewOfRelease(&release), changed}, func(w io.Writer) {
		line := summary(&release)
		if !changed {
			line += " (unchanged)"
		}
		fmt.Fprintln(w, line)
	})
	if err != nil {
		return err
	}
	return a.awaitIf(ctx, &f.wait, goals{name: goalOf(&release)})
}

// summary is one line on a release: "acme/route v4 sha256:ab12cd34 pinned".
func summary(r *script.Release) string {
	line := fmt.Sprintf("%s v%d %s %s", r.Name, r.Active.Number, r.Active.Digest.Short(), state(r))
	if r.Pinned && r.Latest != r.Active.Number {
		line += fmt.Sprintf(" (the latest is v%d)", r.Latest)
	}
	if text := candidateText(r); text != "" {
		line += ", " + text
	}
	return line
}

// state says in words what the flags of a release are.
func state(r *script.Release) string {
	words := "enabled"
	if !r.Enabled {
		words = "disabled"
	}
	if r.Pinned {
		words += ", pinned"
	}
	return words
}

func (a *app) pinCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "pin TENANT/NAME VERSION",
		Short:             "Make a version active and keep it so",
		Example:           "  scriptctl pin acme/route 7 --wait",
		Args:              wantArgs(2, 2, "a script and a version", "tenant/name 7"),
		ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := nameAndVersion(args)
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.Pin(ctx, n, version, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "unpin TENANT/NAME",
		Short:             "Make the latest version active and follow it from then on",
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.Unpin(ctx, n, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

const rollbackLong = `Rollback pins an older version, at once on all agents. Without VERSION it selects the
version that was live before the active one, according to the script's history. It
never selects a version that was only a candidate.

If there is a candidate, also a failed one, rollback without VERSION pins the active
version and ends the candidate.

Rollback does not change limits and config.`

func (a *app) rollbackCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "rollback TENANT/NAME [VERSION]",
		Short:             "Pin an older version: by default the one that was live before",
		Long:              rollbackLong,
		Example:           "  scriptctl rollback acme/route --note \"carts were lost\" --wait",
		Args:              wantArgs(1, 2, "a script, and a version if it is not the one that was live before", "tenant/name [7]"),
		ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := nameAndVersion(args)
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.Rollback(ctx, n, version, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) enableCommand(enabled bool) *cobra.Command {
	use, short := "enable", "Let a script answer again"
	if !enabled {
		use, short = "disable", "Make a script answer DISABLED, until it is enabled"
	}
	var f changeFlags
	cmd := &cobra.Command{
		Use:               use + " TENANT/NAME",
		Short:             short,
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			f.wait.anyCandidate = true
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.SetEnabled(ctx, n, enabled, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	var yes bool
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "delete TENANT/NAME",
		Short:             "Remove a script and all its versions",
		Long:              "Delete removes a script and all its versions from the fleet. It asks first, and\nneeds --yes where nobody can answer.",
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			return a.delete(cmd.Context(), name, &f, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	f.add(cmd)
	return cmd
}

func (a *app) delete(ctx context.Context, name script.Name, f *changeFlags, yes bool) error {
	write, err := a.writeAs(f)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	if !yes {
		if err := a.confirm(ctx, client, name); err != nil {
			return err
		}
	}
	release, err := client.Delete(ctx, name, write)
	if err != nil {
		return about(name.String(), err)
	}
	err = a.print(changedView{viewOfRelease(&release), true}, func(w io.Writer) {
		fmt.Fprintf(w, "%s deleted\n", name)
	})
	if err != nil {
		return err
	}
	return a.awaitIf(ctx, &f.wait, goals{name: goalOf(&release)})
}

// confirm asks whether to delete what the registry has.
func (a *app) confirm(ctx context.Context, client *registryclient.Client, name script.Name) error {
	if !a.InTerminal {
		return usage(script.Errorf(script.Invalid, "", "delete wants --yes to delete %s: there is no terminal to ask on", name))
	}
	release, err := client.Get(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	fmt.Fprintf(a.Err, "Delete %s, active in v%d, with its %d versions? [y/N] ", name, release.Active.Number, len(release.Retained))
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(a.Err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("%s was not deleted", name)
}

func parseName(arg string) (script.Name, error) {
	name, err := script.ParseName(arg)
	if err != nil {
		return name, usage(err)
	}
	return name, nil
}

func parseVersion(arg string) (uint64, error) {
	version, err := strconv.ParseUint(strings.TrimPrefix(arg, "v"), 10, 63)
	if err != nil || version == 0 {
		return 0, usage(script.Errorf(script.Invalid, "version", "%.80q is not a version: want a number from 1, such as 7", arg))
	}
	return version, nil
}

// nameAndVersion reads "tenant/name 7"; without the number it is 0.
func nameAndVersion(args []string) (script.Name, uint64, error) {
	name, err := parseName(args[0])
	if err != nil || len(args) == 1 {
		return name, 0, err
	}
	version, err := parseVersion(args[1])
	return name, version, err
}
