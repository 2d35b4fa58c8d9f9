package scriptctl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// changeSetView is a change set in -o json and -o yaml: see the views.
type changeSetView struct {
	ChangeSet string                `json:"changeSet"` // tenant/name
	State     script.ChangeSetState `json:"state"`     // OnTrial, Live, Failed or RolledBack
	Reason    string                `json:"reason,omitempty"`
	Revision  script.Revision       `json:"revision"`
	Rollout   *planView             `json:"rollout,omitempty"`
	Scripts   []changedScriptView   `json:"scripts"`
	Values    []changedValueView    `json:"values"`
	Author    string                `json:"author"`
	Note      string                `json:"note,omitempty"`
	CreatedAt *time.Time            `json:"createdAt,omitempty"`
	ChangedAt *time.Time            `json:"changedAt,omitempty"`
}

type changedScriptView struct {
	Script  string        `json:"script"`
	Version uint64        `json:"version"`
	Digest  script.Digest `json:"digest"`
	Before  uint64        `json:"versionBefore,omitempty"` // absent for a script that was new
	// Of "changeset status": how far the script has come.
	Status *statusView `json:"status,omitempty"`
}

type changedValueView struct {
	Key     string        `json:"key"`
	Digest  script.Digest `json:"digest"`
	Size    int           `json:"size"`
	Version uint64        `json:"version,omitempty"`       // absent until it is live
	Before  uint64        `json:"versionBefore,omitempty"` // when it went live; absent for none
}

func viewOfChangeSet(s *script.ChangeSet) changeSetView {
	v := changeSetView{
		ChangeSet: s.FullName(), State: s.State, Reason: s.Reason, Revision: s.Revision, Rollout: viewOfPlan(s.Plan),
		Scripts: []changedScriptView{}, Values: []changedValueView{}, Author: s.Author, Note: s.Note,
		CreatedAt: timeView(s.CreatedAt), ChangedAt: timeView(s.ChangedAt),
	}
	for _, c := range s.Scripts {
		v.Scripts = append(v.Scripts, changedScriptView{Script: s.Tenant + "/" + c.Name, Version: c.Version, Digest: c.Digest, Before: c.Before})
	}
	for _, c := range s.Values {
		v.Values = append(v.Values, changedValueView{Key: c.Key, Digest: c.Digest, Size: c.Size, Version: c.Version, Before: c.Before})
	}
	return v
}

func wantChangeSet() cobra.PositionalArgs { return wantArgs(1, 1, "a change set", "tenant/name") }

func (a *app) changeSetStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status TENANT/NAME",
		Short: "Show a change set and its state",
		Long: `Status shows the state of a change set, why it failed, its plan, and each of its scripts and
values: the version that it brings, and the version before.

STATUS is where the script is now. While the change set is on trial, "scriptctl rollout
status" of one of the scripts shows what the rollout waits for.`,
		Example: "  scriptctl changeset status acme/cart-2",
		Args:    wantChangeSet(), ValidArgsFunction: a.completeChangeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseChangeSet(args[0])
			if err != nil {
				return err
			}
			return a.changeSetStatus(cmd.Context(), name)
		},
	}
}

func (a *app) changeSetStatus(ctx context.Context, name script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	set, err := client.ChangeSet(ctx, name.Tenant, name.Script)
	if err != nil {
		return about(name.String(), err)
	}
	v := viewOfChangeSet(&set)
	rows := [][]string{{"SCRIPT", "VERSION", "BEFORE", "DIGEST", "STATUS"}}
	for i, of := range set.ScriptNames() {
		fleet, err := client.Status(ctx, of)
		if err != nil {
			return about(of.String(), err)
		}
		words := "deleted"
		dropGone(&fleet)
		if len(fleet.Scripts) > 0 {
			s := &fleet.Scripts[0]
			v.Scripts[i].Status = new(viewOfStatus(s))
			words = strings.Join(append([]string{progressLine(s)}, notes(s, true)...), ", ")
			words = strings.TrimPrefix(words, of.String()+" ")
		}
		c := &v.Scripts[i]
		rows = append(rows, []string{c.Script, versionOrDash(c.Version), versionOrDash(c.Before), c.Digest.Short(), words})
	}
	return a.print(v, func(w io.Writer) {
		fmt.Fprintln(w, changeSetLine(&set))
		columns(w, v.facts(&set))
		if len(v.Scripts) > 0 {
			fmt.Fprintln(w)
			columns(w, rows)
		}
		if len(v.Values) > 0 {
			fmt.Fprintln(w)
			columns(w, v.valueRows(set.State))
		}
	})
}

