// Package feed tells the fleet of every change: it turns the store's transactions
// into the events of each group of agents, on every replica the same, and has the
// replica that leads publish them.
package feed

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Event is one transaction, as one group sees it. All of it comes from the store.
type Event struct {
	Group    string
	Fleet    string
	Revision script.Revision
	// Previous is the revision of the group's transaction before. A follower whose
	// revision is lower has a gap.
	Previous script.Revision
	// Entries are sealed, in the order of the transaction.
	Entries [][]byte
	// Sources are those that the transaction announced, in the order of their digests.
	Sources     []registry.Source
	CommittedAt time.Time
	// Removals of the group's objects by registries up to here, if the event removes anything.
	Removals int64
	// Trace that made the transaction; zero if none.
	Trace tracecontext.Context
}

// Beacon says where the feed of a group is.
type Beacon struct {
	Group string
	Fleet string
	// Head is the registry's: every event up to it was published.
	Head script.Revision
	// Position of the group as of Head.
	Position mirror.Position
	// Unreadable are the keys of the group's objects whose records cannot be read.
	Unreadable []string
	// Term of the leader, and Sequence of the beacon within it.
	Term     int64
	Sequence uint64
	// ReportInterval is the least time between two reports of an agent.
	ReportInterval time.Duration
	// Agents of the group that are connected.
	Agents int
	SentAt time.Time
}

// Publisher carries the feed to the fleet. An error means that the fleet did not
// get it; agents then heal by the next beacon, or by polling when there is none.
// It is not called concurrently.
type Publisher interface {
	PublishEvent(ctx context.Context, e Event) error
	PublishBeacon(ctx context.Context, b Beacon) error
}

// Config is what a Feed is made of.
type Config struct {
	// Mirror is kept up to date by the feed: it is not to be projected on otherwise.
	Mirror    *mirror.Mirror
	Publisher Publisher
	// ReportInterval is what beacons ask of agents; 100 ms if nil.
	ReportInterval func() time.Duration
	// Agents returns how many agents that follow the tenants are connected; nil if that is not known.
	Agents func(tenants script.Selector) int
	// Retention is how long tombstones stay in the mirror;
	// registry.DefaultTombstoneRetention if 0.
	Retention time.Duration
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time
	Log   *slog.Logger
}

// Feed is a registry.Projection that makes events and beacons of the transactions,
// and publishes them while it leads. It is safe for concurrent use.
type Feed struct {
	cfg Config
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	fleet   string
	head    script.Revision // up to which all is in the mirror and published
	groups  []*group        // in the order of their names
	backlog backlog
	leading *term // nil while another replica leads
	pulsed  time.Time
	forgot  time.Time // when tombstones were last dropped
	stats   Stats
}

var _ registry.Pulsed = (*Feed)(nil)

// group is one that events are made for.
type group struct {
	name     string
	tenants  script.Selector
	revision script.Revision // of its last event
}

// term is that of a leadership of this replica.
type term struct {
	number   int64
	sequence uint64
}

// Stats says what the feed does, for metrics.
type Stats struct {
	Head        script.Revision
	Groups      int
	Leading     bool
	Term        int64  // of this replica's last leadership; 0 if it never led
	Takeovers   uint64 // how often it began to lead
	Republished uint64 // events that it published again, or for another, when it did
	Running     bool   // it is up to date with the store
}

// minReportInterval of agents.
const minReportInterval = 100 * time.Millisecond

// New returns a feed for the group of all tenants. It does not lead.
func New(cfg Config) *Feed {
	f := &Feed{cfg: cfg, now: cfg.Clock, log: cfg.Log}
	if f.now == nil {
		f.now = time.Now
	}
	if f.cfg.Retention == 0 {
		f.cfg.Retention = registry.DefaultTombstoneRetention
	}
	if f.cfg.ReportInterval == nil {
		f.cfg.ReportInterval = func() time.Duration { return minReportInterval }
	}
	if f.cfg.Agents == nil {
		f.cfg.Agents = func(script.Selector) int { return 0 }
	}
	f.SetGroups(nil)
	return f
}

