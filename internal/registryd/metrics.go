package registryd

import (
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// metrics are what a registry counts. Names begin with scriptorium_registry_.
type metrics struct {
	writes    *prometheus.CounterVec
	converged prometheus.Histogram
	active    prometheus.Histogram
	removed   *prometheus.CounterVec
	rounds    *prometheus.CounterVec
	moves     *prometheus.CounterVec
	grpc      *grpcprom.ServerMetrics
}

const namespace, subsystem = "scriptorium", "registry"

func newMetrics() *metrics {
	return &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "writes_total",
			Help: "Writes by the change that was asked for and its outcome: changed, unchanged, refused, conflict or failed.",
		}, []string{"change", "outcome"}),
		converged: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "converged_seconds",
			Help:    "Time from the commit of a release until it was live on the last connected agent.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14), // 2 ms to 16 s
		}),
		active: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "rollout_seconds",
			Help:    "Time from the commit of a release until it was live on an agent, of each agent.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
		}),
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "collected_total",
			Help: "What was removed because nobody needs it any more: tombstones, sources, audit_entries, events, personal_versions.",
		}, []string{"what"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "collections_total",
			Help: "Rounds of the collector by their outcome: done or failed.",
		}, []string{"outcome"}),
		moves: movesCounter(),
		grpc: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
			grpcprom.WithHistogramBuckets(prometheus.ExponentialBuckets(0.0005, 2, 14)),
		)),
	}
}

func (m *metrics) wrote(change script.Change, outcome registry.Outcome) {
	m.writes.WithLabelValues(string(change), string(outcome)).Inc()
}

// The outcomes of moves.
const (
	moveMade   = "made"
	moveFailed = "failed"
)

// movesCounter counts each move, so that it is there before the first.
func movesCounter() *prometheus.CounterVec {
	moves := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "candidate_moves_total",
		Help: "Moves of candidates by their plans that this replica made, or failed to store and tries again: advance by a step, promote, or abort.",
	}, []string{"move", "outcome"})
	for _, change := range []script.Change{script.ChangeAdvance, script.ChangePromote, script.ChangeAbort} {
		moves.WithLabelValues(string(change), moveMade)
		moves.WithLabelValues(string(change), moveFailed)
	}
	return moves
}

func (m *metrics) moved(change script.Change, err error) {
	outcome := moveMade
	if err != nil {
		outcome = moveFailed
	}
	m.moves.WithLabelValues(string(change), outcome).Inc()
}

func (m *metrics) took(_ script.Name, took time.Duration) { m.converged.Observe(took.Seconds()) }

func (m *metrics) activated(took time.Duration) { m.active.Observe(took.Seconds()) }

func (m *metrics) collected(c registry.Collected, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	m.rounds.WithLabelValues(outcome).Inc()
	for what, n := range map[string]int{"tombstones": c.Tombstones, "sources": c.Sources, "audit_entries": c.AuditEntries, "events": c.Events, "personal_versions": c.Personal} {
		m.removed.WithLabelValues(what).Add(float64(n))
	}
}

// ignoredByFleet are the counts of reports that the fleet ignored, by the reason.
var ignoredByFleet = map[string]func(fleet.Ignored) uint64{
	"other_fleet":     func(i fleet.Ignored) uint64 { return i.Foreign },
	"stale":           func(i fleet.Ignored) uint64 { return i.Stale },
	"impossible":      func(i fleet.Ignored) uint64 { return i.Impossible },
	"too_many_agents": func(i fleet.Ignored) uint64 { return i.TooMany },
	"too_many_bytes":  func(i fleet.Ignored) uint64 { return i.TooLarge },
	"other_identity":  func(i fleet.Ignored) uint64 { return i.OtherIdentity },
}

// register adds all metrics to r. What the parts count themselves is read when
// the metrics are.
func (m *metrics) register(r prometheus.Registerer, d *Daemon) error {
	own := &figures{collectors: []prometheus.Collector{m.writes, m.converged, m.active, m.removed, m.rounds, m.moves, m.grpc}}
	own.addFeed(d)
	own.addFleet(d)
	for _, c := range own.collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// figures are metrics that are read from the parts.
type figures struct{ collectors []prometheus.Collector }

func (f *figures) counter(name, help string, labels prometheus.Labels, value func() uint64) {
	f.collectors = append(f.collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels,
	}, func() float64 { return float64(value()) }))
}

func (f *figures) gauge(name, help string, labels prometheus.Labels, value func() float64) {
	f.collectors = append(f.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels,
	}, value))
}

