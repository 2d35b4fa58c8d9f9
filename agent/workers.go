package agent

import (
	"context"
	"sync"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/personal"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
)

// startWorkers gives processes to the tenants that ask for one, from now on.
func (a *Agent) startWorkers() error {
	cfg := a.cfg.Workers
	cfg.Node = worker.Node{
		Agent: a.cfg.self(),
		Table: a.state.table, Values: a.state.values, Tenants: a.state.tenants,
		Content: a.contents.sources.Source, Position: a.position,
		Publishers: a.cfg.Publishers, OnError: a.executor.OnError,
	}
	changed := cfg.Changed
	cfg.Changed = func() {
		a.follower.TroublesChanged()
		if changed != nil {
			changed()
		}
	}
	cfg.Calls, cfg.MetricScripts, cfg.ClassicHistograms = a.calls, a.cfg.MetricScripts, a.cfg.ClassicHistograms
	cfg.Traces = a.traces
	cfg.Host, cfg.MaxWaiting, cfg.Log, cfg.Metrics = a.host, a.cfg.MaxWaiting, a.log, a.cfg.Metrics
	cfg.Observers, cfg.Records = a.observers(), a.recorder
	pool, err := worker.New(cfg)
	if err != nil {
		return err
	}
	a.workers = pool
	a.state.observer = pool
	a.router = personal.Router(pool.Router(a.executor), a.state.table)
	a.tests = gateway.Protect(pool.TrialRouter(a.executor.Trials()), a.log)
	a.endWorkers = sync.OnceFunc(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // Shutdown waits no more: the agent has waited already
		_ = pool.Shutdown(ended)
	})
	return nil
}

// Workers are the processes of the tenants that have one.
func (a *Agent) Workers() *worker.Pool { return a.workers }
