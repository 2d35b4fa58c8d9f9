package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

const changeSetPublishLong = `Publish stores all scripts and values of a change set in one transaction. If one of them
is wrong or refused, nothing is stored.

If one of the scripts has tests, or there is a rollout, all of it is one candidate. It goes
live when every script has passed every step, and is given up when one fails. Until then
only calls of its candidates read its values. Otherwise all of it is live at once.

What differs from what runs is part of the change set. The same file published again
changes nothing, unless the change set was given up: then it begins again.

A change set goes live as a whole: if somebody holds one of its scripts, or the registry
is frozen, publish stores nothing and exits with 9. --lift-hold lifts the holds in the same
transaction, and needs the role release. Use it after "scriptctl changeset rollback", which
holds the scripts.

--wait waits until all scripts are live everywhere, or prints why the change set failed.
It does not wait for values without scripts.`

// changeSetOptions are the flags of those who publish a change set.
type changeSetOptions struct {
	dryRun bool
	lift   bool
	sign   string
	signFlags
	changeFlags
}

func (o *changeSetOptions) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "let the registry check everything and store nothing")
	cmd.Flags().BoolVar(&o.lift, "lift-hold", false, "lift the holds of the scripts, so that the change set is published")
	cmd.Flags().StringVar(&o.sign, "sign", "", "file of the publisher's private key to sign the scripts with")
	must(cmd.MarkFlagFilename("sign"))
	o.signFlags.add(cmd)
	o.changeFlags.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
}

func (a *app) changeSetPublishCommand() *cobra.Command {
	var o changeSetOptions
	cmd := &cobra.Command{
		Use:   "publish FILE",
		Short: "Publish a change set",
		Long:  changeSetPublishLong,
		Example: `  scriptctl changeset publish cart-2.yaml --note "the new cart" --wait
  scriptctl changeset publish cart-2.yaml --dry-run
  scriptctl changeset publish cart-2.yaml --lift-hold --note "the fixed cart"`,
		Args: wantArgs(1, 1, "the file of a change set", "cart-2.yaml"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return manifestExtensions, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := manifest.LoadChangeSet(args[0])
			if err != nil {
				return usage(err)
			}
			if len(set.Scripts)+len(set.Values) == 0 {
				return usage(&manifest.Error{
					File: set.File, Line: set.Line, Column: 1, Field: "spec", Message: "has neither scripts nor values: add some with scriptctl changeset add " + set.File,
				})
			}
			return a.publishChangeSet(cmd.Context(), set, &o)
		},
	}
	o.add(cmd)
	return cmd
}

// publishedSetView is the result of a publish.
type publishedSetView struct {
	ChangeSet string                `json:"changeSet"` // tenant/name
	Outcome   string                `json:"outcome"`   // live, "on trial", unchanged, "would be live" or "would be on trial"
	State     script.ChangeSetState `json:"state,omitempty"`
	Changed   bool                  `json:"changed"`
	Revision  script.Revision       `json:"revision,omitempty"`
	Scripts   []publishView         `json:"scripts"`
	Values    []stagedView          `json:"values"`
	Warnings  []string              `json:"warnings,omitempty"`
}

// stagedView is the outcome for one value.
type stagedView struct {
	Tenant  string        `json:"tenant"`
	Key     string        `json:"key"`
	Outcome string        `json:"outcome"` // published, staged, unchanged, "would be published" or "would be staged"
	Version uint64        `json:"version,omitempty"`
	Digest  script.Digest `json:"digest"`
	Size    int           `json:"size"`
}

// publishChangeSet publishes what was read, of a document or without one.
func (a *app) publishChangeSet(ctx context.Context, set *manifest.ChangeSet, o *changeSetOptions) error {
	request, err := a.changeSetRequest(ctx, set, o)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	result, err := client.PublishChangeSet(ctx, request)
	if err != nil {
		return namedInSet(set, err)
	}
	v := viewOfPublishedSet(set, &result, o.dryRun)
	if err := a.print(v, func(w io.Writer) { fmt.Fprint(w, v) }); err != nil {
		return err
	}
	for _, warning := range v.Warnings {
		a.warn(plain("change set " + v.ChangeSet + ": " + warning))
	}
	if err := a.awaitIf(ctx, &o.wait, goalsOf(result.Releases)); err != nil {
		return err
	}
	if o.wait.wait && v.State == script.ChangeSetOnTrial && a.output == formatTable {
		fmt.Fprintf(a.Out, "change set %s live\n", v.ChangeSet)
	}
	return nil
}