// addFeed adds what the registry publishes, hears and holds.
func (f *figures) addFeed(d *Daemon) {
	fan, fl := d.fan, d.fleet
	const failures, ignored, help = "publish_failures_total", "agent_reports_ignored_total", "Reports of agents that were ignored."
	f.counter("events_published_total", "Events published on NATS.", nil, func() uint64 { return fan.Stats().Events })
	f.counter("events_trimmed_total", "Events that were too large for NATS with their sources and went out without.", nil,
		func() uint64 { return fan.Stats().Trimmed })
	f.counter("beacons_published_total", "Beacons published on NATS.", nil, func() uint64 { return fan.Stats().Beacons })
	f.counter(failures, "Events and beacons that were not published.", prometheus.Labels{"reason": "unreachable"},
		func() uint64 { return fan.Stats().Failed })
	f.counter(failures, "Events and beacons that were not published.", prometheus.Labels{"reason": "too_large"},
		func() uint64 { return fan.Stats().Oversized })
	f.counter("agent_reports_total", "Reports received from agents.", nil, func() uint64 { return fan.Stats().Reports })
	for _, reason := range fanout.Reasons() {
		f.counter(ignored, help, prometheus.Labels{"reason": reason}, func() uint64 { return fan.Stats().Refused[reason] })
	}
	for reason, count := range ignoredByFleet {
		f.counter(ignored, help, prometheus.Labels{"reason": reason}, func() uint64 { return count(fl.Counts().Ignored) })
	}
	f.counter("agent_failures_skipped_total", "Failures, and trials of candidates, in agents' reports that could not be read, or that the agents do not follow.", nil,
		func() uint64 { return fan.Stats().Skipped })
	f.gauge("feed_head_revision", "Revision up to which the feed has published every event.", nil,
		func() float64 { return float64(d.feed.Stats().Head) })
	f.gauge("feed_running", "1 while the feed keeps up with etcd.", nil, func() float64 { return flag(d.feed.Stats().Running) })
	f.gauge("fleet_available", "1 while etcd has the fleet that the registry serves; else all calls are refused.", nil,
		func() float64 { return flag(d.Unavailable() == nil) })
	f.gauge("feed_groups", "Groups of agents that the registry makes events for. The group of all tenants counts, too.", nil,
		func() float64 { return float64(d.feed.Stats().Groups) })
	f.gauge("leader", "1 while this replica leads: it publishes.", nil, func() float64 { return flag(d.feed.Stats().Leading) })
	f.gauge("term", "Term of this replica's last lead; 0 if it never led.", nil, func() float64 { return float64(d.feed.Stats().Term) })
	f.counter("takeovers_total", "Times that this replica began to lead.", nil, func() uint64 { return d.feed.Stats().Takeovers })
	f.counter("events_republished_total", "Events that were published again when this replica began to lead.", nil,
		func() uint64 { return d.feed.Stats().Republished })
	f.gauge("mirror_releases", "Releases that are held in memory, tombstones included.", nil, func() float64 { return float64(d.mirror.Size()) })
	for _, kind := range []script.ObjectKind{script.Releases, script.Values, script.Tenants} {
		f.gauge("unreadable_records", "Records in etcd that cannot be read, by their kind. What was live before stays live.",
			prometheus.Labels{"kind": string(kind)}, func() float64 { return float64(d.unreadable(kind)) })
	}
	f.gauge("nats_connected", "1 while NATS is connected.", nil, func() float64 { return flag(fan.Connected()) })
}

// addFleet adds what the registry knows of agents and candidates.
func (f *figures) addFleet(d *Daemon) {
	fl := d.fleet
	for state, count := range map[string]func(fleet.Counts) int{
		"connected": func(c fleet.Counts) int { return c.Connected },
		"unknown":   func(c fleet.Counts) int { return c.Unknown },
		"foreign":   func(c fleet.Counts) int { return c.Foreign },
	} {
		f.gauge("agents", "Agents of the fleet.", prometheus.Labels{"state": state}, func() float64 { return float64(count(fl.Counts())) })
	}
	const troubled, troubles = "agents_troubled", "Connected agents that do not run what they are to run: held, if they keep what the registry says is gone, or failed, if they could not activate a release or do not know a strict audit."
	f.gauge(troubled, troubles, prometheus.Labels{"trouble": "held"}, func() float64 { return float64(fl.Troubled().Held) })
	f.gauge(troubled, troubles, prometheus.Labels{"trouble": "failed"}, func() float64 { return float64(fl.Troubled().Failed) })
	f.gauge("agents_behind_seconds", "How long ago the oldest change was committed that a connected agent follows and has not activated; 0 if there is none.", nil,
		func() float64 { return fl.Troubled().Behind.Seconds() })
	for _, outcome := range query.Outcomes() {
		f.counter("query_answers_total", "Parts of agents' answers to queries by their outcome: only those that are taken count.",
			prometheus.Labels{"outcome": outcome}, func() uint64 { return d.asker.Count(outcome) })
	}
	f.gauge("queries_in_progress", "Queries that wait for answers of agents.", nil, func() float64 { return float64(d.asker.InProgress()) })
	f.gauge("agents_reported_bytes", "What this registry has in memory of what agents report.", nil, func() float64 { return float64(fl.Counts().Reported) })
	f.gauge("agents_remembered_bytes", "What the registries store about agents.", nil, func() float64 { return float64(fl.Counts().Remembered) })
	for state, count := range map[string]func(fleet.CandidateCounts) int{
		"testing":     func(c fleet.CandidateCounts) int { return c.Testing },
		"rolling_out": func(c fleet.CandidateCounts) int { return c.RollingOut },
		"failed":      func(c fleet.CandidateCounts) int { return c.Failed },
		"frozen":      func(c fleet.CandidateCounts) int { return c.Frozen },
	} {
		f.gauge("candidates", "Scripts that have a candidate, by its state.", prometheus.Labels{"state": state},
			func() float64 { return float64(count(fl.CandidateCounts())) })
	}
	f.gauge("candidate_waiting_seconds", "How long the candidate that waits longest is in its step, without the step's pause. Those that failed or are frozen do not count.", nil,
		func() float64 { return fl.CandidateCounts().Longest.Seconds() })
}

// unreadable counts the records of the kind that cannot be read.
func (d *Daemon) unreadable(kind script.ObjectKind) (n int) {
	for _, u := range d.mirror.Unreadable() {
		if u.Kind() == kind {
			n++
		}
	}
	return n
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
