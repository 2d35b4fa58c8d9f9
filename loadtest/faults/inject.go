package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/cluster"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/forge"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/load"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/natswire"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/plan"
	"github.com/scriptorium-dev/scriptorium/script"
)

// injector does what a plan says.
type injector struct {
	cluster *cluster.Cluster
	record  *load.Record
	callers map[string]*load.Caller // by agent
	forger  *forge.Stranger
	scripts []script.Name

	mu        sync.Mutex
	converged []func() // to call once the fleet has converged
}

// run does all actions, and returns when the last is undone.
func (in *injector) run(ctx context.Context, p plan.Plan) error {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []string
	)
	began := time.Now()
	for _, a := range p.Actions {
		all.Go(func() {
			if !rest(ctx, time.Until(began.Add(a.At))) {
				return
			}
			if err := in.do(ctx, a); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Sprintf("%s %s: %v", a.Kind, a.Target, err))
			}
		})
	}
	rest(ctx, p.Length)
	all.Wait()
	if len(errs) > 0 {
		return fmt.Errorf("the faults could not be made: %s", strings.Join(errs, "; "))
	}
	return nil
}

// rest waits, and reports false if ctx is done first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// do does one action and undoes it. Some are undone only when all has converged.
func (in *injector) do(ctx context.Context, a plan.Action) error {
	over := in.record.Fault(string(a.Kind), a.Target, a.Detail())
	switch a.Kind {
	case plan.Tear:
		in.whenConverged(over)
		return in.tear(ctx, a)
	case plan.Garbage:
		in.whenConverged(over)
		return in.garbage(ctx, a)
	}
	defer over()
	switch a.Kind {
	case plan.Kill:
		return in.kill(ctx, a.Target, a.For)
	case plan.Pause:
		p := in.cluster.Process(a.Target)
		p.Pause()
		rest(ctx, a.For)
		p.Resume()
	case plan.Break:
		in.cluster.Break(a.Target, a.Net)
		rest(ctx, a.For)
		in.cluster.Break(a.Target, netfault.Fault{})
	case plan.Mangle:
		m := in.cluster.Agent(a.Target).Mangler
		m.Set(a.Odds)
		rest(ctx, a.For)
		m.Set(natswire.Odds{})
	case plan.Forge:
		bounded, cancel := context.WithTimeout(ctx, a.For)
		defer cancel()
		in.forger.Run(bounded, rand.New(rand.NewPCG(a.Seed, 6)))
	case plan.Fill:
		agent := in.cluster.Agent(a.Target)
		if err := agent.Fill(); err != nil {
			return err
		}
		rest(ctx, a.For)
		return agent.Drain()
	case plan.Jump:
		if err := in.cluster.Jump(a.Target, a.Seconds); err != nil {
			return err
		}
		rest(ctx, a.For)
		return in.cluster.Jump(a.Target, 0)
	default:
		return in.attack(ctx, a)
	}
	return nil
}

// attack does one action that is not aimed at one process or link.
func (in *injector) attack(ctx context.Context, a plan.Action) error {
	switch a.Kind {
	case plan.Blackout:
		return in.blackout(ctx, a)
	case plan.WipeEtcd:
		return in.wipe(ctx, a)
	case plan.WrongPrefix:
		return in.wrongPrefix(ctx, a)
	case plan.ForgedStatus:
		bounded, cancel := context.WithTimeout(ctx, a.For)
		defer cancel()
		in.forger.RunStatuses(bounded, rand.New(rand.NewPCG(a.Seed, 8)))
	case plan.StatusFlood:
		in.flood(ctx, a)
	case plan.TwoKeys:
		return in.twoKeys(ctx, a)
	}
	return nil
}

// kill kills a process, and starts it again later. An agent is down until its
// sockets answer.
func (in *injector) kill(ctx context.Context, name string, down time.Duration) error {
	p := in.cluster.Process(name)
	p.Kill()
	rest(ctx, down)
	if err := p.Start(); err != nil {
		return err
	}
	in.awaitAgent(ctx, name)
	return nil
}

// startPatience is how long an agent may take to serve from its disk: far longer
// than it takes, and not so long that nobody would mind.
const startPatience = 15 * time.Second

