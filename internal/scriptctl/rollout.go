package scriptctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

const rolloutLong = `Rollout shows and controls a canary rollout. A new version is a candidate until it has
passed the script's tests on every agent and all steps of the rollout. Until then the
version before it stays active.

The manifest states tests and steps, in spec.tests and spec.rollout.

If the candidate is part of a change set ("scriptctl changeset"), promote, abort, retry and
approve act on all of it.`

// steerLong is what all commands that steer say of the version.
const steerLong = `

With VERSION, nothing changes if another version is the candidate by now.`

func (a *app) rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show, approve, promote, abort or retry a new version that is tested or rolled out",
		Long:  rolloutLong,
		Example: `  scriptctl rollout status acme/route
  scriptctl rollout explain acme/route
  scriptctl rollout diff acme/route
  scriptctl rollout abort acme/route --note "carts were lost"
  scriptctl rollout promote acme/route --wait`,
	}
	cmd.AddCommand(
		a.rolloutStatusCommand(),
		a.rolloutExplainCommand(),
		a.rolloutDiffCommand(),
		a.steerCommand(registryclient.Promote, "promote", "Make the candidate live everywhere at once",
			"Promote makes the candidate the active version on all agents at once. It skips tests\nand steps, and also promotes a failed candidate."),
		a.steerCommand(registryclient.Abort, "abort", "Abort the candidate, so that the version before it runs everywhere",
			"Abort makes all agents run the active version again. The version stays the candidate:\nyou can retry or promote it. State the reason with --note. Its limits, config and\ntests end with it: they belong to the version."),
		a.steerCommand(registryclient.Retry, "retry", "Start the candidate again, with its tests and from its first step",
			"Retry starts the candidate again, also a failed one. Its tests run on every agent, and\nit goes through all steps."),
		a.steerCommand(registryclient.Approve, "approve", "Let the candidate go on after a step that needs an approval, or after a pause",
			"Approve lets the candidate go on when its step is over. A step needs that if the manifest\nsays \"approval: true\". A candidate that is paused (\"onDeadline: pause\") goes on, too. State\nthe reason with --note. With --step, nothing changes if the candidate is in another step\nby now."),
	)
	return cmd
}

var steerExamples = map[registryclient.Steering]string{
	registryclient.Promote: "  scriptctl rollout promote acme/route --wait\n  scriptctl rollout promote acme/route 8",
	registryclient.Abort:   "  scriptctl rollout abort acme/route --note \"carts were lost\"",
	registryclient.Retry:   "  scriptctl rollout retry acme/route --wait --timeout 1h",
	registryclient.Approve: "  scriptctl rollout approve acme/route --note \"carts are well\"\n  scriptctl rollout approve acme/route 8 --step 2",
}

func (a *app) steerCommand(s registryclient.Steering, use, short, long string) *cobra.Command {
	var f changeFlags
	var step int
	cmd := &cobra.Command{
		Use: use + " TENANT/NAME [VERSION]", Short: short, Long: long + steerLong, Example: steerExamples[s],
		Args: wantArgs(1, 2, "a script, and optionally the candidate's version", "tenant/name [7]"), ValidArgsFunction: a.completeNameThenVersions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, version, err := a.nameAndVersion(args)
			if err != nil {
				return err
			}
			f.starts = s == registryclient.Retry
			f.wait.anyCandidate = s == registryclient.Abort
			return a.apply(cmd.Context(), name, &f, func(ctx context.Context, c *registryclient.Client, n script.Name, w registryclient.Write) (script.Release, bool, error) {
				if version == 0 || s == registryclient.Approve && step == 0 {
					now, err := candidateNow(ctx, c, n)
					if err != nil {
						return script.Release{}, false, err
					}
					version, step = cmp.Or(version, now.Version.Number), cmp.Or(step, now.Step)
				}
				if s == registryclient.Approve {
					return c.Approve(ctx, n, version, step, w)
				}
				return c.Steer(ctx, n, s, version, w)
			})
		},
	}
	f.add(cmd)
	if s == registryclient.Approve {
		cmd.Flags().IntVar(&step, "step", 0, "approve this `step` only, from 1; without it, the step that the candidate is in")
	}
	return cmd
}

// candidateNow returns the candidate that there is, so that none that is published in the same
// moment is taken for it.
func candidateNow(ctx context.Context, c *registryclient.Client, name script.Name) (*script.Candidate, error) {
	r, err := c.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if r.Candidate == nil {
		return nil, r.NoCandidate()
	}
	return r.Candidate, nil
}

