package scriptctl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
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

	holds  bool // the change holds the script
	starts bool // the change has another version run, which waits while the registry is frozen
	// already, if not nil, is the line on a release that the change leaves as it is.
	already func(*script.Release) string
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
	if f.holds && release.Pinned && release.Hold == nil {
		a.warn(name.String() + " is pinned, and not held: a registry that is older than this scriptctl knows no holds, and the next publish of a manifest without version: ends the pin: upgrade registryd")
	}
	line := changedLine(&release, changed)
	if f.already != nil && !changed {
		line = f.already(&release)
	}
	err = a.print(changedView{viewOfRelease(&release), changed}, func(w io.Writer) { fmt.Fprintln(w, line) })
	if err != nil {
		return err
	}
	if f.starts && release.Frozen() {
		return &exitError{code: exitHeld}
	}
	return a.awaitIf(ctx, &f.wait, goals{name: goalOf(&release)})
}

// applyEach is apply for each of the scripts, one after the other. With -o json and yaml it prints one
// object for one script, and a list for several.
func (a *app) applyEach(ctx context.Context, names []script.Name, f *changeFlags, do change) error {
	if len(names) == 1 {
		return a.apply(ctx, names[0], f, do)
	}
	views, reached := []changedView{}, goals{}
	var first error
	frozen := false
	for _, name := range names {
		release, changed, err := a.commit(ctx, name, f, do)
		if err != nil {
			a.printError(err)
			first = firstOf(first, err)
			continue
		}
		views = append(views, changedView{viewOfRelease(&release), changed})
		if a.output == formatTable {
			fmt.Fprintln(a.Out, changedLine(&release, changed))
		}
		if f.starts && release.Frozen() {
			frozen = true
			continue
		}
		reached[name] = goalOf(&release)
	}
	if err := a.print(views, func(io.Writer) {}); err != nil {
		return err
	}
	return a.conclude(ctx, &f.wait, reached, first, frozen)
}

// changedLine is summary, and whether that is no change.
func changedLine(r *script.Release, changed bool) string {
	line := summary(r)
	if !changed {
		line += " (unchanged)"
	}
	return line
}

// summary is one line on a release: "acme/route v4 sha256:ab12cd34 pinned".
func summary(r *script.Release) string {
	line := fmt.Sprintf("%s v%d %s %s", r.Name, r.Active.Number, r.Active.Digest.Short(), state(r))
	if r.Hold != nil {
		line += " " + plain(r.Hold.String())
	}
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
	if word := pinWord(r); word != "" {
		words += ", " + word
	}
	return words
}

// pinWord says in a word why a release does not follow the latest; "" if it does.
func pinWord(r *script.Release) string {
	switch {
	case r.Hold != nil:
		return "held"
	case r.Pinned:
		return "pinned"
	}
	return ""
}

const pinLong = `Pin makes a version active, at once on all agents, and holds the script there: publishing
stores new versions, and does not change what runs, until "scriptctl release".

To declare a version for good, write spec.version into the manifest.`

func (a *app) pinCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "pin TENANT/NAME VERSION",
		Short:             "Make a version active and hold the script there",
		Long:              pinLong,
		Example:           "  scriptctl pin acme/route 7 --note \"the last good one\" --wait",
		Args:              wantArgs(2, 2, "a script and a version", "tenant/name 7"),
		ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := a.nameAndVersion(args)
			if err != nil {
				return err
			}
			f.holds = true
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.Pin(ctx, n, version, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

const holdLong = `Hold keeps a script at its active version: publishing stores new versions, and does not
change what runs, until "scriptctl release". Hold ends a candidate.

A Script or LuaScript is held by the annotation ` + script.HoldAnnotation + `, whose value is the note.`

func (a *app) holdCommand() *cobra.Command {
	return a.oneScript(changeFlags{}, "hold TENANT/NAME", "Keep a script at its active version, whatever is published", holdLong,
		"  scriptctl hold acme/route --note \"incident 12\"",
		func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
			return c.Pin(ctx, n, 0, w)
		})
}

const releaseLong = `Release lifts a hold, which "scriptctl hold", "pin" or "rollback" has set. The script
returns to what its manifest declares: the version that spec.version names, or else the
latest one. A version with tests or rollout steps becomes a candidate first.

Several scripts are released one after the other. If the registry refuses one, release goes
on with the others and exits with an error.`