func versionOrDash(version uint64) string {
	if version == 0 {
		return "-"
	}
	return "v" + strconv.FormatUint(version, 10)
}

// changeSetLine is one line on a change set: "change set acme/cart-2 failed: aborted by ann".
func changeSetLine(s *script.ChangeSet) string {
	line, reason := "change set "+s.FullName()+" ", plain(s.Reason)
	switch state := stateText(s.State); {
	case reason == "":
		return line + state
	case strings.HasPrefix(reason, state):
		return line + reason
	default:
		return line + state + ": " + reason
	}
}

// facts are what there is to know of all of it.
func (v *changeSetView) facts(s *script.ChangeSet) [][]string {
	rows := [][]string{{"published:", clock(s.CreatedAt) + " by " + orDash(s.Author)}}
	if !s.ChangedAt.Equal(s.CreatedAt) {
		rows = append(rows, []string{"changed:", clock(s.ChangedAt)})
	}
	if s.Note != "" {
		rows = append(rows, []string{"note:", plain(s.Note)})
	}
	if len(s.Plan.After) > 0 {
		rows = append(rows, []string{"after:", strings.Join(v.Rollout.After, ", ")})
	}
	return append(rows, []string{"steps:", orDash(stepsText(s.Plan))})
}

func (v *changeSetView) valueRows(state script.ChangeSetState) [][]string {
	rows := [][]string{{"VALUE", "VERSION", "BEFORE", "DIGEST", "SIZE"}}
	for _, c := range v.Values {
		version := versionOrDash(c.Version)
		if state == script.ChangeSetOnTrial {
			version = "staged"
		}
		rows = append(rows, []string{plain(c.Key), version, versionOrDash(c.Before), c.Digest.Short(), byteSize(int64(c.Size))})
	}
	return rows
}

func (a *app) changeSetListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list TENANT",
		Aliases: []string{"ls"},
		Short:   "List the change sets of a tenant",
		Long: `List shows the last 100 change sets of a tenant, by name. Older ones that are over make room
for new ones.`,
		Example:           "  scriptctl changeset list acme",
		Args:              wantArgs(1, 1, "a tenant", "tenant"),
		ValidArgsFunction: a.completeTenants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := script.ValidateLabel("tenant", args[0]); err != nil {
				return usage(err)
			}
			return a.changeSetList(cmd.Context(), args[0])
		},
	}
}

func (a *app) changeSetList(ctx context.Context, tenant string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	sets, unreadable, err := client.ChangeSets(ctx, tenant)
	if err != nil {
		return err
	}
	views := []changeSetView{}
	rows := [][]string{{"CHANGE SET", "STATE", "SCRIPTS", "VALUES", "CHANGED", "AUTHOR", "REASON"}}
	for i := range sets {
		s := &sets[i]
		views = append(views, viewOfChangeSet(s))
		rows = append(rows, []string{
			s.FullName(), stateText(s.State), strconv.Itoa(len(s.Scripts)), strconv.Itoa(len(s.Values)), clock(s.ChangedAt), orDash(s.Author), plain(s.Reason),
		})
	}
	err = a.print(views, func(w io.Writer) {
		if len(views) == 0 && len(unreadable) == 0 {
			fmt.Fprintf(a.Err, "tenant %s has no change sets\n", tenant)
			return
		}
		columns(w, rows)
	})
	if err == nil && len(unreadable) > 0 {
		err = &exitError{code: exitUnreadable, err: script.Errorf(script.Internal, "",
			"the registry cannot read its records of the change sets %s of %s: publish them again, which replaces the records", plain(strings.Join(unreadable, ", ")), tenant)}
	}
	return err
}

