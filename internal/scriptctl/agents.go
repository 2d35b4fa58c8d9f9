package scriptctl

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (a *app) agentsCommand() *cobra.Command {
	var troubled bool
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show the agents, and how far each has come",
		Long: `Agents shows every agent of the fleet: the revision that it activated, its lag, its
last report, its software version, tenants and labels. LAG is the age of the oldest
change that the agent has not activated. KEYS are the keys that signed the files on
its disk. Failures to activate a script follow below, with the script's line. An agent
of an older edition that does not know a tenant's strict audit has failed, too.

An agent that has not reported for 15 seconds is unknown. The registry forgets it
after an hour. A foreign agent belongs to another fleet: it keeps running the scripts
of that fleet, and takes nothing from this registry. An agent that holds removals keeps scripts whose
records the registry has lost; why, and what to do, follows below.`,
		Example: "  scriptctl agents --troubled\n  scriptctl agents -o json",
		Args:    wantArgs(0, 0, "no argument", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.agents(cmd.Context(), troubled)
		},
	}
	cmd.AddCommand(a.agentProfileCommand())
	cmd.Flags().BoolVar(&troubled, "troubled", false, "show only agents that failed, lag behind, hold removals, are unknown or foreign")
	return cmd
}

// agentView is an agent in -o json and -o yaml: see the views.
type agentView struct {
	Agent          string              `json:"agent"`
	ForeignFleet   string              `json:"foreignFleet,omitempty"`
	Held           string              `json:"held,omitempty"`
	Revision       script.Revision     `json:"activatedRevision"`
	Behind         int                 `json:"behind"` // releases
	LagSeconds     float64             `json:"lagSeconds"`
	Unknown        bool                `json:"unknown"`
	UnheardSeconds float64             `json:"unheardSeconds"`
	Failed         int                 `json:"failed"`
	Failures       []scriptFailureView `json:"failures,omitempty"` // at most ten
	Software       string              `json:"software,omitempty"`
	Labels         map[string]string   `json:"labels,omitempty"`
	Tenants        []string            `json:"tenants"` // globs
	DiskKeys       []string            `json:"diskKeys,omitempty"`
	Drifts         uint64              `json:"drifts"`
}

type scriptFailureView struct {
	Script   string          `json:"script"`
	Revision script.Revision `json:"revision"`
	Kind     script.Kind     `json:"kind"`
	Message  string          `json:"message"`
	Line     int             `json:"line,omitempty"`
}

func (a *app) agents(ctx context.Context, troubled bool) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	views := []agentView{}
	rows := [][]string{{"AGENT", "STATUS", "REVISION", "LAG", "HEARD", "SOFTWARE", "TENANTS", "KEYS", "LABELS"}}
	for agent, err := range client.Agents(ctx, troubled) {
		if err != nil {
			return err
		}
		views = append(views, viewOfAgent(&agent))
		rows = append(rows, agentRow(&agent))
	}
	return a.print(views, func(w io.Writer) {
		switch {
		case len(views) > 0:
			columns(w, rows)
			for i := range views {
				printFailures(w, &views[i])
			}
		case troubled:
			fmt.Fprintln(a.Err, "no agent is in trouble")
		default:
			fmt.Fprintln(a.Err, "no agents yet: start agentd on a node")
		}
	})
}

func viewOfAgent(a *registryclient.AgentStatus) agentView {
	v := agentView{
		Agent: a.Name, ForeignFleet: a.Foreign, Held: a.Held, Revision: a.Activated, Behind: a.Behind, LagSeconds: a.Lag.Seconds(),
		Unknown: a.Unknown, UnheardSeconds: a.UnheardFor.Seconds(), Failed: a.Failed,
		Software: a.Software, Labels: a.Labels, Tenants: a.Tenants.Globs(), DiskKeys: a.DiskKeys, Drifts: a.Drifts,
	}
	if a.Tenants.All() {
		v.Tenants = []string{"*"}
	}
	for _, f := range a.Failures {
		e := orUnsaid(f.Err)
		v.Failures = append(v.Failures, scriptFailureView{
			Script: f.Name.String(), Revision: f.Revision, Kind: e.Kind, Message: e.Message, Line: e.Line,
		})
	}
	return v
}

func agentRow(a *registryclient.AgentStatus) []string {
	lag := "-"
	if a.Behind > 0 {
		lag = a.Lag.Round(time.Millisecond).String()
	}
	labels := make([]string, 0, len(a.Labels))
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		labels = append(labels, key+"="+a.Labels[key])
	}
	return []string{
		plain(a.Name), agentState(a), strconv.FormatInt(int64(a.Activated), 10), lag,
		a.UnheardFor.Round(100*time.Millisecond).String() + " ago", orDash(a.Software), a.Tenants.String(),
		orDash(strings.Join(a.DiskKeys, ",")), orDash(strings.Join(labels, ",")),
	}
}

// agentState says in words how an agent is.
func agentState(a *registryclient.AgentStatus) string {
	var words []string
	switch {
	case a.Foreign != "":
		return "foreign"
	case a.Unknown:
		words = append(words, "unknown")
	case a.Behind > 0:
		words = append(words, fmt.Sprintf("%d behind", a.Behind))
	case a.Failed == 0:
		words = append(words, "current")
	}
	if a.Held != "" {
		words = append(words, "holds removals")
	}
	if a.Failed > 0 {
		words = append(words, fmt.Sprintf("%d failed", a.Failed))
	}
	if a.Drifts > 0 {
		words = append(words, fmt.Sprintf("drifted %dx", a.Drifts))
	}
	return strings.Join(words, ", ")
}

func printFailures(w io.Writer, v *agentView) {
	if v.Held != "" {
		fmt.Fprintf(w, "%s: %s\n", plain(v.Agent), plain(v.Held))
	}
	for _, f := range v.Failures {
		where := f.Script
		if f.Line > 0 {
			where += " line " + strconv.Itoa(f.Line)
		}
		fmt.Fprintf(w, "%s: %s: %s\n", plain(v.Agent), plain(where), plain(f.Message))
	}
	if more := v.Failed - len(v.Failures); more > 0 && v.Failed > 0 {
		fmt.Fprintf(w, "%s: and %d more\n", plain(v.Agent), more)
	}
}