func (a *app) releaseCommand() *cobra.Command {
	f := changeFlags{starts: true}
	cmd := &cobra.Command{
		Use:     "release TENANT/NAME...",
		Short:   "Lift holds: run what the manifests declare",
		Long:    releaseLong,
		Example: "  scriptctl release acme/route --wait\n  scriptctl release acme/route acme/cart",
		Args:    wantArgs(1, anyNumber, "a script", "tenant/name"),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeNameThenVersions(0)(cmd, nil, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			names := make([]script.Name, len(args))
			for i, arg := range args {
				var err error
				if names[i], err = a.parseName(arg); err != nil {
					return err
				}
			}
			return a.applyEach(cmd.Context(), names, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.LiftHold(ctx, n, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// oneScript returns a command that makes the change of one script.
func (a *app) oneScript(f changeFlags, use, short, long, example string, do change) *cobra.Command {
	cmd := &cobra.Command{
		Use:               use,
		Short:             short,
		Long:              long,
		Example:           example,
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), name, &f, do)
		},
	}
	f.add(cmd)
	return cmd
}

const rollbackLong = `Rollback makes an older version active, at once on all agents, with its limits, config,
tests and trigger. Without VERSION it selects the version that was live before the active
one, according to the script's history. It never selects a version that was only a
candidate.

If there is a candidate, also a failed one, rollback without VERSION keeps the active
version and ends the candidate.

Rollback holds the script at that version: publishing stores new versions, and does not
change what runs, until "scriptctl release". If a rollback already holds the script,
rollback without VERSION changes nothing, and says who rolled it back. To go back further,
name a version.`

func (a *app) rollbackCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "rollback TENANT/NAME [VERSION]",
		Short:             "Return to an older version, by default the one that was live before, and hold it",
		Long:              rollbackLong,
		Example:           "  scriptctl rollback acme/route --note \"carts were lost\" --wait",
		Args:              wantArgs(1, 2, "a script, and a version if it is not the one that was live before", "tenant/name [7]"),
		ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := a.nameAndVersion(args)
			if err != nil {
				return err
			}
			f.holds = true
			if version == 0 {
				f.already = alreadyRolledBack
			}
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				return c.Rollback(ctx, n, version, w)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// alreadyRolledBack is the line on a script that another rollback has taken back.
func alreadyRolledBack(r *script.Release) string {
	if r.Hold == nil {
		return changedLine(r, false)
	}
	line := fmt.Sprintf("%s was already rolled back to v%d, held %s", r.Name, r.Active.Number, plain(r.Hold.String()))
	if slices.ContainsFunc(r.Retained, func(v script.Version) bool { return v.Number < r.Active.Number }) {
		line += fmt.Sprintf("; to go back further, name a version: scriptctl rollback %s VERSION", r.Name)
	}
	return line
}

func (a *app) enableCommand(enabled bool) *cobra.Command {
	use, short := "enable", "Let a script answer again"
	if !enabled {
		use, short = "disable", "Make a script answer DISABLED, until it is enabled"
	}
	return a.oneScript(changeFlags{wait: waitFlags{anyCandidate: true}}, use+" TENANT/NAME", short, "", "",
		func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
			return c.SetEnabled(ctx, n, enabled, w)
		})
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
			name, err := a.parseName(args[0])
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

func (a *app) parseName(arg string) (script.Name, error) {
	name, err := script.ParseName(a.withTenant(arg))
	if err != nil {
		return name, usage(err)
	}
	return name, nil
}

// parseChangeSet is parseName for the name of a change set.
func (a *app) parseChangeSet(arg string) (script.Name, error) {
	arg = a.withTenant(arg)
	if strings.Count(arg, "/") != 1 {
		return script.Name{}, usage(script.Errorf(script.Invalid, "name", "%.80q is not a change set's name: want tenant/name", arg))
	}
	return a.parseName(arg)
}

func parseVersion(arg string) (uint64, error) {
	version, err := strconv.ParseUint(strings.TrimPrefix(arg, "v"), 10, 63)
	if err != nil || version == 0 {
		return 0, usage(script.Errorf(script.Invalid, "version", "%.80q is not a version: want a number from 1, such as 7", arg))
	}
	return version, nil
}

// nameAndVersion reads "tenant/name 7"; without the number it is 0.
func (a *app) nameAndVersion(args []string) (script.Name, uint64, error) {
	name, err := a.parseName(args[0])
	if err != nil || len(args) == 1 {
		return name, 0, err
	}
	version, err := parseVersion(args[1])
	return name, version, err
}
