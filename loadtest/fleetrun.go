package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fleetRun measures one fleet.
type fleetRun struct {
	opts     *fleetOptions
	agents   int
	scripts  int
	progress io.Writer
	began    time.Time
	result   *fleetResult

	stack   *stack
	workers []*rpc.Client
	line    *natsLine     // of the driver
	event   atomic.Int64  // bytes of the last event
	heard   chan struct{} // closed at the first event
	edits   atomic.Int64
}

// atOnce is how many agents join at a time.
func (o *fleetOptions) atOnce(agents, scripts int) int {
	if o.joinAtOnce > 0 {
		return min(o.joinAtOnce, agents)
	}
	return min(agents, max(1, joiningScripts/scripts))
}

func newFleetRun(o *fleetOptions, agents, scripts int, progress io.Writer) *fleetRun {
	return &fleetRun{
		heard: make(chan struct{}),
		opts:  o, agents: agents, scripts: scripts, progress: progress, began: time.Now(),
		result: &fleetResult{
			Agents: agents, Scripts: scripts, Registries: o.registries, SourceBytes: o.sourceBytes, Changes: o.changes, Verified: o.verify,
			JoinAtOnce: o.atOnce(agents, scripts),
		},
	}
}

func (r *fleetRun) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "%d agents, %d scripts, %5.1f s: %s\n", r.agents, r.scripts, time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// runWithin runs, and gives up after a while.
func (r *fleetRun) runWithin(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.within, fmt.Errorf("it took longer than %v (--within)", r.opts.within))
	defer cancel()
	err := r.run(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// run starts everything, measures, and ends everything.
func (r *fleetRun) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.say("starting etcd, NATS and %d registries", r.opts.registries)
	r.stack, err = startStack(ctx, stackConfig{registries: r.opts.registries, signed: true, profile: r.opts.profile})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stack.crashed())
		}
		err = errors.Join(err, r.close())
		r.result.summarise()
		r.result.Seconds = time.Since(r.began).Seconds()
	}()
	if err := r.startWorkers(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.publishAll, r.bare, r.join, r.rest, r.change, r.check, r.leave, r.bare} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *fleetRun) close() error {
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, w.Close())
	}
	if r.line != nil {
		r.line.close()
	}
	return errors.Join(append(errs, r.stack.close())...)
}

// startWorkers starts the processes of the agents, and connects the driver to NATS.
func (r *fleetRun) startWorkers(ctx context.Context) (err error) {
	subjects := wire.Subjects{Prefix: wire.DefaultPrefix}
	first := sync.OnceFunc(func() { close(r.heard) })
	r.line, err = dialNATS(ctx, r.stack.nats, func(subject string, data []byte) {
		if strings.HasSuffix(subject, ".event") {
			r.event.Store(int64(len(data)))
			first()
		}
	}, subjects.Feed("all"))
	if err != nil {
		return err
	}
	for i := range (r.agents + r.opts.perProcess - 1) / r.opts.perProcess {
		name := fmt.Sprintf("agents-%d", i)
		socket := filepath.Join(r.stack.dir, name)
		args := []string{"fleet-worker", "--socket", socket}
		if r.opts.profile != "" && i == 0 {
			args = append(args, "--cpuprofile", r.opts.profile+".agents")
		}
		if err := r.stack.start(name, args...); err != nil {
			return err
		}
		conn, err := r.dial(ctx, socket)
		if err != nil {
			return err
		}
		r.workers = append(r.workers, rpc.NewClient(conn))
	}
	return nil
}

// dial connects to a worker, once it listens.
func (r *fleetRun) dial(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, stackStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("a process of agents does not start: %w", err)
		}
	}
}

// of returns which agents the worker has: the first of them, and how many.
func (r *fleetRun) of(worker int) (first, count int) {
	first = worker * r.agents / len(r.workers)
	return first, (worker+1)*r.agents/len(r.workers) - first
}

