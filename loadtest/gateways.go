package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// gatewaysOptions are the flags of `loadtest gateways`.
type gatewaysOptions struct {
	duration    time.Duration
	rounds      int
	connections []int
	opa         string
	only        []string
	output      string
}

func newGatewaysCommand() *cobra.Command {
	var o gatewaysOptions
	cmd := &cobra.Command{
		Use:   "gateways",
		Short: "Measure what a decision costs at a gateway, beside the gateway alone and OPA",
		Long: `Measure what a decision costs at a gateway, beside the gateway alone and OPA.

Each gateway runs with the configuration of its page in docs/gateways, in front of
the same application, and wrk sends the same request to all. Gateways take turns
within a round. Run it at the top of the repository; it needs nginx, haproxy, caddy
and wrk, and opa for the rows of OPA.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGateways(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "of each measurement")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made")
	flags.IntSliceVar(&o.connections, "connections", []int{1, 32}, "numbers of connections")
	flags.StringVar(&o.opa, "opa", "opa", "the opa to measure against: its path, or off")
	flags.StringSliceVar(&o.only, "only", nil, "what is measured, such as nginx/alone; all when empty")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *gatewaysOptions) validate() error {
	switch {
	case o.rounds < 1 || o.duration < time.Second || len(o.connections) == 0 || slices.Min(o.connections) < 1:
		return errors.New("--rounds and --connections must be positive, and --duration a second at least")
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output is %q: want table or json", o.output)
	}
	return nil
}

// gatewayFigures are those of one gateway under one load: the medians of the rounds.
type gatewayFigures struct {
	Gateway     string  `json:"gateway"`
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"requestsPerSecond"`
	P50         float64 `json:"p50Microseconds"`
	P90         float64 `json:"p90Microseconds"`
	P99         float64 `json:"p99Microseconds"`
	GatewayCPU  float64 `json:"gatewayMicroseconds"` // of processor time for each request
	DeciderCPU  float64 `json:"deciderMicroseconds"` // the same of the agent, or of OPA
}

func runGateways(ctx context.Context, o gatewaysOptions, out, progress io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gateways")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &gatewayWorld{dir: dir, opa: o.opa}
	defer w.stop()
	if err := w.start(ctx, progress); err != nil {
		return err
	}
	var all []gatewayFigures
	samples := map[string][]gatewayFigures{}
	for round := range o.rounds {
		for _, g := range w.gateways {
			if len(o.only) > 0 && !slices.Contains(o.only, g.name) {
				continue
			}
			for _, connections := range o.connections {
				figures, err := w.measure(ctx, g, connections, o.duration)
				if err != nil {
					return fmt.Errorf("%s: %w", g.name, err)
				}
				key := fmt.Sprint(g.name, connections)
				samples[key] = append(samples[key], figures)
				fmt.Fprintf(progress, "round %d: %s, %d connections: %.0f/s, p50 %.0f µs\n", round+1, g.name, connections, figures.PerSecond, figures.P50)
				if round == o.rounds-1 {
					all = append(all, medians(samples[key]))
				}
			}
		}
	}
	if o.output == "json" {
		return json.NewEncoder(out).Encode(all)
	}
	return printGateways(out, all)
}

// medians returns the median of each figure.
func medians(rounds []gatewayFigures) gatewayFigures {
	m := rounds[0]
	for _, field := range []func(*gatewayFigures) *float64{
		func(f *gatewayFigures) *float64 { return &f.PerSecond },
		func(f *gatewayFigures) *float64 { return &f.P50 },
		func(f *gatewayFigures) *float64 { return &f.P90 },
		func(f *gatewayFigures) *float64 { return &f.P99 },
		func(f *gatewayFigures) *float64 { return &f.GatewayCPU },
		func(f *gatewayFigures) *float64 { return &f.DeciderCPU },
	} {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = *field(&rounds[i])
		}
		slices.Sort(values)
		*field(&m) = values[len(values)/2]
	}
	return m
}