// SetGroups makes events for the groups of the selectors from now on, and for that
// of all tenants, and for no others.
func (f *Feed) SetGroups(selectors []script.Selector) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[string]script.Selector{script.GroupAll: {}}
	for _, tenants := range selectors {
		wanted[tenants.Group()] = tenants
	}
	kept := f.groups[:0]
	for _, g := range f.groups {
		if _, ok := wanted[g.name]; !ok {
			f.cfg.Mirror.Drop(g.tenants)
			continue
		}
		delete(wanted, g.name)
		kept = append(kept, g)
	}
	for name, tenants := range wanted {
		f.cfg.Mirror.Keep(tenants)
		kept = append(kept, &group{name: name, tenants: tenants, revision: f.cfg.Mirror.Group(tenants).Head})
	}
	slices.SortFunc(kept, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	f.groups = kept
}

// Reset implements registry.Projection. What happened before it becomes no event:
// agents see the gap.
func (f *Feed) Reset(s registry.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.Mirror.Reset(s)
	f.fleet, f.head = s.Fleet, s.Head
	f.backlog = backlog{} // it may be of another fleet, or of a past that a restore has undone
	for _, g := range f.groups {
		g.revision = f.cfg.Mirror.Group(g.tenants).Head
	}
}

// Apply implements registry.Projection.
func (f *Feed) Apply(t registry.Transaction) {
	sources := sources(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.Mirror.Apply(t)
	f.head = t.Revision
	now := f.now()
	for _, g := range f.groups {
		e, ok := f.event(g, t, sources)
		if !ok {
			continue
		}
		f.backlog.add(now, e)
		if f.leading != nil {
			f.publish(e)
		}
	}
	f.backlog.trim(now)
}

// event makes the group's event of the transaction, if it touches the group.
func (f *Feed) event(g *group, t registry.Transaction, sources []registry.Source) (Event, bool) {
	e := Event{Group: g.name, Fleet: f.fleet, Revision: t.Revision, Previous: g.revision, Trace: t.Trace}
	var inline []script.Digest
	for o := range t.Objects() {
		if !g.tenants.Matches(o.TenantName()) {
			continue
		}
		e.CommittedAt = o.ChangedAt()
		if o.Deleted() {
			e.Removals = f.cfg.Mirror.Group(g.tenants).Removed
		}
		for c := range o.Contents {
			inline = append(inline, c.Digest)
		}
		g.revision = t.Revision
		for _, entry := range f.cfg.Mirror.Entries(o.Key()) {
			sealed, err := entry.Sealed()
			if err != nil {
				f.log.Error("an event goes out without an entry", "object", o.Key(), "error", err)
				continue
			}
			e.Entries = append(e.Entries, sealed)
		}
	}
	for i := range t.Unreadable { // it has no entry, but those who follow are to pass it
		if g.tenants.Matches(t.Unreadable[i].TenantName()) {
			g.revision = t.Revision
		}
	}
	for _, s := range sources {
		if slices.Contains(inline, s.Digest) {
			e.Sources = append(e.Sources, s)
		}
	}
	return e, g.revision == t.Revision
}

// sources returns what travels along with the transaction, in the order of the digests. The
// feed reads nothing: agents fetch what does not come along.
func sources(t registry.Transaction) []registry.Source {
	return slices.SortedFunc(slices.Values(t.Sources), func(a, b registry.Source) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
}

// Pulse implements registry.Pulsed: it is the time for beacons.
func (f *Feed) Pulse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.pulsed = now
	f.backlog.trim(now)
	if now.Sub(f.forgot) >= time.Minute {
		f.forgot = now
		f.cfg.Mirror.Forget(now.Add(-f.cfg.Retention))
	}
	f.beacons()
}
