// Command latency measures how long a change takes to reach every node of a cluster,
// in one run, by three ways at the same time:
//
//   - a ConfigMap that a pod on each node has as a volume, with the kubelet's defaults;
//   - the same, and an annotation of each of the pods touched after each change;
//   - a LuaScript that is applied, until a gateway pod's call on each node answers with it.
//
// It installs Scriptorium on the cluster of $KUBECONFIG, measures, and removes it again:
//
//	go run ./e2e/latency --write docs/latency.md
//
// e2e/README.md says how images get into the cluster.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

type options struct {
	ways      []string
	changes   int
	duration  time.Duration
	pace      time.Duration
	sets      int
	seed      uint64
	write     string
	keep      bool
	installed bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	cmd := &cobra.Command{
		Use:           "latency",
		Short:         "Measure how long a change takes to reach every node",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.ways, "ways", []string{wayConfigMap, wayAnnotated, wayLuaScript}, "what to measure")
	flags.IntVar(&o.changes, "changes", 60, "changes of each way, at least")
	flags.DurationVar(&o.duration, "duration", 9*time.Minute, "how long to measure, at least")
	flags.DurationVar(&o.pace, "pace", time.Second, "pause between two changes of the quick ways, half of it to one and a half at random")
	flags.IntVar(&o.sets, "sets", 12, "ConfigMaps of the slow way that are changed at the same time, each with a pod on each node")
	flags.Uint64Var(&o.seed, "seed", 0, "of the pauses; another one each time if 0")
	flags.StringVar(&o.write, "write", "", "a Markdown file whose part between the lines <!-- measured --> and <!-- /measured --> is replaced by the table; the data go beside it, as .csv")
	flags.BoolVar(&o.keep, "keep", false, "leave everything on the cluster")
	flags.BoolVar(&o.installed, "installed", false, "Scriptorium is on the cluster already, and stays")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func run(ctx context.Context, o options) error {
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	say("seed %d", o.seed)
	cluster, err := kube.Connect(ctx, say)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	m := &measurement{
		cluster: cluster, images: kube.ImagesFromEnvironment(), opts: o, say: say,
		board: newBoard(), fail: fail, random: rand.New(rand.NewPCG(o.seed, 0)),
	}
	defer m.running.Wait()
	defer fail(nil)
	if !o.keep {
		defer m.remove(context.WithoutCancel(ctx))
	}
	if err := m.install(ctx); err != nil {
		return err
	}
	slow, quick, err := m.prepare(ctx)
	if err != nil {
		return err
	}
	environment, err := m.environment(ctx)
	if err != nil {
		return err
	}
	say("measuring for %v: %s", o.duration, environment)
	m.run(ctx, slow, quick)
	if ctx.Err() != nil {
		return fmt.Errorf("the measurement was cut short: %w", context.Cause(ctx))
	}
	return m.report(environment)
}

func (m *measurement) wants(way string) bool { return slices.Contains(m.opts.ways, way) }

// install brings what is measured onto the cluster.
func (m *measurement) install(ctx context.Context) error {
	switch {
	case m.opts.installed || !m.wants(wayLuaScript):
		if err := m.cluster.LoadImages(ctx, m.images, kube.GatewayImage); err != nil {
			return err
		}
	default:
		if err := m.cluster.LoadImages(ctx, m.images); err != nil {
			return err
		}
		if err := m.cluster.Install(ctx, m.images); err != nil {
			return err
		}
	}
	return m.cluster.MakeTestNamespace(ctx)
}

func (m *measurement) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	say("removing everything")
	if err := m.cluster.RemoveTestNamespace(ctx); err != nil {
		say("%v", err)
	}
	if m.opts.installed || !m.wants(wayLuaScript) {
		return
	}
	if err := m.cluster.Uninstall(ctx, m.images); err != nil {
		say("%v", err)
	}
	if _, err := m.cluster.RemoveFolders(ctx, m.images); err != nil {
		say("%v", err)
	}
}

// prepare makes the ways, and one change by each of the quick ones, which is not counted.
func (m *measurement) prepare(ctx context.Context) (slow, quick []way, err error) {
	if m.wants(wayConfigMap) {
		for i := range m.opts.sets {
			w, err := newConfigMapWay(ctx, m, fmt.Sprintf("slow-%d", i), false)
			if err != nil {
				return nil, nil, err
			}
			slow = append(slow, w)
		}
	}
	if m.wants(wayAnnotated) {
		w, err := newConfigMapWay(ctx, m, "annotated", true)
		if err != nil {
			return nil, nil, err
		}
		quick = append(quick, w)
	}
	if m.wants(wayLuaScript) {
		w, err := newLuaScriptWay(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		quick = append(quick, w)
	}
	for _, w := range quick {
		first, cancel := context.WithTimeout(ctx, longest)
		_, err := w.change(first, m.content())
		cancel()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: the first change: %w", w.name(), err)
		}
	}
	return slow, quick, nil
}
