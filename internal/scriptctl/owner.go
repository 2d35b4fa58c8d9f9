package scriptctl

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ownerFlags say who a write acts for.
type ownerFlags struct {
	owner string
	force bool
}

func (f *ownerFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "who the change is made for; a script that has an owner is changed for it alone")
	cmd.Flags().BoolVar(&f.force, "force", false, "go past the script's owner; it needs the role admin")
}

// actFor makes w a write for the owner.
func (f *ownerFlags) actFor(w *registryclient.Write) { w.Owner, w.Force = f.owner, f.force }

// ownerView is the owner of a script.
type ownerView struct {
	Script   string          `json:"script"`
	Owner    string          `json:"owner"` // "" for none
	Revision script.Revision `json:"revision"`
	Changed  bool            `json:"changed"`
}

func (a *app) ownerCommand() *cobra.Command {
	var set string
	var clearOwner bool
	var f changeFlags
	cmd := &cobra.Command{
		Use:   "owner TENANT/NAME",
		Short: "Show or change who a script belongs to",
		Long: `Owner shows who a script belongs to. A script that has an owner, such as a Kubernetes
object, is changed by writes for that owner alone (--owner), unless they are forced.

With --set it gets that owner, and with --clear none. If it has one, that takes --owner
with its name, or --force.`,
		Example: `  scriptctl owner acme/route
  scriptctl owner acme/route --set team-web
  scriptctl owner acme/route --set team-shop --owner team-web
  scriptctl owner acme/route --clear --force`,
		Args:              wantScript(),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			switch {
			case set == "" && cmd.Flags().Changed("set"):
				return usage(script.Errorf(script.Invalid, "--set", "must name an owner: --clear takes it away"))
			case set == "" && !clearOwner:
				return a.showOwner(cmd.Context(), name)
			}
			return a.setOwner(cmd.Context(), name, set, &f)
		},
	}
	cmd.Flags().StringVar(&set, "set", "", "give the script this owner")
	cmd.Flags().BoolVar(&clearOwner, "clear", false, "let the script have no owner")
	cmd.MarkFlagsMutuallyExclusive("set", "clear")
	addNote(cmd, &f.note)
	f.ownerFlags.add(cmd)
	return cmd
}

func (a *app) showOwner(ctx context.Context, name script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	release, err := client.Get(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	return a.printOwner(&release, false)
}

func (a *app) setOwner(ctx context.Context, name script.Name, owner string, f *changeFlags) error {
	release, changed, err := a.commit(ctx, name, f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
		return c.SetOwner(ctx, n, owner, w)
	})
	if err != nil {
		return err
	}
	return a.printOwner(&release, changed)
}

func (a *app) printOwner(r *script.Release, changed bool) error {
	v := ownerView{Script: r.Name.String(), Owner: r.Owner, Revision: r.Revision, Changed: changed}
	return a.print(v, func(w io.Writer) {
		if v.Owner == "" {
			fmt.Fprintf(w, "%s has no owner\n", v.Script)
			return
		}
		fmt.Fprintf(w, "%s belongs to %s\n", v.Script, plain(v.Owner))
	})
}