// call calls a method of each worker at once, and returns their answers in their order.
func call[Out any](ctx context.Context, r *fleetRun, method string, in func(worker int) any) ([]Out, error) {
	out := make([]Out, len(r.workers))
	var all errgroup.Group
	for i, w := range r.workers {
		all.Go(func() error {
			done := w.Go("Fleet."+method, in(i), &out[i], make(chan *rpc.Call, 1)).Done
			select {
			case c := <-done:
				return c.Error
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	return out, all.Wait()
}

// same is an argument that is the same for all workers.
func same(v any) func(int) any { return func(int) any { return v } }

// publish publishes a new version of a script, by one registry after the other.
func (r *fleetRun) publish(ctx context.Context) (registryclient.Published, error) {
	edit := int(r.edits.Add(1))
	number := edit % r.scripts
	source := fmt.Appendf(nil, "function handle() return %d end -- ", edit)
	source = append(source, bytes.Repeat([]byte("."), max(0, r.opts.sourceBytes-len(source)))...)
	return r.stack.clients[edit%len(r.stack.clients)].Publish(ctx, registryclient.PublishRequest{
		Name: script.Name{Tenant: fmt.Sprint("tenant-", number%fleetTenants), Script: fmt.Sprint("script-", number)}, Source: source,
		Write: registryclient.Write{Author: "loadtest"},
	})
}

const (
	fleetTenants   = 10
	publishAtOnce  = 16
	bareAtATime    = 2 // rounds of bare connections
	barePause      = 100 * time.Millisecond
	bareSubject    = "loadtest.bare"
	bareNumberSize = 8
)

func (r *fleetRun) publishAll(ctx context.Context) error {
	r.say("publishing")
	group, publishing := errgroup.WithContext(ctx)
	group.SetLimit(publishAtOnce)
	for range r.scripts {
		group.Go(func() error {
			_, err := r.publish(publishing)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	select { // the size of an event is that of bare messages
	case <-r.heard:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bare measures half of what goes to bare connections.
func (r *fleetRun) bare(ctx context.Context) error {
	r.result.EventBytes = int(r.event.Load())
	r.say("bare NATS: messages of %d bytes", r.result.EventBytes)
	_, err := call[struct{}](ctx, r, "Listen", func(i int) any {
		_, count := r.of(i)
		return FleetListen{Count: count, NATS: r.stack.nats, Subject: bareSubject}
	})
	if err != nil {
		return err
	}
	message := make([]byte, max(r.result.EventBytes, bareNumberSize))
	for number := range (r.opts.changes + bareAtATime - 1) / bareAtATime {
		binary.BigEndian.PutUint64(message, uint64(number))
		sent := time.Now()
		if err := errors.Join(r.line.publish(bareSubject, message), r.line.flush()); err != nil {
			return err
		}
		heard, err := call[FleetTimes](ctx, r, "Heard", same(int64(number)))
		if err != nil {
			return err
		}
		r.result.bare.add(sent, heard)
		if err := pause(ctx, barePause); err != nil {
			return err
		}
	}
	_, err = call[struct{}](ctx, r, "Hush", same(struct{}{}))
	return err
}

// join starts all agents.
func (r *fleetRun) join(ctx context.Context) error {
	r.say("joining, %d agents at a time", r.result.JoinAtOnce)
	trusted := ""
	if r.opts.verify {
		trusted = r.stack.trusted
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.countJoined(ctx)
	return r.phase("join", func() error {
		joined, err := call[FleetTimes](ctx, r, "Join", func(i int) any {
			first, count := r.of(i)
			return FleetJoin{
				First: first, Count: count, NATS: r.stack.nats, Registries: r.stack.registry, Trusted: trusted, Warm: r.opts.warm,
				AtOnce: max(1, r.result.JoinAtOnce/len(r.workers)), Patience: r.opts.within,
			}
		})
		if err != nil {
			return err
		}
		r.result.joined(joined)
		r.say("joined within %.1f s", r.result.JoinAll/1000)
		return nil
	})
}

// countJoined says now and then how many agents have joined.
func (r *fleetRun) countJoined(ctx context.Context) {
	for pause(ctx, 5*time.Second) == nil {
		counts, err := call[int](ctx, r, "Joined", same(struct{}{}))
		if err != nil {
			return
		}
		sum := 0
		for _, n := range counts {
			sum += n
		}
		r.say("%d have joined", sum)
	}
}

// rest measures what the fleet costs while nothing changes.
func (r *fleetRun) rest(ctx context.Context) error {
	r.say("nothing changes for %v", r.opts.idle)
	return r.phase("idle", func() error { return pause(ctx, r.opts.idle) })
}

// change measures changes.
func (r *fleetRun) change(ctx context.Context) error {
	r.say("%d changes", r.opts.changes)
	if _, err := call[struct{}](ctx, r, "Expect", same(int64(0))); err != nil {
		return err
	}
	return r.phase("changes", func() error {
		for i := range r.opts.changes {
			asked := time.Now()
			published, err := r.publish(ctx)
			if err != nil {
				return err
			}
			r.result.published = append(r.result.published, time.Since(asked))
			r.result.Revision = published.Release.Revision
			live, err := call[FleetTimes](ctx, r, "Await", same(int64(r.result.Revision)))
			if err != nil {
				return fmt.Errorf("change %d: %w", i+1, err)
			}
			r.result.active.add(published.Release.ChangedAt, live)
			if err := pause(ctx, r.opts.pause); err != nil {
				return err
			}
		}
		return nil
	})
}

// check finds out whether all agents have the same, and all of it. An agent says where it
// is shortly after a change is active.
func (r *fleetRun) check(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	for {
		states, err := call[FleetState](ctx, r, "State", same(struct{}{}))
		if err != nil {
			return err
		}
		if err = r.checkStates(states); err == nil {
			return r.stack.crashed()
		}
		if pause(bounded, barePause) != nil {
			return err
		}
	}
}

func (r *fleetRun) checkStates(states []FleetState) error {
	r.result.Reached = states[0].Least
	for _, s := range states {
		r.result.Reached = min(r.result.Reached, s.Least)
		if s.Least < int64(r.result.Revision) {
			return fmt.Errorf("an agent is at revision %d, behind the last change at %d", s.Least, r.result.Revision)
		}
		if s.Scripts != r.scripts {
			return fmt.Errorf("an agent has %d scripts, want %d", s.Scripts, r.scripts)
		}
		if len(s.Sums) != 1 || s.Sums[0] != states[0].Sums[0] {
			return fmt.Errorf("agents at revision %d differ: checksums %v and %v", r.result.Revision, s.Sums, states[0].Sums)
		}
	}
	return nil
}

func (r *fleetRun) leave(ctx context.Context) error {
	r.say("leaving")
	_, err := call[struct{}](ctx, r, "Leave", same(struct{}{}))
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
