package scriptctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// waitFlags say whether, and for how long, to wait for the fleet.
type waitFlags struct {
	wait    bool
	timeout time.Duration
	// anyCandidate: it is enough that every agent has taken the change, whatever has become
	// of a candidate.
	anyCandidate bool
}

func (f *waitFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until every agent runs it; of a new version with tests or steps, until it is live everywhere or given up")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long --wait waits")
}

// goals are what scripts are to reach on every agent.
type goals map[script.Name]goal

// goal is a revision, and the version that is on its way to being active with it; 0 if
// there is none.
type goal struct {
	revision  script.Revision
	candidate uint64
}

// goalOf returns what a release is to reach.
func goalOf(r *script.Release) goal {
	g := goal{revision: r.Revision}
	if r.Candidate != nil {
		g.candidate = r.Candidate.Version.Number
	}
	return g
}

func (a *app) awaitIf(ctx context.Context, f *waitFlags, g goals) error {
	if !f.wait || len(g) == 0 {
		return nil
	}
	return a.await(ctx, g, f)
}

// selection returns the narrowest selection that holds all goals.
func (g goals) selection() script.Name {
	var selected script.Name
	for name := range g {
		switch {
		case selected.IsZero():
			selected = name
		case selected.Tenant != name.Tenant:
			return script.Name{}
		case selected != name:
			selected.Script = ""
		}
	}
	return selected
}

var errTimeUp = errors.New("the time is up")

