package scriptctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// topOrders are the values of --sort.
var topOrders = []string{"calls", "errors", "p50", "p99"}

const (
	maxTop       = 1000
	maxTopPeriod = 10 * time.Second
	topRetry     = time.Second // pause after a temporary error
)

// topOptions are the flags of top.
type topOptions struct {
	once   bool
	sort   string
	limit  int
	period time.Duration
}

// topView is the output of top in -o json and -o yaml.
type topView struct {
	Time      time.Time   `json:"time"`
	Agents    int         `json:"agents"` // number of agents that answered
	Missing   int         `json:"missingAgents"`
	Truncated bool        `json:"truncated"`
	Total     ratesView   `json:"total"`
	Scripts   []ratesView `json:"scripts"`
}

type ratesView struct {
	Script          string  `json:"script,omitempty"`
	CallsPerSecond  float64 `json:"callsPerSecond"`
	ErrorsPerSecond float64 `json:"errorsPerSecond"`
	P50Seconds      float64 `json:"p50Seconds"`
	P99Seconds      float64 `json:"p99Seconds"`
	Processors      float64 `json:"processors"`
	Agents          int     `json:"agents,omitempty"` // number of agents with calls
}

func (a *app) topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [TENANT | TENANT/NAME]",
		Short: "Show the scripts that are called most now",
		Long: `top has every agent count calls for two seconds, and adds them up over the fleet. For each
script it shows calls and errors per second, and the 50th and 99th percentile of latency.
On a terminal it repeats this until Ctrl-C. Otherwise, and with --once or another --output,
it counts once.

Latencies are bounds of a histogram, at most 9 % too high. Each agent has separate counts
for up to 1,000 scripts (--metrics-scripts). Calls of other scripts are in the total alone.
To see the scripts of all tenants, you need the role read on "*".`,
		Example:           "  scriptctl top acme --sort p99\n  scriptctl top --once --limit 5 -o json",
		Args:              wantArgs(0, 1, "one tenant or script at most", "[tenant/name]"),
		ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := o.filter(args)
			if err != nil {
				return usage(err)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if o.once || !a.OutTerminal || a.output != formatTable {
				return a.topOnce(cmd.Context(), client, f)
			}
			return a.topLive(cmd.Context(), client, f)
		},
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "count once, and exit")
	cmd.Flags().StringVar(&o.sort, "sort", topOrders[0], "which scripts come first: "+strings.Join(topOrders, ", "))
	cmd.Flags().IntVar(&o.limit, "limit", 20, "show at most this many scripts")
	cmd.Flags().DurationVar(&o.period, "period", 2*time.Second, "how long agents count, at most 10s")
	must(cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topOrders, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (o *topOptions) filter(args []string) (f registryclient.TopFilter, err error) {
	f.Sort, f.Limit, f.Period = o.sort, o.limit, o.period
	switch {
	case !slices.Contains(topOrders, o.sort):
		return f, script.Errorf(script.Invalid, "--sort", "%.80q is no order: want %s", o.sort, strings.Join(topOrders, ", "))
	case o.limit < 1 || o.limit > maxTop:
		return f, script.Errorf(script.Invalid, "--limit", "is %d, want 1 to %d", o.limit, maxTop)
	case o.period <= 0 || o.period > maxTopPeriod:
		return f, script.Errorf(script.Invalid, "--period", "is %v, want more than 0 and at most %v", o.period, maxTopPeriod)
	}
	if len(args) == 1 {
		f.Of, err = parseSelection(args[0])
	}
	return f, err
}

func (a *app) topOnce(ctx context.Context, client *registryclient.Client, f registryclient.TopFilter) error {
	found, err := client.Top(ctx, f)
	if err != nil {
		return err
	}
	if err := a.checkAnswers(&found.Result, topText(f.Of), nil); err != nil {
		return err
	}
	view := viewOfTop(&found)
	return a.print(view, func(w io.Writer) {
		fmt.Fprintln(w, topLine(&view))
		columns(w, topRows(&found))
		if found.Truncated {
			a.notice("there are more scripts: --limit shows up to %d", maxTop)
		}
	})
}

// topText describes the selected tenants in errors.
func topText(of script.Name) string {
	if of.Tenant == "" {
		return "any tenant"
	}
	return of.Tenant
}

// topRetryable are the kinds of temporary errors: the registry or agents are unavailable or busy.
var topRetryable = []script.Kind{script.Unavailable, script.Limit, script.Overloaded}

// topLive counts and redraws until ctx is done. After the first result, it retries temporary errors.
func (a *app) topLive(ctx context.Context, client *registryclient.Client, f registryclient.TopFilter) error {
	screen, table := &canvas{out: a.Out, size: a.Size}, &grid{}
	shown := false
	for {
		found, err := client.Top(ctx, f)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is how a watch is meant to end
		case err == nil:
			shown = true
			view := viewOfTop(&found)
			lines := append([]string{topLine(&view)}, topNotes(&found)...) // first, so that a small terminal shows them
			screen.draw(append(lines, table.lines(topRows(&found))...))
		case !shown || !slices.Contains(topRetryable, script.KindOf(err)):
			return err
		default:
			screen.draw([]string{plain(err.Error()) + "; trying again"})
			select {
			case <-ctx.Done():
			case <-time.After(topRetry):
			}
		}
	}
}

