package agentd

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// registerInfo makes a metric that names the agent. Programs that embed one have a label for that.
func registerInfo(reg prometheus.Registerer, name string) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "scriptorium_agent_info", Help: "1, with the name and the version of the agent.",
		ConstLabels: prometheus.Labels{"agent": name, "version": version.String()},
	}, func() float64 { return 1 }))
}

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

// adminMetrics returns what the admin listener shows. Callers there are unknown, and access rules grant tenants to
// known ones.
func adminMetrics(cfg Config, access *gateway.Access) (prometheus.Gatherer, error) {
	if access.Open() {
		return cfg.Metrics, nil
	}
	if len(cfg.MetricsTenants) == 0 {
		return granted(cfg.Metrics, gateway.Grant{}), nil
	}
	tenants, err := script.ParseSelector(cfg.MetricsTenants)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "--metrics-tenants", "%w", err)
	}
	return granted(cfg.Metrics, gateway.GrantTo("the admin listener", tenants, "")), nil
}

// Labels that name the tenant whose metric it is, and its script.
const (
	tenantLabel = "tenant"
	scriptLabel = "script"
)

// granted returns the metrics of all without those of tenants that the peer may not use, and without those of the
// scripts that have none of their own: these are of any tenant, though there may be one that is called other.
func granted(all prometheus.Gatherer, grant gateway.Grant) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		for _, f := range families {
			f.Metric = slices.DeleteFunc(f.GetMetric(), func(m *dto.Metric) bool {
				others := 0
				return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					if (l.GetName() == tenantLabel || l.GetName() == scriptLabel) && l.GetValue() == callstats.Other {
						others++
					}
					return l.GetName() == tenantLabel && !grant.Allows(l.GetValue()) || others == 2 && !grant.All()
				})
			})
		}
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.GetMetric()) == 0 }), err
	})
}
