// Package embed puts an agent into a Go program: a gateway of one's own, or a plugin of one. It follows
// the registry as agentd does, with the same state folder, limits and turns, and calls need no socket.
//
//	agent, err := embed.Start(ctx, embed.Config{
//		StateDir: "/var/lib/shop", Registry: "registry.internal:7070", TrustedKeys: []string{"registry.pub"},
//	})
//	...
//	defer agent.Close(context.Background())
//	result, err := agent.Call(ctx, "acme/greet", "ann")
//
// The agent is one of the fleet's: rollouts wait for it, and scriptctl lists it. Scripts run in this
// process. It has no processes for tenants whose isolation is "process", and refuses their calls. A
// script that breaks the walls of the engine can end the program; docs/gateways/go.md has more.
package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Agent is one of a fleet. It is safe for concurrent use.
type Agent struct {
	name     string
	node     *node.Node
	executor gateway.Executor
	log      *slog.Logger
	metrics  *prometheus.Registry
	budget   *budget.Budget // of requests that are decided about

	// calling is held for reading by each call. Close takes it for good.
	calling sync.RWMutex
	closing sync.Once
	left    atomic.Bool // Close was called
	closed  error
	cancel  context.CancelFunc
	ended   chan struct{}         // Run has returned
	failure atomic.Pointer[error] // of Run
}

// Start loads the state folder, and follows the registry from then on. The agent serves what is on disk
// at once; WaitReady waits for what the registry has. If the end of the journal on disk is damaged,
// Start waits for the registry, for up to thirty seconds. The caller closes the agent. When ctx ends
// before Start returns, Start closes it and returns an error; later ctx means nothing.
func Start(ctx context.Context, cfg Config) (*Agent, error) {
	metrics := prometheus.NewRegistry()
	config, err := cfg.node(metrics)
	if err != nil {
		return nil, err
	}
	n, err := node.Open(config)
	if err != nil {
		return nil, asFields(err)
	}
	a := &Agent{name: config.Name, node: n, executor: gateway.Protect(n.Executor(), config.Log), log: config.Log, metrics: metrics, budget: budget.New(gateway.DefaultBudget), ended: make(chan struct{})}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	go func() {
		defer close(a.ended)
		if err := n.Run(running); err != nil {
			a.failure.Store(&err)
			a.log.Error("the agent follows the registry no more; it serves what is live", "error", err)
		}
	}()
	current := make(chan struct{})
	go func() {
		defer close(current)
		n.CatchUp()
	}()
	select {
	case <-current:
		return a, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), a.Close(ctx))
	}
}

// embedded is the origin of calls that come over no socket.
var embedded = gateway.Origin{Protocol: "embedded"}

// Call runs the script ref, "tenant/name" or "tenant/name@7", with the arguments. Each is encoded by
// encoding/json; a json.RawMessage goes as it is. Its errors are *script.Error. It is Call of
// agentclient.Client without a socket.
func (a *Agent) Call(ctx context.Context, ref string, args ...any) (*agentclient.Result, error) {
	encoded, err := agentclient.Encode(args)
	if err != nil {
		return nil, err
	}
	var reply gateway.Reply
	if err := a.Execute(ctx, &gateway.Call{Script: ref, Args: encoded, Origin: embedded}, &reply); err != nil {
		return nil, err
	}
	result := &agentclient.Result{Values: make([]json.RawMessage, reply.Len()), Version: reply.Version, Digest: reply.Digest, Staleness: reply.Position.Staleness}
	for i := range result.Values {
		result.Values[i] = reply.Value(i) // the reply is nobody else's
	}
	return result, nil
}

// Execute runs call and fills reply, whose buffers it uses again. Its errors are *script.Error. It is
// what costs least: arguments and results are JSON.
func (a *Agent) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	if !a.begin() {
		return errClosed
	}
	defer a.calling.RUnlock()
	return a.executor.Execute(ctx, call, reply)
}

// begin begins a call, which unlocks calling at its end. It returns false if the agent is closed.
func (a *Agent) begin() bool {
	if a.left.Load() || !a.calling.TryRLock() { // a call that is refused is none that Close finds in flight
		return false
	}
	if a.left.Load() { // Close has not taken the lock yet, and may not wait for it
		a.calling.RUnlock()
		return false
	}
	return true
}

var errClosed = script.Errorf(script.Unavailable, "", "the agent is closed")

// Scripts returns the live scripts in order of tenant and name.
func (a *Agent) Scripts() []gateway.Script { return a.executor.List() }

// Position says what the agent has activated, and how stale it is.
func (a *Agent) Position() gateway.Position { return a.executor.Position() }

// Name of the agent in its fleet.
func (a *Agent) Name() string { return a.name }

// Ready returns why the agent has nothing to answer from: not yet, or not any more. It returns nil if it has.
func (a *Agent) Ready() error {
	if a.left.Load() {
		return errClosed
	}
	return a.node.NotReady()
}

// Degraded says what keeps the agent from being current; "" if it is.
func (a *Agent) Degraded() string {
	if a.left.Load() {
		return errClosed.Error()
	}
	if err := a.failed(); err != nil {
		return err.Error()
	}
	return a.node.Degraded(time.Now())
}

// failed returns why the agent has stopped following the registry by itself, or nil.
func (a *Agent) failed() error {
	failure := a.failure.Load()
	if failure == nil {
		return nil
	}
	return script.Errorf(script.Unavailable, "", "the agent follows the registry no more, until it is started again: %w", *failure)
}

// WaitReady returns nil once the agent has something to answer from, or ctx's error. Of a new agent that
// is after the first answer of the registry. It returns an error if the agent is closed, or fails.
func (a *Agent) WaitReady(ctx context.Context) error {
	if a.left.Load() {
		return errClosed
	}
	if a.Ready() == nil {
		return nil
	}
	select {
	case <-a.node.FirstSync():
		if a.left.Load() {
			return errClosed
		}
		return nil
	case <-a.ended:
		if err := a.failed(); err != nil && !a.left.Load() {
			return err
		}
		return errClosed
	case <-ctx.Done():
		return errors.Join(a.Ready(), context.Cause(ctx))
	}
}

// Collector returns the agent's metrics, which have the names of agentd's.
func (a *Agent) Collector() prometheus.Collector { return a.metrics }

// Close refuses new calls, and waits for those in flight until ctx is done. Calls that are in flight then
// end by their own limits. Close tells the registry that the agent leaves, and releases the state folder.
// It may be called again: it returns when the first call has returned, with the same error.
func (a *Agent) Close(ctx context.Context) error {
	a.closing.Do(func() {
		a.left.Store(true)
		if !a.calling.TryLock() { // for good
			a.closed = a.awaitCalls(ctx)
		}
		a.closed = errors.Join(a.closed, a.node.EndRecords(ctx))
		a.cancel()
		<-a.ended
		a.closed = errors.Join(a.closed, a.node.Close())
	})
	return a.closed
}

// awaitCalls waits until no call is in flight, or until ctx is done.
func (a *Agent) awaitCalls(ctx context.Context) error {
	idle := make(chan struct{})
	go func() {
		a.calling.Lock() // for good
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		select {
		case <-idle: // both were ready
			return nil
		default:
		}
		return fmt.Errorf("calls were in flight when the agent was closed: %w", context.Cause(ctx))
	}
}