func (a *app) rolloutStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status TENANT/NAME",
		Short: "Show how far the candidate has come",
		Long: `Status shows the candidate of a script: the number of agents where it passed the tests,
its step, the number of failed calls, and the reason if it failed.

"scriptctl status --watch" shows changes as they happen.`,
		Example: "  scriptctl rollout status acme/route",
		Args:    wantScript(), ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			return a.rolloutStatus(cmd.Context(), name)
		},
	}
}

// candidacyView is how far a script's candidate has come.
type candidacyView struct {
	Script    string          `json:"script"`
	Revision  script.Revision `json:"revision"`
	Version   uint64          `json:"version"` // the active one
	Candidate *candidateView  `json:"candidate"`
	Desired   int             `json:"desired"` // agents that follow the tenant
	Trials    *trialsView     `json:"trials,omitempty"`
	Rollout   *planView       `json:"rollout,omitempty"`
	Tests     []testView      `json:"tests,omitempty"`
	Failures  []failureView   `json:"failures,omitempty"`
}

func (a *app) rolloutStatus(ctx context.Context, name script.Name) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	release, err := client.Get(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	fleet, err := client.Status(ctx, name)
	if err != nil {
		return about(name.String(), err)
	}
	if len(fleet.Scripts) == 0 || fleet.Scripts[0].Release.Deleted {
		return script.Errorf(script.NotFound, "", "there is no script %s", name)
	}
	s := &fleet.Scripts[0]
	r := &s.Release
	v := candidacyView{
		Script: name.String(), Revision: r.Revision, Version: r.Active.Number, Candidate: viewOfCandidate(r),
		Desired: s.Desired, Trials: viewOfTrials(s.Trials), Rollout: viewOfPlan(*r.Plan()),
		Tests: viewOfTests(testsOf(&release)), Failures: viewOfStatus(s).Failures,
	}
	return a.print(v, func(w io.Writer) {
		if r.Candidate == nil {
			fmt.Fprintf(w, "%s has no candidate: v%d is the active version\n", name, r.Active.Number)
			if s.Failed > 0 {
				fmt.Fprintln(w, "failures: "+failureList(s))
			}
			return
		}
		fmt.Fprintln(w, summary(r))
		columns(w, v.rows(s))
	})
}

// testsOf returns the tests of the candidate, or, without one, of the active version.
func testsOf(r *script.Release) []script.Test {
	if r.Candidate != nil {
		return r.Candidate.Spec.Tests
	}
	return r.Settings.Tests
}

func (v *candidacyView) rows(s *registryclient.ScriptStatus) [][]string {
	c := s.Release.Candidate
	rows := [][]string{
		{"active:", fmt.Sprintf("v%d on %d/%d agents", s.Release.Active.Number, s.Active, s.Desired)},
		{"candidate:", fmt.Sprintf("v%d %s, attempt %d", c.Version.Number, c.Version.Digest.Short(), attempt(c))},
		{"since:", clock(c.Since)},
	}
	rows = append(rows, v.Candidate.ChangeSet.rows()...)
	t := s.Trials
	if t == nil {
		t = &registryclient.Trials{}
	}
	if n := len(v.Tests); n > 0 {
		line := fmt.Sprintf("%d, passed on %d/%d agents", n, t.Passed, s.Desired)
		if t.Failed > 0 {
			line += fmt.Sprintf(", failed on %d", t.Failed)
		}
		rows = append(rows, []string{"tests:", line})
	}
	if after := v.Rollout; after != nil && len(after.After) > 0 {
		rows = append(rows, []string{"after:", strings.Join(after.After, ", ")})
	}
	if plan := s.Release.Plan(); len(plan.Steps) > 0 {
		rows = append(rows, []string{"steps:", stepsText(*plan)},
			[]string{"runs on:", fmt.Sprintf("%d/%d agents%s", t.Running, s.Desired, callsText(t))})
	}
	if t.Evidence != "" {
		rows = append(rows, []string{"evidence:", plain(t.Evidence)})
	}
	if len(c.Lost) > 0 {
		rows = append(rows, []string{"lost:", plain(strings.Join(c.Lost, ", "))})
	}
	if t.Why != "" {
		rows = append(rows, []string{"waits:", plain(t.Why)})
	}
	if t.Waiting > 0 {
		rows = append(rows, []string{"waits for:", plain(waitingText(t))})
	}
	if s.Failed > 0 {
		rows = append(rows, []string{"failures:", failureList(s)})
	}
	return rows
}

