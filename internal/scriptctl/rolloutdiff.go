package scriptctl

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

const rolloutDiffLong = `Diff shows where the results of the candidate differ from the live ones in a shadow step
("rollout.steps: [{shadow: 5}]"). Agents run the candidate after the live answer of a share
of the calls, and compare the two results.

Each sample is a call whose results differ. Agents mask what the decision log masks, and
credentials. "$" is the whole result.

  equal      The results are the same.
  different  They differ. They also differ from those of the active version when it runs
             again with the same time and random numbers.
  failed     The candidate failed, and the live call did not.
  slower     The candidate took at least twice as long, and 100 µs more.
  dropped    The agent had no time for the call.`

func (a *app) rolloutDiffCommand() *cobra.Command {
	var nodes []string
	cmd := &cobra.Command{
		Use:     "diff TENANT/NAME",
		Short:   "Show where the results of a shadowed candidate differ from the live ones",
		Long:    rolloutDiffLong,
		Example: "  scriptctl rollout diff acme/route\n  scriptctl rollout diff acme/route --node 'edge-*' -o json",
		Args:    wantScript(), ValidArgsFunction: a.completeNameThenVersions(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.parseName(args[0])
			if err != nil {
				return err
			}
			return a.rolloutDiff(cmd.Context(), name, nodes)
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "only the `agents` with these names, or patterns such as 'edge-*'")
	return cmd
}

// shadowView is what agents found in the shadow of calls.
type shadowView struct {
	Step      int    `json:"step"`
	Compared  uint64 `json:"compared"`
	Equal     uint64 `json:"equal"`
	Different uint64 `json:"different"`
	Failed    uint64 `json:"failed"`
	Slower    uint64 `json:"slower"`
	Dropped   uint64 `json:"dropped"`
}

func viewOfShadow(s *script.ShadowCalls) *shadowView {
	if s == nil {
		return nil
	}
	return &shadowView{
		Step: s.Step, Compared: s.Compared(), Equal: s.Equal, Different: s.Different, Failed: s.Failed, Slower: s.Slower, Dropped: s.Dropped,
	}
}

type shadowDiffView struct {
	Script     string             `json:"script"`
	Candidate  uint64             `json:"candidate"`
	Active     uint64             `json:"active"`
	Agents     int                `json:"agents"` // that answered
	Calls      *shadowView        `json:"calls"`
	Paths      []shadowPathView   `json:"paths,omitempty"`
	OtherPaths uint64             `json:"otherPaths,omitempty"`
	Samples    []shadowSampleView `json:"samples,omitempty"`
}

type shadowPathView struct {
	Path  string `json:"path"` // a JSON pointer; "" is the whole result
	Count uint64 `json:"count"`
}

type shadowSampleView struct {
	Time      time.Time `json:"time"`
	Active    uint64    `json:"active"`
	Candidate uint64    `json:"candidate"`
	Input     string    `json:"input"` // JSON: the list of the arguments
	Live      string    `json:"live"`  // JSON: the list of the results, or the error
	Shadow    string    `json:"shadow"`
	Paths     []string  `json:"paths"`
	Logs      []string  `json:"logs,omitempty"`
}

func (a *app) rolloutDiff(ctx context.Context, name script.Name, nodes []string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	d, err := client.ShadowDiff(ctx, name, nodes)
	if err != nil {
		return about(name.String(), err)
	}
	if err := a.checkAnswers(&d.Result, name.Tenant, nodes); err != nil {
		return err
	}
	v := shadowDiffView{
		Script: name.String(), Candidate: d.Candidate, Active: d.Active, Agents: d.Result.Answered,
		Calls: viewOfShadow(&d.Calls), OtherPaths: d.Findings.OtherPaths,
	}
	for _, p := range d.Findings.ByCount() {
		v.Paths = append(v.Paths, shadowPathView(p))
	}
	for _, s := range d.Findings.Samples {
		v.Samples = append(v.Samples, shadowSampleView(s))
	}
	return a.print(v, func(w io.Writer) { v.write(w, &d) })
}

func (v *shadowDiffView) write(w io.Writer, d *registryclient.ShadowDiff) {
	c := v.Calls
	fmt.Fprintf(w, "candidate v%d in the shadow of v%d: %d calls compared on %d agents\n", v.Candidate, v.Active, c.Compared, v.Agents)
	columns(w, [][]string{
		{"equal:", share(c.Equal, c.Compared)},
		{"different:", share(c.Different, c.Compared)},
		{"failed:", share(c.Failed, c.Compared)},
		{"slower:", share(c.Slower, c.Compared)},
		{"dropped:", fmt.Sprint(c.Dropped)},
	})
	if len(v.Paths) > 0 {
		fmt.Fprintln(w, "\ndifferences by path:")
		var rows [][]string
		for _, p := range v.Paths {
			rows = append(rows, []string{"  " + pointerText(p.Path), fmt.Sprint(p.Count)})
		}
		if v.OtherPaths > 0 {
			rows = append(rows, []string{"  (other paths)", fmt.Sprint(v.OtherPaths)})
		}
		columns(w, rows)
	}
	for i := range d.Findings.Samples {
		v.Samples[i].write(w)
	}
}

func (s *shadowSampleView) write(w io.Writer) {
	paths := make([]string, len(s.Paths))
	for i, p := range s.Paths {
		paths[i] = pointerText(p)
	}
	fmt.Fprintf(w, "\nsample of %s, differs at %s:\n", clock(s.Time), strings.Join(paths, ", "))
	rows := [][]string{
		{"  input", plain(s.Input)},
		{fmt.Sprintf("  v%d", s.Active), plain(s.Live)},
		{fmt.Sprintf("  v%d", s.Candidate), plain(s.Shadow)},
	}
	for _, line := range s.Logs {
		rows = append(rows, []string{"  log", plain(line)})
	}
	columns(w, rows)
}

// pointerText is the pointer; "$" for the whole result.
func pointerText(pointer string) string {
	if pointer == "" {
		return "$"
	}
	return plain(pointer)
}

// share is "3 (1.5 %)".
func share(n, of uint64) string {
	if of == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%.3g %%)", n, 100*float64(n)/float64(of))
}
