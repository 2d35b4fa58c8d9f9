package scriptctl

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/project"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ownerOfProject begins the owner of scripts that a project has applied.
const ownerOfProject = "project:"

// projectOptions are the flags of an apply for a project.
type projectOptions struct {
	project   string
	prune     bool
	yes       bool
	allowMass bool
}

func (o *projectOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.project, "project", "", "whose scripts these are (default: project of "+project.FileName+")")
	cmd.Flags().BoolVar(&o.prune, "prune", false, "delete the project's scripts that the manifests do not have any more")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "carry out the plan of a project without asking")
	cmd.Flags().BoolVar(&o.allowMass, "allow-mass-delete", false, "let --prune delete more than half of the project's scripts")
}

// find returns the name of the project; "" for none.
func (o *projectOptions) find(paths []string) (string, error) {
	name := o.project
	if name == "" {
		var err error
		if name, err = projectOf(paths); err != nil {
			return "", err
		}
	}
	switch {
	case name == "" && o.prune:
		return "", script.Errorf(script.Invalid, "--prune", "needs a project, since it deletes the scripts of one alone: set project in %s, or --project", project.FileName)
	case name == "":
		return "", nil
	}
	return name, script.ValidateLabel("--project", name)
}

// The actions of a plan.
const (
	planCreate    = "create"
	planUpdate    = "update"
	planUnchanged = "unchanged"
	planDelete    = "delete"
)

// plannedView is what becomes of one script.
type plannedView struct {
	Script  string `json:"script"`
	Action  string `json:"action"` // create, update, unchanged or delete
	Why     string `json:"why"`
	Outcome string `json:"outcome,omitempty"` // done, failed, or waiting for candidates; absent while nothing was done
	Error   string `json:"error,omitempty"`

	release *script.Release // nil for a new one
}

// projectView is the plan of a project, and what became of it.
type projectView struct {
	Project string            `json:"project"`
	Applied bool              `json:"applied"`
	Plan    []*plannedView    `json:"plan"`
	Held    []string          `json:"kept,omitempty"` // scripts that only --prune would delete
	Set     *publishedSetView `json:"changeSet,omitempty"`
}

// applyProject shows the plan for the scripts of a project, and carries it out.
func (a *app) applyProject(ctx context.Context, name string, paths []string, set *manifest.ChangeSet, o *applyOptions) error {
	if o.owner != "" {
		return usage(script.Errorf(script.Invalid, "--owner", "is that of the project %s: leave it out", name))
	}
	o.owner = ownerOfProject + name
	request, err := a.changeSetRequest(ctx, set, &o.changeSetOptions)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	v := &projectView{Project: name}
	trial, err := a.plan(ctx, client, v, set, request, o)
	if err == nil {
		err = safeToPrune(v, paths, set, &trial)
	}
	if err != nil {
		return err
	}
	changes := 0
	for _, p := range v.Plan {
		if p.Action != planUnchanged {
			changes++
		}
	}
	if trial.Changed { // also by values, or by a hold that is lifted
		changes = max(changes, 1)
	}
	a.printPlan(v, changes)
	switch {
	case o.dryRun:
		if err := a.print(v, func(io.Writer) {}); err != nil || changes == 0 {
			return err
		}
		return errChanged
	case changes == 0:
		return a.print(v, func(io.Writer) {})
	}
	if err := a.confirmPlan(changes, o); err != nil {
		return err
	}
	return a.carryOut(ctx, client, v, set, request, &trial, o)
}

// plan compares what is declared with what the registry has. It returns what a publish would do.
func (a *app) plan(ctx context.Context, client *registryclient.Client, v *projectView, set *manifest.ChangeSet, request registryclient.ChangeSetRequest, o *applyOptions) (result registryclient.ChangeSetResult, err error) {
	there := map[script.Name]*script.Release{}
	var owned []*script.Release
	for r, err := range client.List(ctx, set.Tenant) {
		if err != nil { // also a record that cannot be read: its owner is not known
			var lost unread
			_, fatal := lost.take(err)
			return result, cmp.Or(fatal, lost.err())
		}
		there[r.Name] = &r
		if r.Owner == o.owner {
			owned = append(owned, &r)
		}
	}
	request.DryRun = true
	if result, err = client.PublishChangeSet(ctx, request); err != nil {
		return result, namedInSet(set, err)
	}
	trial := viewOfPublishedSet(set, &result, true)
	declared := map[script.Name]bool{}
	for i := range set.Scripts {
		m := &set.Scripts[i]
		declared[m.Name] = true
		p := &plannedView{Script: m.Name.String(), release: there[m.Name], Action: planUnchanged, Why: "the registry has it"}
		switch {
		case p.release == nil:
			p.Action, p.Why = planCreate, "the registry does not have it"
		case trial.Scripts[i].Outcome != planUnchanged || settingsDiffer(m, p.release):
			p.Action, p.Why = planUpdate, whyUpdate(m, p.release)
		case p.release.Owner == "":
			p.Action, p.Why = planUpdate, "it has no owner, and becomes the project's"
		}
		v.Plan = append(v.Plan, p)
	}
	var gone []*plannedView
	for _, r := range owned {
		if !declared[r.Name] {
			gone = append(gone, &plannedView{Script: r.Name.String(), Action: planDelete, Why: "it is the project's, and no manifest has it", release: r})
		}
	}
	if !o.prune {
		for _, p := range gone {
			v.Held = append(v.Held, p.Script)
		}
		return result, nil
	}
	v.Plan = append(v.Plan, gone...)
	if 2*len(gone) > len(owned) && !o.allowMass {
		return result, script.Errorf(script.Denied, "--prune", "would delete %d of the %d scripts of the project %s (%s), more than half: check that all manifests are named, or use --allow-mass-delete",
			len(gone), len(owned), v.Project, some(namesOf(gone)))
	}
	return result, nil
}

