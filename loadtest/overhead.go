package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/cluster"
	"github.com/scriptorium-dev/scriptorium/script"
)

// overheadOptions are the flags of `loadtest overhead`.
type overheadOptions struct {
	duration    time.Duration
	rounds      int
	connections int
	only        []string
}

// observed is one way to record or trace calls: an agent that does so, and the script that it is asked for.
type observed struct {
	name   string
	agent  string // whose flags and environment are in overheadAgents
	script string
}

// The scripts are the same but for their decision log.
const (
	plainRef   = "acme/plain"
	hundredRef = "acme/hundredth"
	eachRef    = "acme/each"

	twentiethShadowRef = "acme/shadowed-twentieth"
	eachShadowRef      = "acme/shadowed-each"
)

// shadowSteps are the percentages of calls in whose shadow candidates of the same source run.
var shadowSteps = map[string]int{twentiethShadowRef: 5, eachShadowRef: 100}

var overheads = []observed{
	{"nothing, another agent", "another", plainRef},
	{"1 % of calls to a file", "file", hundredRef},
	{"each call to a file", "file", eachRef},
	{"1 % of calls, the collector hangs", "hangs", hundredRef},
	{"each call, the collector hangs", "hangs", eachRef},
	{"1 % of calls, the collector refuses", "refuses", hundredRef},
	{"each call, the collector refuses", "refuses", eachRef},
	{"1 % of calls traced", "traces-hundredth", plainRef},
	{"each call traced, 100 traces/s at most", "traces-each", plainRef},
	{"each call traced, the collector hangs", "traces-hang", plainRef},
	{"5 % of calls shadowed", "another", twentiethShadowRef},
	{"each call shadowed", "another", eachShadowRef},
}

