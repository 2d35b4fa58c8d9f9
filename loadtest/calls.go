package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// callsOptions are the flags of `loadtest calls`.
type callsOptions struct {
	duration    time.Duration
	rounds      int
	connections []int
	pipeline    []int
	protocols   []string
	redis       string
	socketDir   string
	output      string
	profile     string
}

// contestants in the order in which they are measured and printed.
var contestants = []string{"redis", "resp", "http", "grpc", "grpc-client"}

func newCallsCommand() *cobra.Command {
	var o callsOptions
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Measure calls over an agent's sockets, beside the same script in Redis",
		Long: `Measure calls over an agent's sockets, beside the same script in Redis.

An agent and a Redis are started for it, each in a process of its own, on Unix
sockets in a temporary folder; the same driver sends the same argument to both.
Protocols take turns within a round, so that what else the machine does hits all
alike: a figure is worth its ratio to Redis in the same round.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCalls(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.duration, "duration", time.Second, "of each measurement")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made")
	flags.IntSliceVar(&o.connections, "connections", []int{1, 8, 32}, "numbers of connections")
	flags.IntSliceVar(&o.pipeline, "pipeline", []int{1, 16}, "calls sent at once, for those protocols that pipeline")
	flags.StringSliceVar(&o.protocols, "protocols", contestants, "what is measured")
	flags.StringVar(&o.redis, "redis", "auto", "the redis-server to measure against: auto, off, or its path")
	flags.StringVar(&o.socketDir, "socket-dir", "", "measure the agent on the sockets in this folder, which has "+routeRef+"; empty: start one")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	flags.StringVar(&o.profile, "agent-cpuprofile", "", "write a CPU profile of the agent that was started to this file")
	return cmd
}

func (o *callsOptions) validate() error {
	if o.rounds < 1 || o.duration <= 0 || len(o.connections) == 0 || len(o.pipeline) == 0 {
		return errors.New("--rounds, --duration, --connections and --pipeline must be positive")
	}
	if slices.Min(o.connections) < 1 || slices.Min(o.pipeline) < 1 {
		return errors.New("--connections and --pipeline must be positive")
	}
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("--output is %q: want table or json", o.output)
	}
	for _, p := range o.protocols {
		if !slices.Contains(contestants, p) {
			return fmt.Errorf("--protocols has %q: want some of %v", p, contestants)
		}
	}
	return nil
}

func runCalls(ctx context.Context, o callsOptions, out, progress io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "loadtest")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{opts: o, sockets: o.socketDir}
	if b.sockets == "" {
		b.sockets = dir
		stop, err := startAgent(ctx, dir, "--cpuprofile", o.profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if o.redis != "off" && slices.Contains(o.protocols, "redis") {
		b.redis, err = startRedis(ctx, o.redis, dir)
		switch {
		case errors.Is(err, errNoRedis):
			fmt.Fprintln(progress, "loadtest:", err)
		case err != nil:
			return err
		default:
			defer func() { _ = b.redis.stop() }()
		}
	}
	if err := b.compare(ctx); err != nil {
		return err
	}
	if err := b.run(ctx, progress); err != nil {
		return err
	}
	return b.report(out)
}

// bench makes the measurements.
type bench struct {
	opts    callsOptions
	sockets string
	redis   *redisServer // nil: there is none
	results []*result
}

// result are the measurements of one protocol under one load, a round each.
type result struct {
	protocol string
	load     load
	rounds   []*measurement
}

// compare makes sure that everybody answers the same before it is measured.
func (b *bench) compare(ctx context.Context) error {
	answers := map[string]protocol{"resp.sock": respCalls(), "http.sock": httpCalls()}
	var want any
	for name, p := range answers {
		got, err := once(ctx, filepath.Join(b.sockets, name), p)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := agree(&want, got); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if b.redis == nil || b.opts.socketDir != "" { // a running agent has a script of its own
		return nil
	}
	got, err := once(ctx, b.redis.socket, redisCalls(b.redis.sha))
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return agree(&want, got)
}

func agree(want *any, got []byte) error {
	var value any
	if err := json.Unmarshal(got, &value); err != nil {
		return fmt.Errorf("the answer %.200q is not JSON: %w", got, err)
	}
	if *want == nil {
		*want = value
	}
	if !reflect.DeepEqual(*want, value) {
		return fmt.Errorf("the answer is %.200q, another one's was %v", got, *want)
	}
	return nil
}

// run measures all protocols under all loads, taking turns.
func (b *bench) run(ctx context.Context, progress io.Writer) error {
	for _, pipeline := range b.opts.pipeline {
		for _, connections := range b.opts.connections {
			for _, name := range b.opts.protocols {
				if name == "redis" && b.redis == nil || pipeline > 1 && name != "redis" && name != "resp" {
					continue
				}
				b.results = append(b.results, &result{protocol: name, load: load{connections, pipeline, b.opts.duration}})
			}
		}
	}
	for round := range b.opts.rounds {
		for _, r := range b.results {
			b.showProgress(progress, fmt.Sprintf("round %d of %d: %s, %d connections, pipeline %d",
				round+1, b.opts.rounds, r.protocol, r.load.connections, r.load.pipeline))
			m, err := b.measure(ctx, r.protocol, r.load)
			if err != nil {
				return fmt.Errorf("%s with %d connections: %w", r.protocol, r.load.connections, err)
			}
			if m.failed*100 > m.calls {
				return fmt.Errorf("%s with %d connections: %d of %d calls failed", r.protocol, r.load.connections, m.failed, m.calls)
			}
			r.rounds = append(r.rounds, m)
		}
	}
	b.showProgress(progress, "")
	return nil
}

// showProgress writes over what it wrote before, if somebody is watching.
func (b *bench) showProgress(progress io.Writer, text string) {
	file, ok := progress.(*os.File)
	if !ok {
		return
	}
	if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(progress, "\r%-70s\r%s", "", text)
	}
}

func (b *bench) measure(ctx context.Context, name string, l load) (*measurement, error) {
	switch name {
	case "redis":
		return drive(ctx, b.redis.socket, redisCalls(b.redis.sha), l)
	case "resp":
		return drive(ctx, filepath.Join(b.sockets, "resp.sock"), respCalls(), l)
	case "http":
		return drive(ctx, filepath.Join(b.sockets, "http.sock"), httpCalls(), l)
	case "grpc":
		return driveUnary(ctx, filepath.Join(b.sockets, "grpc.sock"), l)
	default:
		return driveClient(ctx, filepath.Join(b.sockets, "grpc.sock"), l)
	}
}
