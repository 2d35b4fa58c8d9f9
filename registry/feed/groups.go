package feed

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of groups.
const (
	// MaxGroups of agents that follow some tenants only. A beacon goes to each, each
	// second.
	MaxGroups = 256
	// maxGroupsEach is how many groups one identity adds by one replica, unless it may
	// read all tenants: so that the agents of one team leave room for those of others.
	maxGroupsEach = 64
	// fullPause is how long the store is not asked again when there are too many.
	fullPause = 10 * time.Second
	// groupIdle is how long a group stays that nobody follows.
	groupIdle = time.Hour
)

// GroupStore keeps the groups that there are events for, so that all replicas know
// them. The group of all tenants is not among them. Errors are *script.Error.
type GroupStore interface {
	// PutGroup adds the selector's group, unless there are limit groups already: that
	// is a Limit error.
	PutGroup(ctx context.Context, tenants script.Selector, limit int) error
	// DeleteGroup removes it.
	DeleteGroup(ctx context.Context, tenants script.Selector) error
	// WatchGroups yields all groups at once and at each change, until ctx is done or
	// an error ends it.
	WatchGroups(ctx context.Context) iter.Seq2[[]script.Selector, error]
}

// Groups knows who follows what, and has a feed serve it. It is safe for
// concurrent use.
type Groups struct {
	store GroupStore
	feed  *Feed
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	known map[string]*followed // by the group's name
	added map[string]addition  // by this replica; by the group's name
	full  time.Time            // until when there is no room
}

// addition says who brought a group.
type addition struct {
	by string // the policy's subject
	at time.Time
}

type followed struct {
	tenants script.Selector
	at      time.Time // when it was last seen that somebody does
}

// NewGroups returns the groups of the feed. Clock tells the time; time.Now if nil.
func NewGroups(store GroupStore, f *Feed, clock func() time.Time, log *slog.Logger) *Groups {
	if clock == nil {
		clock = time.Now
	}
	return &Groups{store: store, feed: f, log: log, now: clock, known: map[string]*followed{}, added: map[string]addition{}}
}

// Run keeps up with what other replicas know, until ctx is done.
func (g *Groups) Run(ctx context.Context) {
	registry.RetryForever(ctx, g.log, "watching the groups", func(worked func()) error {
		for all, err := range g.store.WatchGroups(ctx) {
			if err != nil {
				return err
			}
			worked()
			g.replace(all)
			g.feed.SetGroups(all)
		}
		return script.Errorf(script.Unavailable, "", "the watch ended")
	})
}

func (g *Groups) replace(all []script.Selector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.known
	g.known = make(map[string]*followed, len(all))
	for _, tenants := range all {
		name := tenants.Group()
		g.known[name] = before[name]
		if g.known[name] == nil {
			g.known[name] = &followed{tenants: tenants, at: g.now()}
		}
	}
	maps.DeleteFunc(g.added, func(name string, a addition) bool {
		return g.known[name] == nil && g.now().Sub(a.at) > time.Minute // else the watch may not know it yet
	})
}

// Follow says that somebody is about to follow the tenants: it is known to all
// replicas when it returns. The error is Limit if there are too many groups, in all or
// of who asks. Without a group its followers hear nothing, and poll.
func (g *Groups) Follow(ctx context.Context, who access.Identity, tenants script.Selector) error {
	if tenants.All() || g.used(tenants) {
		return nil
	}
	if err := g.admit(who, tenants); err != nil {
		return err
	}
	err := g.store.PutGroup(ctx, tenants, MaxGroups)
	if err != nil {
		g.refused(tenants, err)
	}
	return err
}

// admit notes a group that Follow adds, unless there is no room.
func (g *Groups) admit(who access.Identity, tenants script.Selector) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if now.Before(g.full) {
		return script.Errorf(script.Limit, "tenants", "there are %d groups of agents that follow some tenants only, which is the most: follow what others follow, or all tenants", MaxGroups)
	}
	name := tenants.Group()
	if _, again := g.added[name]; !again && !who.AllowsAll(access.Read, script.Selector{}) && g.addedBy(who.Subject) >= maxGroupsEach {
		return script.Errorf(script.Limit, "tenants", "the agents of %s follow %d different selections of tenants, which is the most: follow what others of them follow", who.Subject, maxGroupsEach)
	}
	g.added[name] = addition{by: who.Subject, at: now}
	return nil
}

// addedBy returns how many groups the subject has brought that are still there.
func (g *Groups) addedBy(subject string) (n int) {
	for _, a := range g.added {
		if a.by == subject {
			n++
		}
	}
	return n
}

// refused forgets a group that could not be added.
func (g *Groups) refused(tenants script.Selector, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.added, tenants.Group())
	if script.KindOf(err) == script.Limit {
		g.full = g.now().Add(fullPause)
	}
}

// used notes the use of a group, and reports whether it is known.
func (g *Groups) used(tenants script.Selector) bool {
	name := tenants.Group()
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.known[name]
	if known != nil {
		known.at = g.now()
	}
	return known != nil
}

// Sweep removes the groups that nobody has followed for an hour; followed are those
// that agents say they follow now. An agent that comes back pulls, and so brings its
// group back.
func (g *Groups) Sweep(ctx context.Context, followed []script.Selector) {
	for _, tenants := range followed {
		g.used(tenants)
	}
	for _, tenants := range g.idle() {
		if err := g.store.DeleteGroup(ctx, tenants); err != nil {
			g.log.Warn("a group that nobody follows was not removed yet", "tenants", tenants, "error", err)
			return
		}
		g.log.Info("nobody follows these tenants any more", "tenants", tenants)
	}
}

func (g *Groups) idle() []script.Selector {
	g.mu.Lock()
	defer g.mu.Unlock()
	var idle []script.Selector
	for _, known := range g.known {
		if g.now().Sub(known.at) >= groupIdle {
			idle = append(idle, known.tenants)
		}
	}
	return idle
}