// awaitAgent waits until the agent serves; one that never does is as good as one
// that ended.
func (in *injector) awaitAgent(ctx context.Context, name string) {
	caller, ok := in.callers[name]
	if !ok {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := caller.Reached(bounded); err != nil && ctx.Err() == nil {
		in.record.Crash(fmt.Sprintf("%s does not serve %v after its start: %v\n%s", name, startPatience, err, in.cluster.Agent(name).Tail()))
	}
}

// tear kills an agent, damages its files and starts it. Until it has converged it
// may miss what was damaged.
func (in *injector) tear(ctx context.Context, a plan.Action) error {
	down := in.record.Fault(string(plan.Kill), a.Target, "to tear its files")
	defer down()
	agent := in.cluster.Agent(a.Target)
	agent.Kill()
	done, err := agent.Tear(rand.New(rand.NewPCG(a.Seed, 4)))
	if err != nil {
		return err
	}
	in.record.Fault("torn", a.Target, strings.Join(done, ", "))()
	rest(ctx, a.For)
	if err := agent.Start(); err != nil {
		return err
	}
	in.awaitAgent(ctx, a.Target)
	return nil
}

// garbage puts garbage in place of a script's record. Whether an etcd that is broken too takes
// it is of no importance.
func (in *injector) garbage(ctx context.Context, a plan.Action) error {
	random := rand.New(rand.NewPCG(a.Seed, 7))
	name := in.scripts[random.IntN(len(in.scripts))]
	record := []string{"\xff\xff\xff", "", "garbage"}[random.IntN(3)]
	bounded, cancel := context.WithTimeout(ctx, a.For)
	defer cancel()
	for in.cluster.PutRecord(bounded, "releases/"+name.String(), record) != nil {
		if !rest(bounded, 20*time.Millisecond) {
			return nil
		}
	}
	in.record.Fault("garbage", name.String(), fmt.Sprintf("%q", record))()
	return nil
}

// blackout kills the control plane, and in the middle of that restarts an agent.
func (in *injector) blackout(ctx context.Context, a plan.Action) error {
	var plane []*cluster.Process
	for _, p := range in.cluster.Processes() {
		if in.cluster.Agent(p.Name) == nil {
			plane = append(plane, p)
			p.Kill()
		}
	}
	if rest(ctx, a.For/3) {
		over := in.record.Fault(string(plan.Kill), a.Target, "with everything else down")
		err := in.kill(ctx, a.Target, a.For/8)
		over()
		if err != nil {
			return err
		}
	}
	rest(ctx, a.For/3)
	for _, p := range plane {
		if err := p.Start(); err != nil {
			return err
		}
	}
	return nil
}

// noticed is how long a registry may take to notice that etcd does not have its fleet.
const noticed = 15 * time.Second

// wipe starts etcd without its data for a while.
func (in *injector) wipe(ctx context.Context, a plan.Action) error {
	if err := in.cluster.WipeEtcd(ctx); err != nil {
		return err
	}
	var refuse sync.WaitGroup
	for _, r := range in.cluster.RegistryNames() {
		refuse.Go(func() { in.wantRefusal(ctx, r, a.For) })
	}
	refuse.Wait()
	return in.cluster.RestoreEtcd()
}

// wrongPrefix restarts a registry with another --etcd-prefix for a while.
func (in *injector) wrongPrefix(ctx context.Context, a plan.Action) error {
	p := in.cluster.Process(a.Target)
	p.Kill()
	if err := p.StartWith("--etcd-prefix", "/mistyped/"); err != nil {
		return err
	}
	in.wantRefusal(ctx, a.Target, a.For)
	p.Kill()
	return p.Start()
}

// flood sends large statuses of agents that nobody knows, and finds out what etcd has of it.
func (in *injector) flood(ctx context.Context, a plan.Action) {
	bounded, cancel := context.WithTimeout(ctx, a.For)
	in.forger.Flood(bounded, rand.New(rand.NewPCG(a.Seed, 9)), in.cluster.Registries())
	cancel()
	const each = 16 << 10
	bounded, cancel = context.WithTimeout(ctx, noticed)
	defer cancel()
	if bytes, err := in.cluster.AgentBytes(bounded); err == nil && bytes > each*len(in.cluster.Agents) {
		in.record.Crash(fmt.Sprintf("etcd has %d bytes about %d agents", bytes, len(in.cluster.Agents)))
	}
}

// twoKeys starts a registry with a key of its own for a while, which the others have to notice.
func (in *injector) twoKeys(ctx context.Context, a plan.Action) error {
	intruder, err := in.cluster.Intruder(ctx)
	if err != nil {
		return err
	}
	if err := intruder.Start(); err != nil {
		return err
	}
	defer intruder.Kill()
	deadline := time.Now().Add(2 * noticed) // it stands for election first, and others may be down
	for _, r := range in.cluster.RegistryNames() {
		for !in.cluster.SeesOtherKey(ctx, r) {
			if time.Now().After(deadline) {
				in.record.Crash(r + " does not say that another replica signs with another key")
				return nil
			}
			if !rest(ctx, 50*time.Millisecond) {
				return nil
			}
		}
	}
	rest(ctx, a.For)
	return nil
}

// wantRefusal waits until the registry says that etcd does not have its fleet, and records it
// as a crash if it does not, or if it says within the time that it is ready.
func (in *injector) wantRefusal(ctx context.Context, registry string, during time.Duration) {
	deadline := time.Now().Add(noticed)
	for !in.cluster.RefusesFleet(ctx, registry) {
		if time.Now().After(deadline) {
			in.record.Crash(registry + " does not say that etcd lacks its fleet")
			return
		}
		if !rest(ctx, 20*time.Millisecond) {
			return
		}
	}
	for until := time.Now().Add(during); time.Now().Before(until); {
		if !rest(ctx, 50*time.Millisecond) {
			return
		}
		if in.cluster.Ready(ctx, registry) {
			in.record.Crash(registry + " says that it is ready, although etcd lacks its fleet")
			return
		}
	}
}

func (in *injector) whenConverged(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.converged = append(in.converged, f)
}

// over says that the fleet has converged.
func (in *injector) over() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.converged {
		f()
	}
	in.converged = nil
}
