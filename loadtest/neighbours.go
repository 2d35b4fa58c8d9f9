package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// neighboursOptions are the flags of `loadtest neighbours`.
type neighboursOptions struct {
	duration    time.Duration
	rounds      int
	neighbours  int
	connections int
	spin        string
	protocols   []string
	output      string
}

// maxNeighbours is for how many tenants the agent under test has a script that spins.
const maxNeighbours = 64

func newNeighboursCommand() *cobra.Command {
	var o neighboursOptions
	cmd := &cobra.Command{
		Use:   "neighbours",
		Short: "Measure what tenants that spin do to another one's calls, with admission and without",
		Long: `Measure what tenants that spin do to another one's calls, with admission and without.

One tenant calls a typical script on one connection, one call after the other: first
alone, then while other tenants, each on connections of its own, call scripts that
spin until they are stopped. Both is done on an agent as it is, and on one that admits
as many calls as there are processors, first come, first served, and lets each run to
its end. The four take turns within a round.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNeighbours(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "of each measurement")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each measurement is made")
	flags.IntVar(&o.neighbours, "neighbours", 4, "tenants that spin")
	flags.IntVar(&o.connections, "connections", 1, "connections of each of them")
	flags.StringVar(&o.spin, "spin", "loop", "what they do: loop, or litter, which makes garbage")
	flags.StringSliceVar(&o.protocols, "protocols", []string{"resp", "grpc"}, "how the script is called: resp, http, grpc, grpc-client")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	return cmd
}

func (o *neighboursOptions) validate() error {
	switch {
	case o.rounds < 1 || o.duration <= 0 || o.connections < 1 || len(o.protocols) == 0:
		return errors.New("--rounds, --duration and --connections must be positive, and --protocols name some")
	case o.neighbours < 1 || o.neighbours > maxNeighbours:
		return fmt.Errorf("--neighbours is %d: want 1 to %d", o.neighbours, maxNeighbours)
	case spinSources[o.spin] == nil:
		return fmt.Errorf("--spin is %q: want loop or litter", o.spin)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output is %q: want table or json", o.output)
	}
	return nil
}

// neighbourhood is one of the situations that are compared.
type neighbourhood struct {
	Protocol   string  `json:"protocol"`
	Admission  bool    `json:"admission"`
	Neighbours int     `json:"neighbours"`
	Rate       float64 `json:"callsPerSecond"`
	P50        float64 `json:"p50Micros"`
	P99        float64 `json:"p99Micros"`
	P999       float64 `json:"p999Micros"`
	Failed     uint64  `json:"failed"`
	Ratio      float64 `json:"p99ToQuiet"` // to the p99 without neighbours of the same agent

	sockets string
	sum     measurement
}

func runNeighbours(ctx context.Context, o neighboursOptions, out io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	var situations []*neighbourhood
	for _, admission := range []bool{true, false} {
		dir, stop, startErr := startAgentSomewhere(ctx, fmt.Sprint("--admission=", admission))
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
		for _, protocol := range o.protocols {
			for _, neighbours := range []int{0, o.neighbours} {
				situations = append(situations, &neighbourhood{Protocol: protocol, Admission: admission, Neighbours: neighbours, sockets: dir})
			}
		}
	}
	for range o.rounds {
		for _, s := range situations {
			m, err := s.measure(ctx, o)
			if err != nil {
				return fmt.Errorf("%s with %d neighbours: %w", s.Protocol, s.Neighbours, err)
			}
			s.sum.calls += m.calls
			s.sum.failed += m.failed
			s.sum.elapsed += m.elapsed
			s.sum.latency.merge(&m.latency)
		}
	}
	for i, s := range situations {
		s.finish(situations[i-i%2])
	}
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(situations)
	}
	return writeNeighbours(out, o, situations)
}

// startAgentSomewhere starts an agent on sockets in a folder of its own, which stop
// removes.
func startAgentSomewhere(ctx context.Context, flags ...string) (dir string, stop func() error, err error) {
	dir, err = os.MkdirTemp("", "loadtest")
	if err != nil {
		return "", nil, err
	}
	stopAgent, err := startAgent(ctx, dir, flags...)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(stopAgent(), os.RemoveAll(dir)) }, nil
}

// lead is how long the neighbours spin before anything is measured.
const lead = 200 * time.Millisecond

// measure calls the script while the neighbours spin.
func (s *neighbourhood) measure(ctx context.Context, o neighboursOptions) (*measurement, error) {
	spinning, cancel := context.WithCancel(ctx)
	defer cancel()
	var neighbours errgroup.Group
	for i := range s.Neighbours {
		neighbours.Go(func() error {
			l := load{connections: o.connections, pipeline: 1, duration: lead + o.duration}
			_, err := drive(spinning, filepath.Join(s.sockets, "resp.sock"), respCallsOf(neighbour(i, o.spin)), l)
			return err
		})
	}
	select {
	case <-time.After(lead):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b := &bench{sockets: s.sockets}
	m, err := b.measure(ctx, s.Protocol, load{connections: 1, pipeline: 1, duration: o.duration})
	if err != nil {
		return nil, err
	}
	return m, neighbours.Wait()
}

func (s *neighbourhood) finish(quiet *neighbourhood) {
	s.Rate, s.Failed = s.sum.rate(), s.sum.failed
	s.P50 = micros(s.sum.latency.quantile(0.5))
	s.P99 = micros(s.sum.latency.quantile(0.99))
	s.P999 = micros(s.sum.latency.quantile(0.999))
	s.Ratio = s.P99 / quiet.P99
}

func writeNeighbours(out io.Writer, o neighboursOptions, situations []*neighbourhood) error {
	fmt.Fprintf(out, "calls of %s on one connection, driver included, beside %d tenants that spin (%s), %d connections each; %d CPUs, %s; %d rounds of %v\n\n",
		routeRef, o.neighbours, o.spin, o.connections, runtime.NumCPU(), runtime.Version(), o.rounds, o.duration)
	fmt.Fprintln(out, "| protocol | admission | neighbours | calls/s | p50 µs | p99 µs | p99.9 µs | failed | p99 to quiet |")
	fmt.Fprintln(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, s := range situations {
		admission := "no"
		if s.Admission {
			admission = "yes"
		}
		if _, err := fmt.Fprintf(out, "| %s | %s | %d | %.0f | %.0f | %.0f | %.0f | %d | %.1f |\n",
			s.Protocol, admission, s.Neighbours, s.Rate, s.P50, s.P99, s.P999, s.Failed, s.Ratio); err != nil {
			return err
		}
	}
	return nil
}
