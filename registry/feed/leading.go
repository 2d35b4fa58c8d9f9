package feed

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
)

// Lead has the feed publish from now on, in the term. What the leader before may
// have left unsaid is said again: agents drop what they have.
func (f *Feed) Lead(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = &term{number: number}
	f.stats.Term = number
	f.stats.Takeovers++
	f.backlog.trim(f.now())
	for _, held := range f.backlog.events {
		f.publish(held.event)
		f.stats.Republished++
	}
	if f.now().Sub(f.pulsed) <= freshFor {
		f.beacons() // else with the next pulse: what is known may be long past
	}
}

// freshFor is how long after a pulse the feed is taken to be up to date.
const freshFor = 2 * registry.PulseInterval

// Yield ends the lead. When it returns, nothing is being published.
func (f *Feed) Yield() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = nil
}

// Stats says what the feed does.
func (f *Feed) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Head, s.Groups, s.Leading = f.head, len(f.groups), f.leading != nil
	s.Running = f.fleet != "" && f.now().Sub(f.pulsed) < 3*registry.PulseInterval
	return s
}

// publish publishes one event. The publisher counts failures: agents see the gap at the next beacon.
func (f *Feed) publish(e Event) {
	if err := f.cfg.Publisher.PublishEvent(context.Background(), e); err != nil {
		f.log.Warn("an event was not published; agents will heal by the next beacon or by polling",
			"group", e.Group, "revision", e.Revision, "error", err)
	}
}

// beacons tells each group where it is, if this replica leads.
func (f *Feed) beacons() {
	if f.leading == nil || f.fleet == "" {
		return
	}
	interval := max(minReportInterval, f.cfg.ReportInterval())
	for _, g := range f.groups {
		f.leading.sequence++
		err := f.cfg.Publisher.PublishBeacon(context.Background(), Beacon{
			Group:          g.name,
			Fleet:          f.fleet,
			Head:           f.head,
			Position:       f.cfg.Mirror.Group(g.tenants),
			Unreadable:     f.cfg.Mirror.UnreadableOf(g.tenants),
			Term:           f.leading.number,
			Sequence:       f.leading.sequence,
			ReportInterval: interval,
			Agents:         f.cfg.Agents(g.tenants),
			SentAt:         f.now().UTC(),
		})
		if err != nil {
			f.log.Debug("a beacon was not published; agents poll until one comes", "group", g.name, "error", err)
		}
	}
}

// Bounds of the backlog.
const (
	// backlogTime is longer than it can take until another replica leads.
	backlogTime  = 10 * time.Second
	backlogBytes = 8 << 20
)

// backlog holds the last events: one that takes the lead does not know which of
// them the leader before has published.
type backlog struct {
	events []heldEvent // oldest first
	bytes  int
}

type heldEvent struct {
	at    time.Time
	event Event
	bytes int
}

func (b *backlog) add(at time.Time, e Event) {
	held := heldEvent{at: at, event: e}
	for _, entry := range e.Entries {
		held.bytes += len(entry)
	}
	for _, s := range e.Sources {
		held.bytes += len(s.Content)
	}
	b.bytes += held.bytes
	b.events = append(b.events, held)
}

// trim drops what is too old, and the oldest of what is too much.
func (b *backlog) trim(now time.Time) {
	drop := 0
	for _, held := range b.events {
		if now.Sub(held.at) <= backlogTime && b.bytes <= backlogBytes {
			break
		}
		b.bytes -= held.bytes
		drop++
	}
	clear(b.events[:drop])
	b.events = b.events[drop:]
}