func namesOf(plan []*plannedView) (names []string) {
	for _, p := range plan {
		names = append(names, p.Script)
	}
	return names
}

// settingsDiffer reports whether anything differs that belongs to no version.
func settingsDiffer(m *manifest.Manifest, r *script.Release) bool {
	same := script.Edition{Spec: m.Settings.Spec}
	same.Entrypoint = m.Entrypoint
	return len(changesOf(current(r, &same), declared(m))) > 0
}

// whyUpdate says what differs.
func whyUpdate(m *manifest.Manifest, r *script.Release) string {
	latest, ok := r.Retains(r.Latest)
	if !ok {
		latest = r.Active
	}
	if m.Settings.Artifact == "" && latest.Digest != script.DigestOf(m.Source) {
		return "the source differs: scriptctl diff -f " + m.File
	}
	return "the settings differ: scriptctl diff -f " + m.File
}

// printPlan prints it for people; programs get it with what became of it.
func (a *app) printPlan(v *projectView, changes int) {
	if a.output != formatTable {
		return
	}
	rows := [][]string{{"ACTION", "SCRIPT", "WHY"}}
	for _, p := range v.Plan {
		rows = append(rows, []string{p.Action, p.Script, plain(p.Why)})
	}
	columns(a.Out, rows)
	if len(v.Held) > 0 {
		a.notice("%s of the project %s without a manifest: %s; --prune deletes them", count(len(v.Held), "script"), v.Project, some(v.Held))
	}
	if changes == 0 {
		fmt.Fprintln(a.Out, "nothing to do")
	}
}

// confirmPlan asks whether to carry out the plan.
func (a *app) confirmPlan(changes int, o *applyOptions) error {
	if o.yes {
		return nil
	}
	if !a.InTerminal || a.forPrograms() {
		return usage(script.Errorf(script.Invalid, "--yes", "is needed to carry out the plan: there is no terminal to ask on"))
	}
	fmt.Fprintf(a.Err, "Carry out %s? The registry is %s. [y/N] ", count(changes, "change"), plain(a.way()))
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(a.Err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}

// carryOut publishes in one transaction, and then deletes one by one. What fails is listed; a rerun does the rest. While
// what is declared is a candidate, nothing is deleted: it may be what replaces the scripts, and may still be given up.
func (a *app) carryOut(ctx context.Context, client *registryclient.Client, v *projectView, set *manifest.ChangeSet, request registryclient.ChangeSetRequest, result *registryclient.ChangeSetResult, o *applyOptions) error {
	goals := goals{}
	if result.Changed {
		published, err := client.PublishChangeSet(ctx, request)
		if err != nil {
			return namedInSet(set, err)
		}
		result = &published
		v.Set = viewOfPublishedSet(set, result, false)
		goals = goalsOf(result.Releases)
		if a.output == formatTable {
			fmt.Fprint(a.Out, v.Set)
		}
	}
	v.Applied = true
	var first error
	onTrial := slices.ContainsFunc(result.Releases, func(r script.Release) bool { return r.Candidate != nil })
	if onTrial && len(v.deletes()) > 0 && o.wait.wait {
		if first = a.await(ctx, goalsOf(result.Releases), &o.wait); first != nil {
			a.printError(first)
		}
		goals, onTrial = nil, first != nil
	}
	first = firstOf(first, a.settle(ctx, client, v, onTrial, o))
	if err := a.print(v, func(io.Writer) {}); err != nil {
		return err
	}
	switch {
	case onTrial && len(v.deletes()) > 0:
		a.notice("deleted only when the candidates are live: %s; run the same command again then, or use --wait", some(v.deletes()))
	case first != nil:
		a.warn("part of the plan failed: run the same command again to do the rest")
	}
	return a.conclude(ctx, &o.wait, goals, first, false)
}

// settle deletes what the plan says, unless that waits, and notes what became of each part. It returns the first error. It
// asks no registry again that does not answer.
func (a *app) settle(ctx context.Context, client *registryclient.Client, v *projectView, waits bool, o *applyOptions) (first error) {
	var left []string
	for _, p := range v.Plan {
		switch {
		case p.Action == planUnchanged:
			continue
		case p.Action != planDelete:
			p.Outcome = "done" // it was published
			continue
		case waits:
			p.Outcome = "waiting"
			continue
		case exitCode(first) == exitUnreachable:
			p.Outcome, p.Error = "failed", "not deleted: the registry did not answer before"
			left = append(left, p.Script)
			continue
		}
		p.Outcome = "done"
		if err := a.prune(ctx, client, p, o); err != nil {
			p.Outcome, p.Error = "failed", text(err)
			a.printError(err)
			first = firstOf(first, err)
		}
	}
	if len(left) > 0 {
		a.notice("not deleted either: %s", some(left))
	}
	return first
}

// prune deletes a script, unless somebody has changed it since the plan.
func (a *app) prune(ctx context.Context, client *registryclient.Client, p *plannedView, o *applyOptions) error {
	write, err := a.writeAs(&o.changeFlags)
	if err != nil {
		return err
	}
	write.ExpectedRevision = p.release.Revision // what the plan has seen
	write.Note = cmp.Or(write.Note, "pruned")
	if _, err := client.Delete(ctx, p.release.Name, write); err != nil {
		return about(p.Script, err)
	}
	if a.output == formatTable {
		fmt.Fprintf(a.Out, "%s deleted\n", p.Script)
	}
	return nil
}