// stepsText says in words what the steps are: "10 % for 10m, 50 %".
func stepsText(p script.Plan) string {
	steps := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		steps[i] = s.String()
		if s.Pause > 0 {
			steps[i] += " for " + wholeDuration(s.Pause)
		}
		if s.Approval {
			steps[i] += " until it is approved"
		}
		if !s.Gate.IsZero() {
			steps[i] += " until gate " + plain(s.Gate.String()) + " passes"
		}
	}
	text := strings.Join(steps, ", ")
	if p.Key != "" {
		text += "; the key is " + string(p.Key)
	}
	if p.MaxErrorPercent != nil {
		text += fmt.Sprintf("; at most %v %% of the calls may fail", *p.MaxErrorPercent)
	}
	if p.MaxErrorIncrease != nil {
		text += fmt.Sprintf("; at most %v %% more of the calls than of the active version's may fail", *p.MaxErrorIncrease)
	}
	if p.MaxDiffPercent != nil {
		text += fmt.Sprintf("; at most %v %% of the shadowed calls may differ", *p.MaxDiffPercent)
	}
	for name, percent := range p.MaxLatencyIncrease.Compared() {
		text += fmt.Sprintf("; %s at most %d %% slower than the active version", name, percent)
	}
	if p.ProgressDeadline > 0 {
		end := "given up"
		if p.OnDeadline == script.PauseOnDeadline {
			end = "paused"
		}
		text += "; " + end + " after " + wholeDuration(p.ProgressDeadline) + " without progress"
	}
	return text
}

// wholeDuration is d without the parts that are zero at its end: "10m", not "10m0s".
func wholeDuration(d time.Duration) string {
	s := d.String()
	for _, part := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, part) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// waitingText says which agents a candidate waits for, and why for the first of them, if it
// says so: "agent-1 (disk: it is full), agent-2 and 3 more".
func waitingText(t *registryclient.Trials) string {
	text := strings.Join(t.WaitingFor, ", ")
	if t.WaitingWhy != "" && len(t.WaitingFor) > 0 {
		first := t.WaitingFor[0]
		text = fmt.Sprintf("%s (%s)%s", first, t.WaitingWhy, text[len(first):])
	}
	if more := t.Waiting - len(t.WaitingFor); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// callsText says what became of the candidate's calls: ", 2 of 40 calls failed".
func callsText(t *registryclient.Trials) string {
	if t == nil || t.Calls == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of %d calls failed", t.FailedCalls, t.Calls)
}

// candidateText is candidateState, and why the candidate was given up.
func candidateText(r *script.Release) string {
	text := candidateState(r)
	switch c := r.Candidate; {
	case c == nil:
	case c.Failed != "":
		text += ": " + plain(c.Failed)
	case c.Frozen != "":
		text += " " + plain(c.Frozen)
	}
	return text
}

// candidateState says in words where the candidate is: "candidate v2 in step 1 of 3 (10 %)";
// "" if there is none.
func candidateState(r *script.Release) string {
	c := r.Candidate
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("candidate v%d ", c.Version.Number)
	if c.Set != nil {
		text += "of " + plain(c.Set.String()) + " "
	}
	switch r.CandidateState() {
	case script.CandidateFailed:
		return text + "failed"
	case script.CandidateFrozen:
		return text + "frozen"
	case script.CandidateTesting:
		return text + "testing"
	}
	step, ok := r.StepOf()
	switch {
	case !ok && len(r.Plan().After) > 0:
		return text + "waits for other scripts"
	case !ok:
		return text + "rolling out"
	}
	return text + fmt.Sprintf("in step %d of %d (%s)", c.Step, len(r.Plan().Steps), step)
}

// candidacyLine says how far a candidate has come:
// "acme/route v1 sha256:ab12cd34 active, candidate v2 testing, passed on 1/3 agents".
func candidacyLine(s *registryclient.ScriptStatus) string {
	r := &s.Release
	return fmt.Sprintf("%s %s, %s", r.Name, versionText(r), candidateText(r)) + trialsText(s)
}

// trialsText says what the agents say of a candidate that is on its way; "" of another.
func trialsText(s *registryclient.ScriptStatus) string {
	t, state := s.Trials, s.Release.CandidateState()
	if t == nil || state == script.CandidateFailed || state == script.CandidateFrozen {
		return ""
	}
	if state == script.CandidateRollingOut {
		return fmt.Sprintf(", on %d/%d agents", t.Running, s.Desired) + callsText(t)
	}
	text := fmt.Sprintf(", passed on %d/%d agents", t.Passed, s.Desired)
	if t.Failed > 0 {
		text += fmt.Sprintf(", failed on %d", t.Failed)
	}
	return text
}
