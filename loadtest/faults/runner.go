package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/cluster"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/forge"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/plan"
)

// config of a run.
type config struct {
	seed               uint64
	schedules          int
	agents, registries int
	rebuild            int // schedules after which the cluster is built anew
	bound              time.Duration
	also               []string // kinds of faults that each schedule has
	reuse              bool     // binaries
	progress           io.Writer
}

// diskBytes is how large an agent's disk is: room for many schedules' scripts, and
// small enough to be filled at once.
const diskBytes = 8 << 20

// run runs the schedules, and returns what came of them. An error means that no
// more could be run; the report has those that were.
func run(ctx context.Context, cfg config) (*report, error) {
	began := time.Now()
	if err := cluster.Sweep(); err != nil {
		fmt.Fprintf(cfg.progress, "what a run before this one left mounted stays mounted: %v\n", err)
	}
	fmt.Fprintln(cfg.progress, "building etcd, nats-server, registryd and agentd …")
	binaries, err := cluster.Build(ctx, cfg.progress, cfg.reuse)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, binaries: binaries, report: newReport(cfg, binaries.Software)}
	err = r.all(ctx)
	r.stop()
	r.report.Seconds = time.Since(began).Seconds()
	return r.report, err
}

type runner struct {
	cfg      config
	binaries *cluster.Binaries
	cluster  *cluster.Cluster
	dir      string
	keep     bool // the folder, for a person to look at
	forger   *forge.Stranger
	unlisten func() // ends what the forger listens to
	report   *report
}

// all runs every schedule.
func (r *runner) all(ctx context.Context) error {
	for i := range r.cfg.schedules {
		if i%r.cfg.rebuild == 0 || r.cluster == nil {
			if err := r.restart(ctx); err != nil {
				return err
			}
		}
		if err := r.one(ctx, r.cfg.seed+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// restart builds the cluster anew.
func (r *runner) restart(ctx context.Context) error {
	r.stop()
	dir, err := cluster.NewDir()
	if err != nil {
		return err
	}
	r.dir, r.keep = dir, false
	ctx, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	r.cluster, err = cluster.Start(ctx, cluster.Config{
		Binaries: r.binaries, Dir: dir,
		Registries: r.cfg.registries, Agents: r.cfg.agents, Writers: writers,
		DiskBytes: diskBytes, Seed: r.cfg.seed,
	})
	if err != nil {
		r.cluster, r.keep = nil, true
		return fmt.Errorf("%w (logs are in %s)", err, filepath.Join(dir, "log"))
	}
	if r.forger, err = forge.New(r.cluster.NATS(), r.cluster.Key()); err != nil {
		return err
	}
	r.unlisten = r.listen()
	if err := r.cluster.SmallDisk(); err != nil && r.report.NoFullDisks == "" {
		r.report.NoFullDisks = err.Error()
		fmt.Fprintf(r.cfg.progress, "agents' disks are not filled: %v\n", err)
	}
	return nil
}

// listen lets the forger listen, and returns how to end that.
func (r *runner) listen() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	listening.Go(func() { r.forger.Listen(ctx) })
	return func() {
		cancel()
		listening.Wait()
	}
}

// stop ends the cluster and removes its files, unless keep is set.
func (r *runner) stop() {
	if r.unlisten != nil {
		r.unlisten()
		r.report.forged(r.forger.Forged())
		r.unlisten = nil
	}
	if r.cluster != nil {
		if err := r.cluster.Close(); err != nil {
			fmt.Fprintf(r.cfg.progress, "the cluster did not end well: %v\n", err)
		}
		r.cluster = nil
	}
	if r.dir != "" && !r.keep {
		if err := os.RemoveAll(r.dir); err != nil {
			fmt.Fprintf(r.cfg.progress, "the cluster's files remain: %v\n", err)
		}
	}
	r.dir = ""
}

// shape is what a plan may break of the cluster.
func (r *runner) shape() plan.Shape {
	s := plan.Shape{Seams: r.cluster.Seams(), CanFill: r.cluster.SmallDisk() == nil}
	for _, kind := range r.cfg.also {
		s.Also = append(s.Also, plan.Kind(kind))
	}
	for _, seam := range s.Seams {
		if strings.HasPrefix(seam, "writer-") {
			s.Writers = append(s.Writers, seam)
		}
	}
	for i, p := range r.cluster.Processes() {
		switch {
		case r.cluster.Agent(p.Name) != nil:
			s.Agents = append(s.Agents, p.Name)
		case i < cluster.EtcdMembers+cluster.NATSServers:
			s.Servers = append(s.Servers, p.Name)
		default:
			s.Registries = append(s.Registries, p.Name)
		}
	}
	return s
}

// one runs the schedule of a seed and reports it.
func (r *runner) one(ctx context.Context, seed uint64) error {
	p := plan.Make(seed, r.shape())
	began := time.Now()
	s, err := newSchedule(r.cluster, r.forger, p, r.cfg.bound)
	defer s.close()
	if err != nil {
		return err
	}
	h, calls, err := s.run(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("seed %d: stopped: %w", seed, ctx.Err())
	}
	if err != nil {
		r.keep = true
		return fmt.Errorf("seed %d: %w (logs are in %s)", seed, err, filepath.Join(r.dir, "log"))
	}
	result := newResult(p, h, calls, time.Since(began))
	result.Violations = history.Check(h)
	if len(result.Violations) > 0 {
		r.keep, result.Logs = true, filepath.Join(r.dir, "log")
	}
	r.report.add(result)
	result.print(r.cfg.progress)
	if r.keep {
		r.stop()
	}
	return nil
}
