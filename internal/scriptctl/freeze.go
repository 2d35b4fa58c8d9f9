package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/script"
)

// freezeView is a freeze of the registry in -o json and -o yaml: see the views.
type freezeView struct {
	Author     string     `json:"author,omitempty"`
	Note       string     `json:"note,omitempty"`
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	Except     []string   `json:"except,omitempty"` // for admins of all tenants
	Unreadable string     `json:"unreadable,omitempty"`
}

func viewOfFreeze(f *script.Freeze) *freezeView {
	if f == nil {
		return nil
	}
	return &freezeView{Author: f.Author, Note: f.Note, Since: timeView(f.Since), Until: timeView(f.Until), Except: f.Except, Unreadable: f.Unreadable}
}

// frozenView is whether the registry is frozen.
type frozenView struct {
	Frozen  bool        `json:"frozen"`
	Changed bool        `json:"changed"`
	Freeze  *freezeView `json:"freeze,omitempty"`
}

// frozenText says in a line who froze the registry, and why.
func frozenText(f *script.Freeze) string {
	text := "frozen " + f.String()
	if len(f.Except) > 0 {
		text += ", except " + strings.Join(f.Except, ", ")
	}
	return plain(text) + ": " + script.Thaw
}

const freezeLong = `Freeze keeps what runs in all tenants as it is, for example during an incident. Until
"scriptctl thaw", or until the time of --for is over:

  - publish stores versions, and exits with 9; they begin when the freeze is over
  - rollouts begin no step, and are not promoted; a candidate that fails is still aborted
  - rollback, pin, hold, abort and disable work, to a version that was live before
  - promote, enable, delete, import, values and tenants' settings are refused, with exit
    code 9

--except names tenants and scripts that go on, as globs. Another freeze takes the place of
the one before, with its note, exceptions and time. It needs the role admin of all tenants.`

const freezeExample = `  scriptctl freeze "incident 12"
  scriptctl freeze "incident 12" --except acme/route --except 'team-*' --for 4h
  scriptctl freeze --status`

func (a *app) freezeCommand() *cobra.Command {
	var except []string
	var lasts time.Duration
	var status bool
	cmd := &cobra.Command{
		Use:     "freeze [NOTE]",
		Short:   "Keep what runs as it is in all tenants, until it is thawed",
		Long:    freezeLong,
		Example: freezeExample,
		Args:    wantArgs(0, 1, "a note at most", `["incident 12"]`),
		RunE: func(cmd *cobra.Command, args []string) error {
			note := strings.Join(args, "")
			switch {
			case status && (note != "" || len(except) > 0 || cmd.Flags().Changed("for")):
				return usage(errors.New("freeze --status changes nothing: leave out the note, --except and --for"))
			case status:
				return a.frozen(cmd.Context())
			case cmd.Flags().Changed("for") && lasts <= 0:
				return usage(script.Errorf(script.Invalid, "", "--for %v is not longer than 0: leave it out to freeze until scriptctl thaw", lasts))
			}
			return a.freeze(cmd.Context(), note, except, lasts)
		},
	}
	cmd.Flags().StringArrayVar(&except, "except", nil, "a tenant or script that is not frozen: TENANT or TENANT/NAME, in which * stands for any characters; may be repeated")
	cmd.Flags().DurationVar(&lasts, "for", 0, "end the freeze after this time, such as 4h")
	cmd.Flags().BoolVar(&status, "status", false, "show whether the registry is frozen, and change nothing")
	return cmd
}

func (a *app) freeze(ctx context.Context, note string, except []string, lasts time.Duration) error {
	probe := script.Freeze{Except: except}
	if err := probe.Validate(); err != nil {
		return usage(err)
	}
	write, err := a.write(note)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	f, err := client.Freeze(ctx, lasts, except, write.Author, note)
	if err != nil {
		return err
	}
	return a.print(frozenView{Frozen: true, Changed: true, Freeze: viewOfFreeze(&f)}, func(w io.Writer) { fmt.Fprintln(w, frozenText(&f)) })
}

// frozen prints whether the registry is frozen.
func (a *app) frozen(ctx context.Context) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	f, err := client.Frozen(ctx)
	if err != nil {
		return err
	}
	return a.print(frozenView{Frozen: f != nil, Freeze: viewOfFreeze(f)}, func(w io.Writer) {
		if f == nil {
			fmt.Fprintln(w, "not frozen")
			return
		}
		fmt.Fprintln(w, frozenText(f))
	})
}

func (a *app) thawCommand() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "thaw",
		Short: "End a freeze: what was published meanwhile begins",
		Long: `Thaw ends a freeze. Versions that were published meanwhile begin at once, through their
tests and steps if they have any, and rollouts go on. It needs the role admin of all tenants.`,
		Example: "  scriptctl thaw --note \"incident 12 is over\"",
		Args:    wantArgs(0, 0, "no arguments", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := a.write(note)
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			changed, err := client.Thaw(cmd.Context(), write.Author, note)
			if err != nil {
				return err
			}
			return a.print(frozenView{Changed: changed}, func(w io.Writer) {
				text := "thawed"
				if !changed {
					text = "not frozen (unchanged)"
				}
				fmt.Fprintln(w, text)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the audit trail")
	return cmd
}