// await waits until every agent runs what the goals name, and shows how far they
// are. A registry that goes away meanwhile is waited for as well.
func (a *app) await(ctx context.Context, g goals, f *waitFlags) error {
	timeout := f.timeout
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(timeout, func() { cancel(errTimeUp) }).Stop()
	w := &waiter{app: a, anyCandidate: f.anyCandidate, open: maps.Clone(g), last: make(map[script.Name]registryclient.ScriptStatus)}
	if a.ErrTerminal {
		w.canvas = &canvas{out: a.Err, size: a.Size}
	}
	for {
		err := w.watch(ctx, g.selection())
		switch {
		case len(w.open) == 0:
			return w.outcome()
		case errors.Is(context.Cause(ctx), errTimeUp):
			return w.timeUp(timeout, err)
		case ctx.Err() != nil:
			return w.interrupted()
		case script.KindOf(err) != script.Unavailable:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// waiter follows the status until each of its goals is decided.
type waiter struct {
	app          *app
	anyCandidate bool    // as in waitFlags
	canvas       *canvas // nil when there is no terminal
	open         goals
	last         map[script.Name]registryclient.ScriptStatus
	faults       []error
}

func (w *waiter) watch(ctx context.Context, selected script.Name) error {
	for fleet, err := range w.app.client.WatchStatus(ctx, selected) {
		if err != nil {
			return err
		}
		w.see(&fleet)
		if len(w.open) == 0 {
			return nil
		}
	}
	return nil
}

func (w *waiter) see(fleet *registryclient.FleetStatus) {
	var done, progress []string
	for i := range fleet.Scripts {
		s := &fleet.Scripts[i]
		name := s.Release.Name
		goal, ok := w.open[name]
		if !ok || s.Release.Revision < goal.revision {
			continue
		}
		w.last[name] = *s
		reached, err := w.reached(s, goal)
		switch {
		case err != nil:
			delete(w.open, name)
			w.faults = append(w.faults, err)
		case reached:
			delete(w.open, name)
			done = append(done, progressLine(s))
		default:
			progress = append(progress, bar(s)+" "+progressLine(s))
		}
	}
	if w.canvas != nil {
		w.canvas.clear()
	}
	if w.app.output == formatTable {
		for _, line := range done {
			fmt.Fprintln(w.app.Out, line)
		}
	}
	if w.canvas != nil {
		w.canvas.draw(progress)
	}
}

// reached reports whether the goal is, and returns an error if it will not be.
func (w *waiter) reached(s *registryclient.ScriptStatus, g goal) (bool, error) {
	r := &s.Release
	switch c := r.Candidate; {
	case c != nil && w.anyCandidate:
		return taken(s)
	case c != nil && c.Failed != "":
		return false, errors.New(progressLine(s))
	case c != nil:
		return false, nil
	case s.Converged && r.Active.Number < g.candidate && !w.anyCandidate:
		return false, fmt.Errorf("%s: v%d is not live: somebody chose another version meanwhile", progressLine(s), g.candidate)
	case s.Converged:
		return true, nil
	case s.Failed > 0 && s.Waiting() == 0:
		return false, fmt.Errorf("%s: %s", progressLine(s), failureList(s))
	}
	return false, nil
}

// taken reports whether every connected agent has activated the release, which has a
// candidate, and returns an error if one could not. On which agents the candidate failed
// its tests does not matter.
func taken(s *registryclient.ScriptStatus) (bool, error) {
	if s.Desired-s.Unknown <= 0 || s.SlowestAgent != "" {
		return false, nil
	}
	stuck := *s
	stuck.Failures = slices.DeleteFunc(slices.Clone(s.Failures), func(f registryclient.AgentFailure) bool {
		return f.Err != nil && strings.HasPrefix(f.Err.Field, "tests[")
	})
	unnamed := s.Trials != nil && s.Failed > s.Trials.Failed // a status names few
	if len(stuck.Failures) > 0 || unnamed {
		return false, fmt.Errorf("%s; not every agent could take the change: %s", progressLine(s), failureList(&stuck))
	}
	return true, nil
}

// outcome is for when nothing is open any more.
func (w *waiter) outcome() error {
	if len(w.faults) == 0 {
		return nil
	}
	return &exitError{code: exitNotConverged, err: errors.Join(w.faults...)}
}

func (w *waiter) timeUp(timeout time.Duration, watchErr error) error {
	faults := w.faults
	for _, name := range slices.SortedFunc(maps.Keys(w.open), compareNames) {
		s, seen := w.last[name]
		switch {
		case !seen && script.KindOf(watchErr) == script.Unavailable:
			faults = append(faults, fmt.Errorf("%s: not known after %v: %w", name, timeout, watchErr))
		case !seen:
			faults = append(faults, fmt.Errorf("%s: the registry had nothing to say of revision %d after %v", name, w.open[name].revision, timeout))
		case s.Desired == 0:
			faults = append(faults, fmt.Errorf("%s: no agent is connected after %v: start one, or do not --wait", name, timeout))
		case s.Release.Candidate != nil && w.anyCandidate && s.SlowestAgent != "":
			faults = append(faults, fmt.Errorf("%s, waiting for %s after %v", progressLine(&s), plain(s.SlowestAgent), timeout))
		default:
			faults = append(faults, fmt.Errorf("%s after %v", progressLine(&s), timeout))
		}
	}
	return &exitError{code: exitNotConverged, err: errors.Join(faults...)}
}

// interrupted is for a person who does not wait any longer.
func (w *waiter) interrupted() error {
	faults := w.faults
	for _, name := range slices.SortedFunc(maps.Keys(w.open), compareNames) {
		far := fmt.Sprintf("%s: nothing was heard of revision %d", name, w.open[name].revision)
		if s, seen := w.last[name]; seen {
			far = progressLine(&s)
		}
		faults = append(faults, fmt.Errorf("%s when the wait was interrupted: the change stays, see scriptctl status %s", far, name))
	}
	return &exitError{code: exitNotConverged, err: errors.Join(faults...)}
}

func compareNames(a, b script.Name) int { return strings.Compare(a.String(), b.String()) }

// progressLine says in a line how far a release has come:
// "acme/route v4 sha256:ab12cd34 active on 3/3 agents in 6.1 ms".
func progressLine(s *registryclient.ScriptStatus) string {
	if s.Release.Candidate != nil {
		return candidacyLine(s)
	}
	r := &s.Release
	line := fmt.Sprintf("%s %s on %d/%d agents", r.Name, versionText(r), s.Active, s.Desired)
	if s.Took > 0 {
		line += " in " + milliseconds(s.Took)
	}
	if s.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Unknown > 0 {
		line += fmt.Sprintf(", %d unknown", s.Unknown)
	}
	if s.Lagging > 0 {
		line += fmt.Sprintf(", %d lagging", s.Lagging)
	}
	if s.Waiting() > 0 && s.SlowestAgent != "" {
		line += ", waiting for " + plain(s.SlowestAgent)
	}
	return line
}

// versionText says what the release has agents run: "v4 sha256:ab12cd34 pinned and active".
func versionText(r *script.Release) string {
	what := "active"
	switch {
	case r.Deleted:
		return "deleted"
	case r.Untried():
		what = "not live yet"
	case !r.Enabled:
		what = "disabled"
	}
	if word := pinWord(r); word != "" {
		what = word + " and " + what
	}
	return fmt.Sprintf("v%d %s %s", r.Active.Number, r.Active.Digest.Short(), what)
}

func failureList(s *registryclient.ScriptStatus) string {
	if len(s.Failures) == 0 {
		return "no agent gave a reason"
	}
	var reasons []string
	for _, f := range viewOfStatus(s).Failures {
		said := f.Message
		if strings.HasPrefix(f.Field, "tests[") {
			said = f.Field + ": " + said
		}
		reasons = append(reasons, plain(f.Agent+": "+said))
	}
	return strings.Join(reasons, "; ")
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// barWidth is the width of a bar, with its ends.
const barWidth = 11

// bar draws how many of the agents run the release.
func bar(s *registryclient.ScriptStatus) string {
	const width = barWidth - 2
	full := 0
	if s.Desired > 0 {
		full = min(width, width*s.Active/s.Desired)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}
