package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

type statusOptions struct {
	agents   int
	scripts  int
	duration time.Duration
	output   string
	profile  string
}

func newStatusCommand() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Measure what the status of a large fleet costs a registry",
		Long: `Status runs a real registryd, etcd and NATS, each a process of its own, and simulated agents that report as agents do: every five seconds, and at
each change as often as the registry's beacons allow. It measures what registryd
costs while nothing changes, and at one and at ten changes a second, how long it
takes until it says that a change has converged, and to answer a status.

Run it from the root of the repository.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().IntVar(&o.agents, "agents", 10_000, "simulated agents")
	cmd.Flags().IntVar(&o.scripts, "scripts", 100, "scripts, which change in turn")
	cmd.Flags().DurationVar(&o.duration, "duration", 20*time.Second, "length of each phase")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "how to print: table or json")
	cmd.Flags().StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of registryd to this file")
	return cmd
}

// statusRow is what one phase cost.
type statusRow struct {
	ChangesPerSecond int     `json:"changesPerSecond"`
	CPU              float64 `json:"cpuSecondsPerSecond"` // of registryd
	Reports          float64 `json:"reportsPerSecond"`    // of the agents
	MemoryMiB        float64 `json:"memoryMiB"`           // of registryd, in the end
	// From when a publish was acknowledged until a status said that it converged.
	Converged    int     `json:"converged"`
	ConvergedP50 float64 `json:"convergedP50Millis"`
	ConvergedP99 float64 `json:"convergedP99Millis"`
	// As the registry measured: from the commit until it was live on all agents.
	RolloutP99 float64 `json:"rolloutP99Millis"` // the median of the rollouts' p99
	StatusP50  float64 `json:"statusP50Millis"`  // of a status of all scripts
	StatusP99  float64 `json:"statusP99Millis"`
}

func (o *statusOptions) run(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stack, err := startStack(ctx, stackConfig{registries: 1, profile: o.profile})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.close()) }()
	b := &statusBench{opts: o, stack: stack, client: stack.clients[0]}
	if err := b.publishAll(ctx); err != nil {
		return err
	}
	b.agents, err = newSimulatedAgents(ctx, stack.nats, stack.registry[0], o.agents)
	if err != nil {
		return err
	}
	var running errgroup.Group
	running.Go(func() error { return b.agents.run(ctx) })
	var rows []statusRow
	err = b.awaitAgents(ctx)
	for _, rate := range []int{0, 1, 10} {
		if err != nil {
			break
		}
		var row statusRow
		row, err = b.phase(ctx, rate)
		rows = append(rows, row)
	}
	cancel()
	if failed := running.Wait(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	return o.report(out, rows)
}

func (o *statusOptions) report(out io.Writer, rows []statusRow) error {
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"agents": o.agents, "scripts": o.scripts, "cpus": runtime.NumCPU(), "rows": rows})
	}
	fmt.Fprintf(out, "the status of %d simulated agents and %d scripts; %d CPUs, which the agents, etcd and NATS share; %s; %v a phase\n\n",
		o.agents, o.scripts, runtime.NumCPU(), runtime.Version(), o.duration)
	fmt.Fprintf(out, "%10s %12s %10s %8s %10s %12s %12s %12s %11s %11s\n", "changes/s", "registryd", "reports/s", "memory",
		"converged", "p50", "p99", "rollout p99", "status p50", "status p99")
	for _, r := range rows {
		fmt.Fprintf(out, "%10d %6.3f CPU/s %10.0f %4.0f MiB %10d %9.0f ms %9.0f ms %9.0f ms %8.1f ms %8.1f ms\n", r.ChangesPerSecond, r.CPU, r.Reports,
			r.MemoryMiB, r.Converged, r.ConvergedP50, r.ConvergedP99, r.RolloutP99, r.StatusP50, r.StatusP99)
	}
	return nil
}

type statusBench struct {
	opts   *statusOptions
	stack  *stack
	client *registryclient.Client
	agents *simulatedAgents
	edits  int
}

func (b *statusBench) publish(ctx context.Context) (script.Name, script.Revision, error) {
	name := script.Name{Tenant: "acme", Script: fmt.Sprint("s", b.edits%b.opts.scripts)}
	b.edits++
	result, err := b.client.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: fmt.Appendf(nil, "function handle() return %d end", b.edits), Write: registryclient.Write{Author: "loadtest"},
	})
	return name, result.Release.Revision, err
}

func (b *statusBench) publishAll(ctx context.Context) error {
	for range b.opts.scripts {
		if _, _, err := b.publish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitAgents waits until all agents are heard and everything has converged.
func (b *statusBench) awaitAgents(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for status, err := range b.client.WatchStatus(ctx, script.Name{}) {
		if err != nil {
			return fmt.Errorf("the agents are not heard: %w", err)
		}
		if status.Connected == b.opts.agents && !slices.ContainsFunc(status.Scripts, func(s registryclient.ScriptStatus) bool { return !s.Converged }) {
			return nil
		}
	}
	return nil
}

// phase publishes at the rate and measures.
func (b *statusBench) phase(ctx context.Context, rate int) (statusRow, error) {
	row := statusRow{ChangesPerSecond: rate}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, reports := time.Now(), b.agents.reports()
	pid := b.stack.pids()["registry-0"]
	before, err := usageOf(pid)
	if err != nil {
		return row, err
	}
	w := &convergence{published: map[script.Name]goal{}}
	var side sync.WaitGroup
	if rate > 0 {
		side.Go(func() { w.watch(ctx, b.client) })
	}
	var answers []time.Duration
	err = b.drive(ctx, rate, w, &answers)
	after, usageErr := usageOf(pid)
	if err == nil {
		err = usageErr
	}
	elapsed := time.Since(started).Seconds()
	row.CPU = after.since(before).CPU.Seconds() / elapsed
	row.Reports = float64(b.agents.reports()-reports) / elapsed
	if rate > 0 {
		w.await(ctx, 10*time.Second)
	}
	cancel()
	side.Wait()
	if err != nil {
		return row, err
	}
	memory, _, err := memoryOf(pid)
	row.MemoryMiB = float64(memory) / (1 << 20)
	row.StatusP50, row.StatusP99 = millis(answers, 50), millis(answers, 99)
	row.Converged, row.ConvergedP50, row.ConvergedP99 = len(w.took), millis(w.took, 50), millis(w.took, 99)
	row.RolloutP99 = millis(w.rollouts, 50)
	return row, err
}

// drive publishes at the rate, and asks for the status once a second, for the
// length of a phase.
func (b *statusBench) drive(ctx context.Context, rate int, w *convergence, answers *[]time.Duration) error {
	end := time.NewTimer(b.opts.duration)
	defer end.Stop()
	ask := time.NewTicker(time.Second)
	defer ask.Stop()
	publish := time.NewTicker(time.Second / time.Duration(max(rate, 1)))
	defer publish.Stop()
	for {
		select {
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ask.C:
			start := time.Now()
			if _, err := b.client.Status(ctx, script.Name{}); err != nil {
				return err
			}
			*answers = append(*answers, time.Since(start))
		case <-publish.C:
			if rate == 0 {
				continue
			}
			name, revision, err := b.publish(ctx)
			if err != nil {
				return err
			}
			w.expect(name, revision)
		}
	}
}

// convergence finds out when the registry says that what was published converged.
type convergence struct {
	mu        sync.Mutex
	published map[script.Name]goal
	took      []time.Duration
	rollouts  []time.Duration // their p99
	idle      chan struct{}   // closed when nothing is expected any more; nil while nobody waits
}

type goal struct {
	revision script.Revision
	since    time.Time
}

func (w *convergence) expect(name script.Name, revision script.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published[name] = goal{revision, time.Now()}
}

func (w *convergence) watch(ctx context.Context, client *registryclient.Client) {
	for status, err := range client.WatchStatus(ctx, script.Name{}) {
		if err != nil {
			return // the phase is over, or finds out by itself
		}
		w.see(&status)
	}
}

func (w *convergence) see(status *registryclient.FleetStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range status.Scripts {
		s := &status.Scripts[i]
		goal, ok := w.published[s.Release.Name]
		if !ok || !s.Converged || s.Release.Revision < goal.revision {
			continue
		}
		delete(w.published, s.Release.Name)
		w.took = append(w.took, time.Since(goal.since))
		if s.Rollout != nil {
			w.rollouts = append(w.rollouts, s.Rollout.P99)
		}
	}
	if len(w.published) == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// await waits until all that was published converged, or the time is up.
func (w *convergence) await(ctx context.Context, patience time.Duration) {
	w.mu.Lock()
	if len(w.published) == 0 {
		w.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	w.idle = idle
	w.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(patience):
	case <-ctx.Done():
	}
}

// millis is the percentile of the times by nearest rank: that share of them is not
// above it. It is 0 if there are none.
func millis(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	rank := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(rank, 1)-1]) / float64(time.Millisecond)
}
