package registryd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// events is the timeline's store in etcd. It stores nothing while etcd is nearly full, but that it is.
type events struct {
	*etcdstore.Store
	space *space
}

// PutRecords implements timeline.Store.
func (e events) PutRecords(ctx context.Context, records []timeline.Record) error {
	ofSpace := func(r timeline.Record) bool { return r.Type == script.EventQuota && r.Tenant == "" }
	if err := e.space.check(); err != nil && !slices.ContainsFunc(records, ofSpace) {
		return err
	}
	return e.Store.PutRecords(ctx, records)
}

// newTimeline makes the parts of the timeline.
func (d *Daemon) newTimeline(cfg Config) {
	store := events{d.store, d.space}
	d.hub = timeline.NewHub(store, cfg.Log)
	d.recorder = timeline.NewRecorder(timeline.Config{Store: store, Clock: cfg.Clock, Log: cfg.Log})
	d.timeline = timeline.New(store, d.hub)
}

// noteQuota records what becomes of tenants' quotas on this replica.
func (d *Daemon) noteQuota(n registry.QuotaNews) {
	note := timeline.Note{Type: script.EventQuota, What: "near", Tenant: n.Tenant, About: n.Quota}
	if n.Refused {
		note.What = "refused"
	}
	note.Text = fmt.Sprintf("%s: %d of %d", n.Quota, n.Used, n.Most)
	if n.Used == 0 { // a rate
		note.Text = fmt.Sprintf("%s: %d a second", n.Quota, n.Most)
	}
	d.recorder.Note(note)
}

// watchFleet records what befalls the fleet while this replica leads.
func (d *Daemon) watchFleet(ctx context.Context) {
	select {
	case <-d.fleet.Recalled():
	case <-ctx.Done():
		return
	}
	d.fleet.Observe(d.noteSighting)
	defer func() {
		d.fleet.Observe(nil)
		if !d.fan.Connected() {
			d.recorder.Note(timeline.Note{Type: script.EventAgent, What: "unheard", Text: "the registry cannot reach NATS: it hears no agents, and records nothing of them"})
		}
	}()
	d.look(ctx)
}

// noteSighting is called with the fleet locked.
func (d *Daemon) noteSighting(s fleet.Sighting) {
	note := timeline.Note{Type: script.EventAgent, What: string(s.What), Subject: s.Agent}
	if s.What == fleet.DriftFound || s.What == fleet.DriftRepaired {
		note.Type = script.EventDrift
	}
	d.recorder.Note(note)
}

// fleetLook is the time between two looks at the keys, and at etcd's quota.
const fleetLook = 2 * time.Second

// look records, until ctx is done, the keys that the registry signs with and those of publishers, whenever they
// are others than those that are on record; and when etcd comes near its quota.
func (d *Daemon) look(ctx context.Context) {
	signing, publishers := timeline.NewKeyRecord(d.recorder, "signing"), timeline.NewKeyRecord(d.recorder, "publishers")
	room := roomy
	once := func() {
		err := errors.Join(signing.Look(ctx, d.signingKeys()), publishers.Look(ctx, d.publisherKeys()))
		if err != nil && ctx.Err() == nil {
			d.log.Debug("the timeline does not have the registry's keys yet", "error", err)
		}
		room = d.lookAtSpace(room)
	}
	once()
	every(ctx, fleetLook, once)
}

// The rooms that etcd can have, as events say.
const (
	roomy  = "eased"
	nearly = "near"
	full   = "refused" // the registry refuses what takes room
)

// lookAtSpace records that etcd has another room than before, and returns it.
func (d *Daemon) lookAtSpace(before string) string {
	const nearFull = 0.8
	now, used := roomy, d.space.get()
	switch {
	case d.space.check() != nil:
		now = full
	case used.Quota > 0 && float64(used.Used) >= nearFull*float64(used.Quota):
		now = nearly
	}
	if now != before {
		d.recorder.Note(timeline.Note{Type: script.EventQuota, What: now, About: "etcd", Text: fmt.Sprintf("etcd: %d of %d bytes", used.Used, used.Quota)})
	}
	return now
}

// signingKeys are the keys that messages are signed with, or were.
func (d *Daemon) signingKeys() timeline.Keys {
	keys := timeline.Keys{}
	if id := d.secure.sealer.KeyID(); id != "" {
		keys["signing key"] = id
		if former := d.secure.sealer.KeyIDs()[1:]; len(former) > 0 {
			keys["former keys"] = strings.Join(former, " ")
		}
	}
	return keys
}

// publisherKeys are the keys of tenants' publishers.
func (d *Daemon) publisherKeys() timeline.Keys {
	keys := timeline.Keys{}
	for tenants, ids := range d.secure.tenantKeys.Roots.Trust().KeyIDs {
		if _, ok := keys[tenants.String()]; !ok { // the first rule holds
			keys[tenants.String()] = strings.Join(ids, " ")
		}
	}
	return keys
}

// registerTimeline adds the metrics of the timeline.
func (d *Daemon) registerTimeline(r prometheus.Registerer) error {
	return r.Register(timelineMetrics{d.recorder})
}

// timelineMetrics are what the recorder has counted.
type timelineMetrics struct{ recorder *timeline.Recorder }

func timelineDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
}

var (
	notesDesc   = timelineDesc("timeline_notes_total", "What happened to the fleet, and to quotas, as far as this replica noted it for the timeline, by the type of event.", "type")
	recordsDesc = timelineDesc("timeline_records_total", "Events that this replica stored. One event counts many notes.", "type")
	droppedDesc = timelineDesc("timeline_dropped_total", "Notes that the timeline does not have as they were: merged with those of other tenants, because there were too many, or not stored before the registry stopped.", "type", "reason")
)

// Describe implements prometheus.Collector.
func (timelineMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{notesDesc, recordsDesc, droppedDesc} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (m timelineMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.recorder.Stats()
	for _, t := range timeline.Recorded() {
		counter := func(desc *prometheus.Desc, n uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
		}
		counter(notesDesc, stats.Notes[t], string(t))
		counter(recordsDesc, stats.Records[t], string(t))
		counter(droppedDesc, stats.Merged[t], string(t), "merged")
		counter(droppedDesc, stats.Dropped[t], string(t), "not_stored")
	}
}