// printGateways prints a table. Added latency is beside the gateway alone under the same load.
func printGateways(out io.Writer, all []gatewayFigures) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GATEWAY\tCONNECTIONS\tREQUESTS/S\tP50 µs\tP90 µs\tP99 µs\tADDED P50 µs\tGATEWAY CPU µs\tDECIDER CPU µs")
	for _, f := range all {
		added := "-"
		name, _, _ := strings.Cut(f.Gateway, "/")
		for _, alone := range all {
			if alone.Gateway == name+"/alone" && alone.Connections == f.Connections && f.Gateway != alone.Gateway {
				added = fmt.Sprintf("%.0f", f.P50-alone.P50)
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.1f\t%.1f\n",
			f.Gateway, f.Connections, f.PerSecond, f.P50, f.P90, f.P99, added, f.GatewayCPU, f.DeciderCPU)
	}
	return table.Flush()
}

// wrkReport has wrk print what it has measured, as JSON.
const wrkReport = `wrk.headers["Cookie"] = "theme=dark; user=ann"
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"micros":%d,"p50":%.1f,"p90":%.1f,"p99":%.1f,"errors":%d}\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`

// measure has wrk send requests to the gateway.
func (w *gatewayWorld) measure(ctx context.Context, g *gatewayProcess, connections int, d time.Duration) (gatewayFigures, error) {
	run := func(d time.Duration) (report wrkFigures, err error) {
		cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections), fmt.Sprintf("-d%ds", int(d.Seconds())), "-s", filepath.Join(w.dir, "wrk.lua"), "http://"+g.address+"/shop?id=7")
		out, err := cmd.Output()
		if err != nil {
			return report, fmt.Errorf("wrk: %w", err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
			return report, fmt.Errorf("wrk printed %.200q: %w", out, err)
		}
		if report.Errors > 0 || report.Requests == 0 {
			return report, fmt.Errorf("%d of %d requests failed", report.Errors, report.Requests)
		}
		return report, nil
	}
	if _, err := run(time.Second); err != nil { // to be warm
		return gatewayFigures{}, err
	}
	gatewayBefore, deciderBefore, err := w.usage(g)
	if err != nil {
		return gatewayFigures{}, err
	}
	report, err := run(d)
	if err != nil {
		return gatewayFigures{}, err
	}
	gatewayAfter, deciderAfter, err := w.usage(g)
	if err != nil {
		return gatewayFigures{}, err
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(report.Requests) }
	return gatewayFigures{
		Gateway: g.name, Connections: connections, PerSecond: float64(report.Requests) / (float64(report.Micros) / 1e6),
		P50: report.P50, P90: report.P90, P99: report.P99,
		GatewayCPU: each(gatewayAfter - gatewayBefore), DeciderCPU: each(deciderAfter - deciderBefore),
	}, nil
}

type wrkFigures struct {
	Requests, Micros, Errors int64
	P50, P90, P99            float64
}

// usage returns the processor time of a gateway's processes and of what decides for it.
func (w *gatewayWorld) usage(g *gatewayProcess) (gateway, decider time.Duration, err error) {
	if gateway, err = groupCPU(g.pid); err != nil || g.decider == 0 {
		return gateway, 0, err
	}
	decider, err = groupCPU(g.decider)
	return gateway, decider, err
}

// groupCPU returns the processor time of a process group: nginx and HAProxy have workers.
func groupCPU(group int) (total time.Duration, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 3 || fields[2] != strconv.Itoa(group) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return 0, err
		}
		u, err := usageOf(pid)
		if err != nil {
			return 0, err
		}
		total += u.CPU
	}
	return total, nil
}

// gatewayNamed sorts by name: what is alone comes first.
func gatewayNamed(a, b *gatewayProcess) int {
	aName, aWith, _ := strings.Cut(a.name, "/")
	bName, bWith, _ := strings.Cut(b.name, "/")
	return cmp.Or(cmp.Compare(aName, bName), cmp.Compare(aWith, bWith))
}
