package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/cluster"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/forge"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/load"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/plan"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	writers          = 3
	scriptsPerTenant = 5
	scriptsAtStart   = 3 // the others come, if they do, while things break
	// upPatience bounds what is no part of a promise: that processes come up.
	upPatience = time.Minute
)

// schedule is one seed's worth of faults, on a cluster that is whole.
type schedule struct {
	plan    plan.Plan
	bound   time.Duration
	cluster *cluster.Cluster
	forger  *forge.Stranger
	scripts []script.Name
	record  *load.Record
	writers []*load.Writer
	callers []*load.Caller
	askers  []*load.Asker

	mended, converged, told history.Time
}

func newSchedule(c *cluster.Cluster, forger *forge.Stranger, p plan.Plan, bound time.Duration) (*schedule, error) {
	s := &schedule{plan: p, bound: bound, cluster: c, forger: forger}
	var agents, names []string
	for _, a := range c.Agents {
		agents = append(agents, a.Name)
	}
	for i := range scriptsPerTenant {
		name := script.Name{Tenant: fmt.Sprintf("s%d", p.Seed), Script: fmt.Sprintf("script-%d", i)}
		s.scripts = append(s.scripts, name)
		names = append(names, name.String())
	}
	s.record = load.NewRecord(p.Seed, agents, names)
	random := rand.New(rand.NewPCG(p.Seed, 5))
	for i := range writers {
		w, err := load.NewWriter(fmt.Sprintf("w%d", i), c.WriterAddress(i), random.Uint64(), s.scripts, s.record)
		if err != nil {
			return s, err
		}
		s.writers = append(s.writers, w)
	}
	for _, a := range c.Agents {
		caller, err := load.NewCaller(a.Name, a.RESP(), a.GRPC(), s.scripts, s.record)
		if err != nil {
			return s, err
		}
		s.callers = append(s.callers, caller)
	}
	for j, address := range c.Registries() {
		asker, err := load.NewAsker(fmt.Sprintf("registry-%d", j), address, s.scripts, s.record)
		if err != nil {
			return s, err
		}
		s.askers = append(s.askers, asker)
	}
	return s, nil
}

func (s *schedule) close() {
	for _, w := range s.writers {
		w.Close()
	}
	for _, c := range s.callers {
		c.Close()
	}
	for _, a := range s.askers {
		a.Close()
	}
}

// run does all of it and returns what was seen.
func (s *schedule) run(ctx context.Context) (h *history.History, calls int, err error) {
	if err := s.begin(ctx); err != nil {
		return nil, 0, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watch sync.WaitGroup
	for _, c := range s.callers {
		watch.Go(func() { c.Run(watching) })
	}
	for _, a := range s.askers {
		watch.Go(func() { a.Run(watching) })
	}
	in := &injector{cluster: s.cluster, record: s.record, forger: s.forger, scripts: s.scripts, callers: map[string]*load.Caller{}}
	for i, a := range s.cluster.Agents {
		in.callers[a.Name] = s.callers[i]
	}
	err = errors.Join(s.storm(ctx, in), s.mend(ctx))
	if err == nil {
		s.converge(ctx)
		in.over()
	}
	stopWatching()
	watch.Wait()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, 0, err
	}
	return s.collect(ctx)
}

// begin publishes the first scripts, so that there is something to lose.
func (s *schedule) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	for i, name := range s.scripts[:scriptsAtStart] {
		for !s.writers[i%writers].Publish(ctx, name) {
			if !rest(ctx, 50*time.Millisecond) {
				return fmt.Errorf("the whole cluster does not take a publish of %s", name)
			}
		}
	}
	for !s.current(ctx) {
		if !rest(ctx, 10*time.Millisecond) {
			return errors.New("the whole cluster does not bring the first scripts to its agents")
		}
	}
	return nil
}

// storm writes while things break.
func (s *schedule) storm(ctx context.Context, in *injector) error {
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	var write sync.WaitGroup
	for _, w := range s.writers {
		write.Go(func() { w.Run(writing) })
	}
	err := in.run(ctx, s.plan)
	stopWriting()
	write.Wait()
	return err
}

// mend undoes whatever is left of the faults, and waits until all serve.
func (s *schedule) mend(ctx context.Context) error {
	if err := s.cluster.Mend(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	if err := s.cluster.AwaitReady(bounded); err != nil {
		s.record.Crash(fmt.Sprintf("the cluster does not come up again: %v", err))
	}
	for s.askers[0].Repair(bounded) != nil {
		if !rest(bounded, 20*time.Millisecond) {
			s.record.Crash("records that cannot be read are not repaired")
			break
		}
	}
	s.mended = s.record.Now()
	return nil
}

// converge waits until every agent runs what the registry says, and until every
// registry says so.
func (s *schedule) converge(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	for !s.current(bounded) {
		if !rest(bounded, 20*time.Millisecond) {
			return
		}
	}
	s.converged = s.record.Now()
	for !s.agreed(bounded) {
		if !rest(bounded, 20*time.Millisecond) {
			return
		}
	}
	s.told = s.record.Now()
}

// current reports whether every agent runs what the registry says now.
func (s *schedule) current(ctx context.Context) bool {
	want, err := s.askers[0].Releases(ctx)
	if err != nil {
		return false
	}
	for _, c := range s.callers {
		live, err := c.List(ctx)
		if err != nil || len(live) != len(want) {
			return false
		}
		for name, release := range want {
			if live[name].Revision != release.Revision {
				return false
			}
		}
	}
	return true
}

// agreed reports whether every registry counts all agents and says that all scripts
// have converged.
func (s *schedule) agreed(ctx context.Context) bool {
	for _, a := range s.askers {
		if n, err := a.Converged(ctx); err != nil || n != len(s.callers) {
			return false
		}
	}
	return true
}

// collect asks the registries for what they know and completes the history.
func (s *schedule) collect(ctx context.Context) (*history.History, int, error) {
	ctx, cancel := context.WithTimeout(ctx, upPatience)
	defer cancel()
	entries, err := s.askers[0].Entries(ctx)
	if err != nil {
		return nil, 0, err
	}
	var finals []history.Final
	for _, a := range s.askers {
		finals = append(finals, a.Finals(ctx)...)
	}
	for _, p := range s.cluster.Processes() {
		for _, crash := range p.Crashes() {
			s.record.Crash(fmt.Sprintf("%s ended by itself: %s\n%s", crash.Process, crash.Reason, crash.Log))
		}
	}
	h, calls := s.record.Finish(func(h *history.History) {
		h.Entries, h.Finals = entries, finals
		h.Mended, h.Converged, h.Told, h.Bound = s.mended, s.converged, s.told, s.bound
	})
	s.askers[0].Remove(ctx)
	return h, calls, nil
}
