package agent

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/host"
)

// provide makes what scripts may use of the agent, and what counts their calls.
func (a *Agent) provide() (err error) {
	a.calls, err = callstats.New(callstats.Config{
		Table: a.state.table, Scripts: a.cfg.MetricScripts, Classic: a.cfg.ClassicHistograms, Metrics: a.cfg.Metrics,
	})
	if err != nil {
		return err
	}
	a.host, err = host.New(host.Config{
		Agent: a.cfg.Name, Values: a.state.values, Tenants: a.state.tenants.Settings, Send: a.feed.SendLogs, Keep: a.logs.Add, Dropped: a.calls.Dropped,
		Log: a.log, Metrics: a.cfg.Metrics, CounterMetrics: a.cfg.CounterMetrics,
	})
	return err
}

// tail has lines sent to whoever reads along.
func (a *Agent) tail(t follow.Tail) {
	a.host.Tail(t.Fleet, t.Tenant, t.Name, time.Now().Add(t.Lasts))
}
