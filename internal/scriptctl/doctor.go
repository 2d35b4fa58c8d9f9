package scriptctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// findingView is something that is damaged in the registry's store.
type findingView struct {
	Record     string          `json:"record"` // "releases/tenant/name", "versions/tenant/name/number", "sources/digest", …
	Revision   script.Revision `json:"revision,omitempty"`
	Reason     string          `json:"reason"`
	Remedy     string          `json:"remedy"`
	Repairable bool            `json:"repairable"`
	Repaired   bool            `json:"repaired"`
}

func (a *app) doctorCommand() *cobra.Command {
	var repair, fromAgents bool
	var lost int64
	var note string
	cmd := &cobra.Command{
		Use:   "doctor [TENANT | TENANT/NAME]",
		Short: "Find records that the registry cannot read, and repair them",
		Long: `Doctor reads all that the registry stores in etcd. It lists these faults:

  - a release, a version, a value or a tenant's settings that cannot be read
  - a source, or the content of a value, that is missing or does not match its digest

While a record cannot be read, agents keep what was live before. Doctor requires the
role admin.

With --repair, doctor restores what etcd still remembers from before. It makes a release
that etcd has forgotten of its versions, its history and the audit trail. The settings,
limits, config, tests and rollout of such a release are lost. A repair is a change like
any other, with a new revision.

With --from-agents, doctor asks some connected agents for what etcd has forgotten. It
takes entries that this registry's key has signed and that are of the last change, and
sources that match their digest. A repair then restores everything as it was. If no
agent sends a release, doctor leaves its record alone. Without --repair, doctor lists
what agents can restore.

Agents keep what they run when the registry would remove a large part of it at once and
has no record of the removals. Restore etcd then. If the loss is meant, --accept-loss N
has agents remove up to N objects each. The agents' logs name the number.

Doctor ends with exit code 8 if something is left that it did not repair.`,
		Example:           "  scriptctl doctor\n  scriptctl doctor acme/route --repair\n  scriptctl doctor --repair --from-agents",
		Args:              wantArgs(0, 1, "one tenant or script at most", "[tenant/name]"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("accept-loss") {
				return a.acceptLoss(cmd.Context(), lost, note, args)
			}
			o := registryclient.DoctorOptions{Repair: repair, FromAgents: fromAgents, Note: note}
			if len(args) == 1 {
				var err error
				if o.Selected, err = parseSelection(args[0]); err != nil {
					return usage(err)
				}
			}
			return a.doctor(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&fromAgents, "from-agents", false, "ask agents for their signed copies of what etcd has forgotten")
	cmd.Flags().Int64Var(&lost, "accept-loss", 0, "have each agent remove up to this many objects whose records the registry has lost")
	cmd.MarkFlagsMutuallyExclusive("repair", "accept-loss")
	cmd.MarkFlagsMutuallyExclusive("from-agents", "accept-loss")
	cmd.Flags().StringVar(&note, "note", "", "why, for the histories and the audit trail")
	return cmd
}

// lossView is what -o json prints of an accepted loss.
type lossView struct {
	Objects  int64           `json:"objects"`
	Revision script.Revision `json:"revision"`
}

func (a *app) acceptLoss(ctx context.Context, objects int64, note string, args []string) error {
	if len(args) > 0 {
		return usage(script.Errorf(script.Invalid, "--accept-loss", "is for the whole fleet: leave %.80q out", args[0]))
	}
	write, err := a.write(note)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	revision, err := client.AcceptLoss(ctx, objects, write.Author, note)
	if err != nil {
		return err
	}
	return a.print(lossView{Objects: objects, Revision: revision}, func(w io.Writer) {
		fmt.Fprintf(w, "agents remove up to %d lost objects each, within a minute (revision %d)\n", objects, revision)
	})
}

func (a *app) doctor(ctx context.Context, o registryclient.DoctorOptions) error {
	write, err := a.write(o.Note)
	if err != nil {
		return err
	}
	o.Author = write.Author
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []findingView{}
	rows := [][]string{{"RECORD", "REVISION", "STATE", "WHAT IS WRONG", "REMEDY"}}
	left := 0
	for f, err := range client.Doctor(ctx, o) {
		if err != nil {
			return err
		}
		state := "repaired"
		if !f.Repaired {
			state = "broken"
			left++
		}
		views = append(views, findingView{
			Record: f.Key, Revision: f.Revision, Reason: f.Reason, Remedy: f.Remedy, Repairable: f.Repairable, Repaired: f.Repaired,
		})
		rows = append(rows, []string{plain(f.Key), fmt.Sprint(f.Revision), state, plain(f.Reason), plain(f.Remedy)})
	}
	err = a.print(views, func(w io.Writer) {
		if len(views) == 0 {
			fmt.Fprintln(w, "all records can be read, and all sources match their digests")
			return
		}
		columns(w, rows)
	})
	if left == 0 {
		return err
	}
	command := "scriptctl doctor --repair"
	if o.FromAgents {
		command += " --from-agents"
	}
	what := errors.New(count(left, "record") + " cannot be read; agents keep what was live: run " + command)
	if o.Repair {
		what = errors.New(count(left, "record") + " could not be repaired; agents keep what was live")
	}
	return cmp.Or(err, error(&exitError{code: exitUnreadable, err: what}))
}