const changeSetRollbackLong = `Rollback returns to what was active before a change set, in one transaction:

  - of a change set on trial, the candidate is given up, as with "scriptctl rollout abort"
  - of a live one, the scripts return to the versions before, and are held there; a script
    that was new is disabled; values get the contents before

If somebody has changed one of the scripts or values since, nothing is rolled back, unless
with --force. It needs the roles release and, for values, publish.

To go forward again as a whole, publish the fixed change set with "scriptctl changeset
publish --lift-hold". "scriptctl release" lifts the hold of each script by itself.`

// rolledBackView is a change set after a rollback.
type rolledBackView struct {
	changeSetView
	Changed bool `json:"changed"`
}

func (a *app) changeSetRollbackCommand() *cobra.Command {
	var f changeFlags
	cmd := &cobra.Command{
		Use:               "rollback TENANT/NAME",
		Short:             "Return to what was active before a change set",
		Long:              changeSetRollbackLong,
		Example:           "  scriptctl changeset rollback acme/cart-2 --note \"carts were lost\" --wait",
		Args:              wantChangeSet(),
		ValidArgsFunction: a.completeChangeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseChangeSet(args[0])
			if err != nil {
				return err
			}
			return a.changeSetRollback(cmd.Context(), name, &f)
		},
	}
	f.add(cmd)
	cmd.Flags().Lookup("force").Usage = "also where a script or a value has changed since, and past the scripts' owners, which needs the role admin"
	return cmd
}

func (a *app) changeSetRollback(ctx context.Context, name script.Name, f *changeFlags) error {
	write, err := a.writeAs(f)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	result, err := client.RollbackChangeSet(ctx, name.Tenant, name.Script, registryclient.ChangeSetWrite{
		Author: write.Author, Note: write.Note, Owner: write.Owner, Force: write.Force,
	})
	if err != nil {
		return about("change set "+name.String(), err)
	}
	err = a.print(rolledBackView{viewOfChangeSet(&result.Set), result.Changed}, func(w io.Writer) {
		for i := range result.Releases {
			fmt.Fprintln(w, summary(&result.Releases[i]))
		}
		if result.Changed && result.Set.State == script.ChangeSetRolledBack {
			for _, v := range result.Set.Values {
				outcome := fmt.Sprintf("v%d, as before", v.Before)
				if v.Before == 0 {
					outcome = "deleted, as before"
				}
				fmt.Fprintf(w, "value %s/%s %s\n", result.Set.Tenant, v.Key, outcome)
			}
		}
		line := changeSetLine(&result.Set)
		if !result.Changed {
			line += " (unchanged)"
		}
		fmt.Fprintln(w, line)
	})
	if err != nil {
		return err
	}
	f.wait.anyCandidate = true
	return a.awaitIf(ctx, &f.wait, goalsOf(result.Releases))
}

// completeChangeSets completes the name of a change set.
func (a *app) completeChangeSets(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeOfTenant(cmd, toComplete, func(ctx context.Context, client *registryclient.Client, tenant, prefix string) (names []cobra.Completion) {
		sets, _, err := client.ChangeSets(ctx, tenant)
		if err != nil {
			return nil
		}
		for i := range sets {
			if strings.HasPrefix(sets[i].Name, prefix) {
				names = append(names, cobra.CompletionWithDesc(sets[i].FullName(), stateText(sets[i].State)))
			}
		}
		return names
	})
}
