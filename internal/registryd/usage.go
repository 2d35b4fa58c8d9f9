package registryd

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/usage"
)

// newUsage returns what adds up the usage of tenants. It is there before the parts that it needs once it leads.
func (d *Daemon) newUsage(cfg Config) *usage.Ledger {
	return usage.New(usage.Config{
		Store: d.store, Clock: cfg.Clock, Space: d.space.check, Log: cfg.Log,
		Knows: func(tenant string) bool { return d.mirror.Knows(tenant) },
	})
}

// keepUsage counts and stores it while this replica leads.
func (d *Daemon) keepUsage(ctx context.Context) { d.usage.Lead(ctx, d.feed.Stats().Term) }

func (d *Daemon) used(r *fleet.Report) { d.usage.Heard(r) }

// registerUsage makes metrics of what became of reported usage.
func registerUsage(r prometheus.Registerer, ledger *usage.Ledger) error {
	counter := func(name, help string, labels prometheus.Labels, value func(usage.Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(value(ledger.Stats())) })
	}
	const reports, ofReports = "usage_reports_total", "Usages that agents reported: counted; repeated after they were counted, or while this replica does not lead; or missed, since a leader before may have counted them."
	const dropped, ofDropped = "usage_dropped_total", "Usages of a tenant in an hour that are not kept: there is no such tenant (unknown), or there was no room or no time to store them (lost)."
	for _, c := range []prometheus.Collector{
		counter(reports, ofReports, prometheus.Labels{"outcome": "counted"}, func(s usage.Stats) uint64 { return s.Counted }),
		counter(reports, ofReports, prometheus.Labels{"outcome": "repeated"}, func(s usage.Stats) uint64 { return s.Repeated }),
		counter(reports, ofReports, prometheus.Labels{"outcome": "missed"}, func(s usage.Stats) uint64 { return s.Missed }),
		counter("usage_clamped_total", "Usages of agents that said more than their machine can do in the time, and counted as that.", nil, func(s usage.Stats) uint64 { return s.Clamped }),
		counter(dropped, ofDropped, prometheus.Labels{"reason": "unknown"}, func(s usage.Stats) uint64 { return s.Unknown }),
		counter(dropped, ofDropped, prometheus.Labels{"reason": "lost"}, func(s usage.Stats) uint64 { return s.Dropped }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "usage_stored_timestamp_seconds",
			Help: "When this replica stored usage of tenants last, as Unix time; 0 if it never did.",
		}, func() float64 {
			if at := ledger.Stats().Stored; !at.IsZero() {
				return float64(at.UnixMilli()) / 1000
			}
			return 0
		}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
