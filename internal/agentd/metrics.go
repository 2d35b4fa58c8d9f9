package agentd

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// registerConnections makes metrics of the connections of the sockets.
func registerConnections(reg prometheus.Registerer, conns *budget.Connections) error {
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "scriptorium_agent_connections", Help: "Connections of callers to the agent's sockets.",
		}, func() float64 { return float64(conns.Open()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "scriptorium_agent_connections_limit", Help: "How many connections all callers together may have.",
		}, func() float64 { return float64(conns.Most()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "scriptorium_agent_connections_refused_total", Help: "Connections that were refused because their caller, or all callers, had as many as they may.",
		}, func() float64 { return float64(conns.Refused.Load()) }),
	} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// tenantLabel names the tenant whose metric it is.
const tenantLabel = "tenant"

// granted returns the metrics of all without those of tenants that the peer may not use.
func granted(all prometheus.Gatherer, grant gateway.Grant) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.GetMetric(), func(m *dto.Metric) bool {
				return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					return l.GetName() == tenantLabel && !grant.Allows(l.GetValue())
				})
			})
		}
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.GetMetric()) == 0 }), err
	})
}