// changeSetRequest is what publishing the set asks for.
func (a *app) changeSetRequest(ctx context.Context, set *manifest.ChangeSet, o *changeSetOptions) (registryclient.ChangeSetRequest, error) {
	write, err := a.writeAs(&o.changeFlags)
	if err != nil {
		return registryclient.ChangeSetRequest{}, err
	}
	if err := check(set.Scripts); err != nil {
		return registryclient.ChangeSetRequest{}, err
	}
	if o.sign != "" {
		if err := a.signAll(ctx, set.Scripts, o.sign, &o.signFlags); err != nil {
			return registryclient.ChangeSetRequest{}, err
		}
	}
	request := set.Publish()
	request.DryRun, request.LiftHold = o.dryRun, o.lift
	request.ChangeSetWrite = registryclient.ChangeSetWrite{Author: write.Author, Note: write.Note, Owner: write.Owner, Force: write.Force}
	return request, nil
}

func goalsOf(releases []script.Release) goals {
	all := make(goals, len(releases))
	for i := range releases {
		all[releases[i].Name] = goalOf(&releases[i])
	}
	return all
}

// namedInSet returns err with its place, or else with the name of the change set.
func namedInSet(set *manifest.ChangeSet, err error) error {
	located := set.Locate(err)
	if _, ok := errors.AsType[*manifest.Error](located); ok {
		return located
	}
	return about("change set "+set.Tenant+"/"+set.Name, err)
}

func viewOfPublishedSet(set *manifest.ChangeSet, result *registryclient.ChangeSetResult, dryRun bool) *publishedSetView {
	made := &result.Set
	v := &publishedSetView{
		ChangeSet: set.Tenant + "/" + set.Name, Outcome: "unchanged", State: made.State, Changed: result.Changed, Revision: made.Revision,
		Scripts: []publishView{}, Values: []stagedView{}, Warnings: result.Warnings,
	}
	isNew := result.Changed && len(made.Scripts)+len(made.Values) > 0
	if isNew {
		v.Outcome = stateText(made.State)
		if dryRun {
			v.Outcome = "would be " + v.Outcome
		}
	}
	for i := range set.Scripts {
		p := registryclient.Published{Release: result.Releases[i], Version: result.Releases[i].Active}
		if c := p.Release.Candidate; c != nil {
			p.Version = c.Version
		}
		p.Changed = isNew && slices.ContainsFunc(made.Scripts, func(s script.ChangedScript) bool { return s.Name == p.Release.Name.Script })
		v.Scripts = append(v.Scripts, viewOfPublished(&set.Scripts[i], &p, dryRun))
	}
	for _, value := range set.Values {
		v.Values = append(v.Values, viewOfStaged(set.Tenant, value, made, isNew, dryRun))
	}
	return v
}

func viewOfStaged(tenant string, value manifest.Value, made *script.ChangeSet, isNew, dryRun bool) stagedView {
	s := stagedView{Tenant: tenant, Key: value.Key, Outcome: "unchanged", Digest: script.DigestOf(value.Content), Size: len(value.Content)}
	i := slices.IndexFunc(made.Values, func(v script.ChangedValue) bool { return v.Key == value.Key })
	if i < 0 {
		return s
	}
	s.Version = made.Values[i].Version
	switch {
	case !isNew:
		return s
	case made.State == script.ChangeSetLive:
		s.Outcome = "published"
	default:
		s.Outcome = "staged"
	}
	if dryRun {
		s.Outcome, s.Version = "would be "+s.Outcome, 0
	}
	return s
}

// stateText says in words where a change set is.
func stateText(s script.ChangeSetState) string {
	switch s {
	case script.ChangeSetOnTrial:
		return "on trial"
	case script.ChangeSetLive:
		return "live"
	case script.ChangeSetFailed:
		return "failed"
	case script.ChangeSetRolledBack:
		return "rolled back"
	}
	return plain(string(s))
}

// String has a line for each script, for each value and for the change set.
func (v *publishedSetView) String() string {
	text := ""
	for _, s := range v.Scripts {
		text += fmt.Sprintln(s)
	}
	for _, s := range v.Values {
		text += "value " + s.Tenant + "/" + s.Key
		if s.Version != 0 {
			text += fmt.Sprintf(" v%d", s.Version)
		}
		text += fmt.Sprintf(" %s %s\n", s.Digest.Short(), s.Outcome)
	}
	text += "change set " + v.ChangeSet + " " + v.Outcome
	switch {
	case v.Outcome == stateText(script.ChangeSetOnTrial):
		text += ": scriptctl changeset status " + v.ChangeSet
	case v.Outcome != "unchanged":
	case v.State == script.ChangeSetOnTrial:
		text += ", on trial: scriptctl changeset status " + v.ChangeSet
	case v.Changed:
		text += ": its scripts run the same versions, and only their holds or settings changed"
	default:
		text += ": all of it is live already"
	}
	return text + "\n"
}
