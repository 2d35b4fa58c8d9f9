package follow

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauge is 1 while something is the case.
func gauge(name, help string, is func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "scriptorium_agent_" + name, Help: help}, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
}

type metrics struct {
	events, duplicates, malformed, syncs, syncsFailed, drifts prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, f *Follower) (*metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "scriptorium_agent_" + name, Help: help})
		all = append(all, c)
		return c
	}
	m := &metrics{
		events:      counter("events_total", "Events of the feed that were applied."),
		duplicates:  counter("duplicate_events_total", "Events that had been applied or were waiting already."),
		malformed:   counter("malformed_total", "Objects and sources that were not what they should be."),
		syncs:       counter("syncs_total", "Syncs with the registry that succeeded."),
		syncsFailed: counter("syncs_failed_total", "Syncs with the registry that failed."),
		drifts:      counter("drifts_total", "How often what is live was found to differ from the registry's checksum."),
	}
	if reg == nil {
		return m, nil
	}
	all = append(all,
		f.refusals.counts,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "scriptorium_agent_activated_revision", Help: "The revision that is activated.",
		}, func() float64 {
			revision, _ := f.Position(time.Now())
			return float64(revision)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "scriptorium_agent_staleness_seconds", Help: "Time since the agent last knew that it was current; -1: never since its start.",
		}, func() float64 {
			_, staleness := f.Position(time.Now())
			if staleness < 0 {
				return -1
			}
			return staleness.Seconds()
		}),
		gauge("drifting", "1 while what is live differs from the registry's checksum, and no answer of the registry has repaired it.", func() bool { return f.standing.Load().drifting }),
		gauge("held", "1 while the agent keeps what the registry says is gone, because it is much and nobody has accepted the loss.", func() bool { return f.Held() != "" }),
	)
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the follower's metrics: %w", err)
		}
	}
	return m, nil
}