// topNotes returns notes about missing scripts and agents.
func topNotes(found *registryclient.Top) (notes []string) {
	r := &found.Result
	if found.Truncated {
		notes = append(notes, "there are more scripts")
	}
	if r.Older > 0 {
		notes = append(notes, agentsThat(r.Older, r.OlderAgents, "is", "are")+" too old to answer")
	}
	if r.Silent > 0 {
		notes = append(notes, agentsThat(r.Silent, r.SilentAgents, "did", "did")+" not answer in time")
	}
	if r.Failed > 0 && len(r.Failures) > 0 {
		notes = append(notes, fmt.Sprintf("%d agents have no whole answer, such as %s: %s", r.Failed, plain(r.Failures[0].Agent), plain(r.Failures[0].Err.Message)))
	}
	return notes
}

func viewOfTop(found *registryclient.Top) topView {
	r := &found.Result
	v := topView{
		Time: time.Now().UTC(), Agents: r.Answered, Missing: r.Silent + r.Older + r.Failed, Truncated: found.Truncated,
		Total: viewOfRates(&found.Total), Scripts: make([]ratesView, 0, len(found.Scripts)),
	}
	for i := range found.Scripts {
		one := viewOfRates(&found.Scripts[i])
		one.Script, one.Agents = found.Scripts[i].Script.String(), found.Scripts[i].Agents
		v.Scripts = append(v.Scripts, one)
	}
	return v
}

func viewOfRates(r *registryclient.ScriptRates) ratesView {
	return ratesView{CallsPerSecond: r.Calls, ErrorsPerSecond: r.Errors, P50Seconds: r.P50.Seconds(), P99Seconds: r.P99.Seconds(), Processors: r.Processors}
}

// topLine returns the line with the totals.
func topLine(v *topView) string {
	return fmt.Sprintf("%s  %d of %d agents  %s calls/s  %s errors/s  %.2f processors",
		v.Time.Local().Format(time.TimeOnly), v.Agents, v.Agents+v.Missing, rate(v.Total.CallsPerSecond), rate(v.Total.ErrorsPerSecond), v.Total.Processors)
}

func topRows(found *registryclient.Top) [][]string {
	rows := [][]string{{"SCRIPT", "CALLS/S", "ERRORS/S", "P50", "P99", "PROCESSORS", "AGENTS"}}
	for i := range found.Scripts {
		r := &found.Scripts[i]
		rows = append(rows, []string{
			r.Script.String(), rate(r.Calls), rate(r.Errors), latency(r.P50), latency(r.P99), strconv.FormatFloat(r.Processors, 'f', 2, 64), strconv.Itoa(r.Agents),
		})
	}
	return rows
}

// rate formats a number per second with at least three digits.
func rate(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 10:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case n < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// latency formats a latency with three digits.
func latency(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
