package agent

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/store"
)

// measure registers what the agent itself measures.
func (a *Agent) measure(loaded *store.Loaded) error {
	if a.cfg.Metrics == nil {
		return nil
	}
	refused := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "scriptorium_agent_disk_refused",
		Help: "Files of the state folder that were not believed at the last start, by reason: corrupt, or not signed by a trusted key.",
	}, []string{"reason"})
	refused.WithLabelValues("corrupt").Set(float64(len(loaded.Lost)))
	refused.WithLabelValues("not_signed").Set(float64(len(loaded.Doubted)))
	values := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_agent_values", Help: "Live values of all tenants.",
	}, func() float64 { return float64(a.state.values.Len()) })
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_agent_value_cache_bytes", Help: "Bytes of the contents of values that are in memory.",
	}, func() float64 { return float64(a.state.values.Bytes()) })
	unsigned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_agent_untrusted_scripts",
		Help: "Live scripts that would not be loaded again: the key of their publisher is not among the tenants' keys any more.",
	}, func() float64 { return float64(len(a.unsigned.troubles(a.state.table))) })
	for _, c := range []prometheus.Collector{refused, values, held, unsigned, disk{a}} {
		if err := a.cfg.Metrics.Register(c); err != nil {
			return fmt.Errorf("register the agent's metrics: %w", err)
		}
	}
	return nil
}

// measureFeed registers what is measured of the connection with NATS.
func (a *Agent) measureFeed() error {
	if a.cfg.Metrics == nil {
		return nil
	}
	return a.cfg.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_agent_nats_connected", Help: "1 while NATS is connected. Without it, the agent polls the registry.",
	}, func() float64 { return flag(a.feed.IsConnected()) }))
}