func newOverheadCommand() *cobra.Command {
	var o overheadOptions
	cmd := &cobra.Command{
		Use:   "overhead",
		Short: "Measure what decision logs, traces and shadow steps cost calls",
		Long: `Measure what decision logs, traces and shadow steps cost calls, also when collectors fail.

A registry and agents run as processes of their own. One agent records and traces
nothing. Calls over RESP to each other agent take turns with calls to that one, so that
what else the machine does hits both. A figure is the ratio of a pair of measurements.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rounds < 1 || o.duration <= 0 || o.connections < 1 {
				return errors.New("--rounds, --duration and --connections must be positive")
			}
			return runOverhead(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", time.Second, "of each measurement")
	flags.IntVar(&o.rounds, "rounds", 9, "how often each pair is measured")
	flags.IntVar(&o.connections, "connections", 8, "connections that call")
	flags.StringSliceVar(&o.only, "agents", nil, "agents that are measured, such as file; all when empty")
	return cmd
}

// newAgentdCommand is agentd, for those who measure a whole agent.
func newAgentdCommand() *cobra.Command {
	cmd := agentd.Command()
	cmd.Hidden = true
	withProfile(cmd)
	return cmd
}

func runOverhead(ctx context.Context, o overheadOptions, out, progress io.Writer) (err error) {
	collectors, err := startCollectors(ctx)
	if err != nil {
		return err
	}
	defer collectors.close()
	s, err := startStack(ctx, stackConfig{registries: 1, signed: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := publishOverhead(ctx, s.clients[0]); err != nil {
		return err
	}
	b := &overheadBench{options: o, stack: s, agents: map[string]*cluster.Process{}}
	if err := b.startAgents(ctx, collectors); err != nil {
		return err
	}
	if err := publishShadows(ctx, s.clients[0], len(b.agents)); err != nil {
		return err
	}
	return b.run(ctx, out, progress)
}

// publishOverhead publishes the script of `loadtest calls` once for each decision log.
func publishOverhead(ctx context.Context, registry *registryclient.Client) error {
	for ref, decisions := range map[string]*script.Decisions{
		plainRef: nil, hundredRef: {Sample: 0.01}, eachRef: {Sample: 1}, twentiethShadowRef: nil, eachShadowRef: nil,
	} {
		name, err := script.ParseName(ref)
		if err != nil {
			return err
		}
		_, err = registry.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: routeSource, Write: registryclient.Write{Author: "loadtest"},
			Settings: &script.Settings{Spec: script.Spec{Decisions: decisions}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publishShadows publishes candidates in shadow steps, and waits until all agents run them.
func publishShadows(ctx context.Context, registry *registryclient.Client, agents int) error {
	ctx, cancel := context.WithTimeout(ctx, stackStart)
	defer cancel()
	for ref, percent := range shadowSteps {
		name, err := script.ParseName(ref)
		if err != nil {
			return err
		}
		plan := script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: percent, Approval: true}}}
		_, err = registry.Publish(ctx, registryclient.PublishRequest{
			Name: name, Source: append([]byte("-- the candidate\n"), routeSource...), Write: registryclient.Write{Author: "loadtest"},
			Settings: &script.Settings{Rollout: plan},
		})
		if err != nil {
			return err
		}
		for fleet, err := range registry.WatchStatus(ctx, name) {
			if err != nil {
				return fmt.Errorf("wait until %d agents shadow %s: %w", agents, name, err)
			}
			if t := fleet.Scripts[0].Trials; t != nil && t.Running == agents {
				break
			}
		}
	}
	return nil
}

// overheadBench makes the measurements.
type overheadBench struct {
	options overheadOptions
	stack   *stack
	agents  map[string]*cluster.Process
}

func (b *overheadBench) dir(agent string) string { return filepath.Join(b.stack.dir, agent) }

// startAgents starts those that are measured, and waits until they have the scripts.
func (b *overheadBench) startAgents(ctx context.Context, c *collectors) error {
	opa := func(address string) []string {
		return []string{"--decision-log", "opa:http://" + address, "--insecure-plaintext"}
	}
	traces := func(address, ratio string) []string {
		return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + address + "/v1/traces", "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=" + ratio}
	}
	for agent, with := range map[string]struct{ flags, env []string }{
		"plain":            {},
		"another":          {},
		"file":             {flags: []string{"--decision-log", "file:" + filepath.Join(b.stack.dir, "decisions.jsonl") + "?max-size=64MiB&keep=2"}},
		"hangs":            {flags: opa(c.hanging)},
		"refuses":          {flags: opa(c.refusing)},
		"traces-hundredth": {env: traces(c.taking, "0.01")},
		"traces-each":      {env: traces(c.taking, "1")},
		"traces-hang":      {env: traces(c.hanging, "1")},
	} {
		if agent != "plain" && len(b.options.only) > 0 && !slices.Contains(b.options.only, agent) {
			continue
		}
		args := append([]string{
			"agentd", "--name", agent, "--state-dir", filepath.Join(b.dir(agent), "state"), "--socket-dir", b.dir(agent),
			"--registry", b.stack.registry[0], "--nats-url", b.stack.nats, "--trusted-key", b.stack.trusted,
			"--insecure-plaintext", "--allow", "*", "--log-level", "error",
		}, with.flags...)
		p := cluster.NewProcess(b.stack.dir, agent, b.stack.self, args, with.env)
		if err := p.Start(); err != nil {
			return err
		}
		b.agents[agent] = p
		b.stack.processes = append(b.stack.processes, p)
	}
	for agent := range b.agents {
		if err := b.await(ctx, agent); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the agent answers calls of each script.
func (b *overheadBench) await(ctx context.Context, agent string) error {
	ctx, cancel := context.WithTimeout(ctx, stackStart)
	defer cancel()
	for _, ref := range []string{plainRef, hundredRef, eachRef, twentiethShadowRef, eachShadowRef} {
		for {
			_, err := once(ctx, filepath.Join(b.dir(agent), "resp.sock"), respCallsOf(ref))
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s does not serve %s: %w", agent, ref, err)
			case <-time.After(20 * time.Millisecond):
			}
			if crash := b.stack.crashed(); crash != nil {
				return crash
			}
		}
	}
	return nil
}

// overheadFigure is one measurement.
type overheadFigure struct{ rate, cpu, p99 float64 }

func (b *overheadBench) measure(ctx context.Context, agent, ref string) (f overheadFigure, err error) {
	before, err := usageOf(b.agents[agent].PID())
	if err != nil {
		return f, err
	}
	m, err := drive(ctx, filepath.Join(b.dir(agent), "resp.sock"), respCallsOf(ref), load{b.options.connections, 1, b.options.duration})
	if err != nil {
		return f, fmt.Errorf("calls of %s on %s: %w", ref, agent, err)
	}
	if m.failed > 0 {
		return f, fmt.Errorf("calls of %s on %s: %d of %d failed", ref, agent, m.failed, m.calls)
	}
	after, err := usageOf(b.agents[agent].PID())
	if err != nil {
		return f, err
	}
	f.rate = m.rate()
	f.cpu = float64(after.since(before).CPU) / float64(time.Microsecond) / float64(m.calls)
	f.p99 = float64(m.latency.quantile(0.99)) / float64(time.Microsecond)
	return f, nil
}

// run measures each pair in each round, in a changing order, and prints the table.
func (b *overheadBench) run(ctx context.Context, out, progress io.Writer) error {
	var measured []observed
	for _, way := range overheads {
		if b.agents[way.agent] != nil {
			measured = append(measured, way)
		}
	}
	for _, way := range measured { // caches and the garbage collector get warm
		if _, err := b.measure(ctx, way.agent, way.script); err != nil {
			return err
		}
	}
	pairs := make(map[string][][2]overheadFigure, len(measured))
	for round := range b.options.rounds {
		fmt.Fprintf(progress, "loadtest: round %d of %d\n", round+1, b.options.rounds)
		for _, way := range measured {
			var pair [2]overheadFigure
			for i := range pair {
				at := (i + round) % len(pair)
				agent, ref := "plain", plainRef
				if at == 1 {
					agent, ref = way.agent, way.script
				}
				var err error
				if pair[at], err = b.measure(ctx, agent, ref); err != nil {
					return err
				}
			}
			pairs[way.name] = append(pairs[way.name], pair)
		}
	}
	fmt.Fprintf(out, "%d CPUs, %s, driver included; medians of %d pairs of %v, %d connections over RESP\n\n",
		runtime.NumCPU(), runtime.Version(), b.options.rounds, b.options.duration, b.options.connections)
	fmt.Fprintln(out, "| what the agent does besides | calls/s, of an agent that records nothing | quartiles | processor time of a call | p99 |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|")
	for _, way := range measured {
		writeOverhead(out, way.name, pairs[way.name])
	}
	return nil
}

// writeOverhead writes one row: ratios of pairs, and medians of figures.
func writeOverhead(out io.Writer, name string, pairs [][2]overheadFigure) {
	var ratios, cpu, plainCPU, p99, plainP99 []float64
	for _, p := range pairs {
		ratios = append(ratios, p[1].rate/p[0].rate)
		plainCPU, cpu = append(plainCPU, p[0].cpu), append(cpu, p[1].cpu)
		plainP99, p99 = append(plainP99, p[0].p99), append(p99, p[1].p99)
	}
	fmt.Fprintf(out, "| %s | %.1f %% | %.1f to %.1f %% | %.1f µs, without %.1f µs | %.0f µs, without %.0f µs |\n", name,
		100*quantileOf(ratios, 0.5), 100*quantileOf(ratios, 0.25), 100*quantileOf(ratios, 0.75),
		quantileOf(cpu, 0.5), quantileOf(plainCPU, 0.5), quantileOf(p99, 0.5), quantileOf(plainP99, 0.5))
}

// quantileOf returns the number that the part q of the numbers does not exceed.
func quantileOf(numbers []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// collectors are what agents send to, by their addresses.
type collectors struct {
	taking, hanging, refusing string
	listeners                 []net.Listener
}

// startCollectors listens for one collector that takes all, and one that takes connections and never answers.
func startCollectors(ctx context.Context) (c *collectors, err error) {
	c = &collectors{}
	for _, address := range []*string{&c.taking, &c.hanging, &c.refusing} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			c.close()
			return nil, err
		}
		*address = l.Addr().String()
		c.listeners = append(c.listeners, l)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = server.Serve(c.listeners[0]) }() // until the listener is closed
	// Nobody accepts from the second: the kernel connects, and takes what fits into its buffer.
	return c, c.listeners[2].Close()
}

func (c *collectors) close() {
	for _, l := range c.listeners {
		_ = l.Close()
	}
}
